package policy

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/shardsched/shardsched/coordinator/config"
)

// ConfigMapKey is where a ConfigMap holds its Policy.
const ConfigMapKey = "policy.cfg"

// Names of algorithm providers.
const (
	DefaultProvider           = "DefaultProvider"
	ClusterAutoscalerProvider = "ClusterAutoscalerProvider"
)

// Providers are the algorithm providers that a kube-scheduler had. Programs that had a copy of it
// registered more ("TalkintDataProvider"), each with lists of its own.
func Providers() []string { return []string{ClusterAutoscalerProvider, DefaultProvider} }

// Provider is what --algorithm-provider stands for.
func Provider(name string) (*Policy, error) {
	if !slices.Contains(Providers(), name) {
		return nil, fmt.Errorf("algorithm provider %q is not registered: kube-scheduler has %s", clip(name),
			strings.Join(Providers(), " and "))
	}
	return &Policy{File: name, provider: name}, nil
}

// ParseConfigMap reads the Policy of a ConfigMap that is written as a manifest. Of several documents it is the
// only ConfigMap with the key.
func ParseConfigMap(file string, data []byte) (*Policy, error) {
	if len(data) > 4*maxBytes {
		return nil, &config.Error{File: file, Problem: fmt.Sprintf("larger than %d MiB", 4*maxBytes>>20)}
	}
	if start := bytes.TrimSpace(data); len(start) > 0 && start[0] == '{' {
		data = bytes.ReplaceAll(data, []byte("\t"), []byte(" "))
	}
	var found []*yaml.Node
	in := yaml.NewDecoder(bytes.NewReader(data))
	for {
		var doc yaml.Node
		err := in.Decode(&doc)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, (&decoder{file: file}).syntax(err)
		}
		if text := policyOf(&doc); text != nil {
			found = append(found, text)
		}
	}
	switch {
	case len(found) == 0:
		return nil, &config.Error{File: file, Problem: fmt.Sprintf("no ConfigMap with the key %q", ConfigMapKey)}
	case len(found) > 1:
		return nil, &config.Error{File: file, Line: found[1].Line,
			Problem: fmt.Sprintf("a second ConfigMap with the key %q; expected one", ConfigMapKey)}
	}
	text, after := found[0], found[0].Line-1
	if text.Style&yaml.LiteralStyle != 0 {
		after++ // the text begins below the key
	}
	return parse(file, []byte(text.Value), after)
}

// policyOf is the text of a ConfigMap's Policy; nil: the document is no ConfigMap, or has none.
func policyOf(doc *yaml.Node) *yaml.Node {
	if doc.Kind != yaml.DocumentNode || len(doc.Content) != 1 {
		return nil
	}
	top := doc.Content[0]
	if kind := entry(top, "kind"); kind == nil || kind.Value != "ConfigMap" {
		return nil
	}
	text := entry(entry(top, "data"), ConfigMapKey)
	if text == nil || text.Kind != yaml.ScalarNode {
		return nil
	}
	return text
}

// entry is a mapping's value; nil: there is none.
func entry(n *yaml.Node, name string) *yaml.Node {
	if n == nil || n.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == name {
			return n.Content[i+1]
		}
	}
	return nil
}
