package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"

	v1 "k8s.io/api/core/v1"
)

// input is the trace as objects, and the file that holds them.
type input struct {
	path  string
	nodes []*v1.Node
	pods  []*v1.Pod
}

// convert makes objects of the trace, or of the generator where there is none.
func (b *traceRun) convert(ctx context.Context, r *report) (*input, error) {
	in := &input{path: filepath.Join(b.dir, "openb.json")}
	args := []string{"convert", "openb", "-o", "json", "--file", in.path}
	nodes := filepath.Join(b.data, "openb_node_list_all_node.csv")
	if _, err := os.Stat(nodes); errors.Is(err, fs.ErrNotExist) {
		r.Source = fmt.Sprintf("generated in the shape of openb (%s is absent)", b.data)
		args = append(args, "--demo")
	} else {
		r.Source = "openb " + b.trace
		args = append(args, "--nodes", nodes, "--pods", filepath.Join(b.data, "openb_pod_list_"+b.trace+".csv"))
	}
	if out, err := exec.CommandContext(ctx, b.binary, args...).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("convert the trace: %w\n%s", err, out)
	}
	if err := in.read(); err != nil {
		return nil, err
	}
	if b.seed != 0 {
		random := rand.New(rand.NewPCG(b.seed, 0))
		random.Shuffle(len(in.pods), func(i, j int) { in.pods[i], in.pods[j] = in.pods[j], in.pods[i] })
		if err := in.write(); err != nil {
			return nil, err
		}
	}
	r.Nodes, r.Pods = len(in.nodes), len(in.pods)
	return in, nil
}

func (in *input) read() error {
	raw, err := os.ReadFile(in.path)
	if err != nil {
		return err
	}
	var list struct{ Items []json.RawMessage }
	if err := json.Unmarshal(raw, &list); err != nil {
		return fmt.Errorf("%s: %w", in.path, err)
	}
	for i, item := range list.Items {
		var kind struct{ Kind string }
		node, pod := &v1.Node{}, &v1.Pod{}
		err := json.Unmarshal(item, &kind)
		switch {
		case err != nil:
		case kind.Kind == "Node":
			err = json.Unmarshal(item, node)
			in.nodes = append(in.nodes, node)
		case kind.Kind == "Pod":
			err = json.Unmarshal(item, pod)
			if pod.Namespace == "" {
				pod.Namespace = v1.NamespaceDefault
			}
			in.pods = append(in.pods, pod)
		default:
			err = fmt.Errorf("kind %q", kind.Kind)
		}
		if err != nil {
			return fmt.Errorf("%s: items[%d]: %w", in.path, i, err)
		}
	}
	return nil
}

func (in *input) write() error {
	list := struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
		Items      []any  `json:"items"`
	}{"v1", "List", nil}
	for _, n := range in.nodes {
		list.Items = append(list.Items, n)
	}
	for _, p := range in.pods {
		list.Items = append(list.Items, p)
	}
	raw, err := json.Marshal(list)
	if err != nil {
		return err
	}
	return os.WriteFile(in.path, raw, 0o644)
}
