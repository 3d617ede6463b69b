package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/shardsched/shardsched/bench/cluster/controlplane/testbed"
	"github.com/shardsched/shardsched/internal/testkit/build"
)

const (
	zones = 3
	// tenants is how many namespaces the running pods are in.
	tenants = 500
	// features is how many labels nodes have that have many; the first varied of them have one of many values.
	features, varied, variety = 300, 40, 1000
)

// feature is the key of a label of nodes that have many.
func feature(i int) string { return fmt.Sprintf("feature.node.kubernetes.io/f-%03d", i) }

// cluster is what is there before the scheduler: nodes, namespaces, and pods that run.
func (s size) cluster(labelled bool) (first, then []runtime.Object) {
	namespaces := min(tenants, s.pods)
	for i := range s.nodes {
		first = append(first, s.node(i, labelled))
	}
	for i := range namespaces {
		first = append(first, build.Namespace(fmt.Sprintf("tenant-%03d", i)))
	}
	for i := range s.pods {
		then = append(then, build.Pod(fmt.Sprintf("running-%05d", i)).Namespace(fmt.Sprintf("tenant-%03d", i%namespaces)).
			Label("app", fmt.Sprintf("app-%d", i%10)).CPU("100m").Memory("128Mi").Node(fmt.Sprintf("node-%05d", i%s.nodes)).Obj())
	}
	return first, then
}

func (s size) node(i int, labelled bool) runtime.Object {
	name, r := fmt.Sprintf("node-%05d", i), s.random(i)
	n := build.Node(name).CPU("64").Memory("256Gi").Label("kubernetes.io/hostname", name).Zone(fmt.Sprintf("zone-%d", i%zones))
	for k := 0; labelled && k < features; k++ {
		value := "true"
		if k < varied {
			value = fmt.Sprintf("v-%d", r.IntN(variety))
		}
		n.Label(feature(k), value)
	}
	return n.Obj()
}

// measure returns the report of as many cases as it could measure.
func (o *options) measure(ctx context.Context, progress io.Writer) (r *report, err error) {
	if err := os.MkdirAll(o.dir, 0o755); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(o.dir, "hostile-")
	if err != nil {
		return nil, err
	}
	if r, err = newReport(ctx, o, dir); err == nil {
		err = o.run(ctx, r, dir, progress)
	}
	if err != nil {
		return r, fmt.Errorf("%w (processes' output: %s)", err, dir)
	}
	return r, os.RemoveAll(dir)
}

func (o *options) run(ctx context.Context, r *report, dir string, progress io.Writer) error {
	programs := filepath.Join(dir, "programs")
	if err := os.MkdirAll(programs, 0o755); err != nil {
		return err
	}
	fmt.Fprintln(progress, "building; the first time takes some minutes")
	if err := testbed.BuildIn(ctx, programs); err != nil {
		return err
	}
	if o.churn > 0 {
		return o.churns(ctx, r, programs, dir, progress)
	}
	data := map[bool]string{}
	for _, a := range o.attacks {
		if data[a.labelled] == "" {
			var err error
			if data[a.labelled], err = o.prepare(ctx, programs, dir, a.labelled); err != nil {
				return err
			}
		}
		for _, side := range o.sides {
			at := filepath.Join(dir, a.name+"-"+side)
			f, err := o.one(ctx, data[a.labelled], programs, at, side, a)
			if err != nil {
				return fmt.Errorf("%s, %s: %w", a.name, side, err)
			}
			f.judge(r.Cases)
			fmt.Fprintf(progress, "%s\n", f)
			r.Cases = append(r.Cases, f)
			if err := os.RemoveAll(at); err != nil {
				return err
			}
		}
	}
	return nil
}

// prepare makes the cluster in a folder, and returns that of etcd's data.
func (o *options) prepare(ctx context.Context, programs, dir string, labelled bool) (string, error) {
	dir = filepath.Join(dir, fmt.Sprintf("labelled-%v", labelled))
	bed, err := testbed.Start(ctx, testbed.Config{Dir: dir, Programs: programs, NoAudit: true})
	if err != nil {
		return "", err
	}
	defer bed.Close()
	first, then := o.cluster(labelled)
	if err := bed.CreateAll(ctx, first...); err != nil {
		return "", err
	}
	return testbed.Data(dir), bed.CreateAll(ctx, then...)
}
