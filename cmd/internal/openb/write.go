package openb

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"
)

// Write writes nodes, then pods: as yaml, a document each; as json, one List with
// a line each.
func Write(w io.Writer, format string, nodes []*v1.Node, pods []*v1.Pod) error {
	b := bufio.NewWriterSize(w, 1<<20)
	var err error
	switch format {
	case "yaml":
		err = each(nodes, pods, func(_ int, obj runtime.Object) error { return writeYAML(b, obj) })
	case "json":
		err = writeList(b, nodes, pods)
	default:
		return fmt.Errorf("format %q is not yaml or json", format)
	}
	if err != nil {
		return err
	}
	return b.Flush()
}

func each(nodes []*v1.Node, pods []*v1.Pod, do func(int, runtime.Object) error) error {
	for i, n := range nodes {
		if err := do(i, n); err != nil {
			return err
		}
	}
	for i, p := range pods {
		if err := do(len(nodes)+i, p); err != nil {
			return err
		}
	}
	return nil
}

// encode is an object's JSON without the empty parts that its Go type always
// writes.
func encode(obj runtime.Object) ([]byte, error) {
	text, err := json.Marshal(obj)
	if err != nil {
		return nil, err
	}
	for _, empty := range []string{
		`,"daemonEndpoints":{"kubeletEndpoint":{"Port":0}}`,
		`,"nodeInfo":{"machineID":"","systemUUID":"","bootID":"","kernelVersion":"","osImage":"","containerRuntimeVersion":"",` +
			`"kubeletVersion":"","kubeProxyVersion":"","operatingSystem":"","architecture":""}`,
		`,"spec":{}`, `,"status":{}`,
	} {
		text = bytes.Replace(text, []byte(empty), nil, 1)
	}
	return text, nil
}

func writeYAML(w io.Writer, obj runtime.Object) error {
	text, err := encode(obj)
	if err == nil {
		text, err = yaml.JSONToYAML(text)
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "---\n%s", text)
	return err
}

func writeList(w io.Writer, nodes []*v1.Node, pods []*v1.Pod) error {
	io.WriteString(w, `{"apiVersion":"v1","kind":"List","items":[`)
	err := each(nodes, pods, func(i int, obj runtime.Object) error {
		text, err := encode(obj)
		if err != nil {
			return err
		}
		separator := ",\n"
		if i == 0 {
			separator = "\n"
		}
		_, err = fmt.Fprintf(w, "%s%s", separator, text)
		return err
	})
	if err != nil {
		return err
	}
	_, err = io.WriteString(w, "\n]}\n")
	return err
}
