package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/shardsched/shardsched/cmd/internal/console"
	"github.com/shardsched/shardsched/cmd/internal/workload"
	"github.com/shardsched/shardsched/coordinator"
	"github.com/shardsched/shardsched/coordinator/config"
	"github.com/shardsched/shardsched/coordinator/framework"
	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/coordinator/record"
)

// offline is what `shardsched console -f` shows: files, and no live scheduler.
type offline struct {
	files         []string
	namespace     string
	skipInvalid   bool
	simulate      bool
	configuration Configuration
	plugins       framework.Registry
	// open serves a handler until ctx ends.
	open func(ctx context.Context, h http.Handler) error
	// childEnv is the environment of simulations, beside what bounds them.
	childEnv []string
}

// run serves the console of the files until ctx ends.
func (o *offline) run(ctx context.Context, s Streams) error {
	configuration, err := o.configuration.load()
	if err != nil {
		return err
	}
	ctx = withPlainLog(ctx, s.Err)
	records, err := o.records()
	if err != nil {
		return err
	}
	if records {
		return o.showRecord(ctx, s, configuration)
	}
	return o.showDump(ctx, s, configuration)
}

// records tells whether the files are a flight recorder's, by what they hold. Files of both kinds are refused.
func (o *offline) records() (bool, error) {
	var dump, of string
	for _, name := range o.files {
		is, err := isRecord(name)
		switch {
		case err != nil:
			return false, err
		case is:
			of = name
		default:
			dump = name
		}
	}
	if dump != "" && of != "" {
		return false, usagef("-f %s is a record of a scheduler, and -f %s is none: give one or the other", of, dump)
	}
	return of != "", nil
}

// isRecord tells whether a file begins as a flight recorder's: with the message that opens a term. Standard input and folders do not.
func isRecord(name string) (bool, error) {
	if name == "-" {
		return false, nil
	}
	f, err := os.Open(name)
	if err != nil {
		return false, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || info.IsDir() {
		return false, err
	}
	first := make([]byte, 4<<10)
	n, err := io.ReadFull(f, first)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
		return false, err
	}
	r, err := record.NewReader(bytes.NewReader(first[:n])).Next()
	return err == nil && r.GetBegin() != nil, nil
}

// scheduler configures a scheduler for so many nodes.
func (o *offline) scheduler(c *config.Config, nodes int) (coordinator.SchedulerConfig, error) {
	m := simulation{sharding: Sharding{Cluster: "offline"}, config: c, plugins: o.plugins}
	return m.scheduler(newRegistry(), nodes)
}

// showDump shows objects: as they are, or as they are once all pods that wait are decided.
func (o *offline) showDump(ctx context.Context, s Streams, c *config.Config) error {
	in, err := (&kubeAccess{}).readInput(ctx, s, false, inputRequest{
		Paths: o.files, Namespace: o.namespace, SkipInvalid: o.skipInvalid, Create: true,
	})
	if err != nil {
		return err
	}
	in.asItIs()
	cfg, err := o.scheduler(c, len(in.Nodes))
	if err != nil {
		return err
	}
	source, say := "dump "+strings.Join(o.files, ", "), "as it is: nothing is decided"
	if cfg.Observe, cfg.FreeClaims = !o.simulate, o.simulate; o.simulate {
		source, say = "simulation of "+strings.Join(o.files, ", "), "once its pods are decided"
	}
	w, err := newWorld(ctx, source, cfg, &objects.Snapshot{Nodes: in.Nodes, Pods: in.Pods, Cluster: in.Cluster})
	if err != nil {
		return err
	}
	if o.simulate {
		report := newProgress(s, waiting(in.Pods))
		err = watchUntilIdle(ctx, w.Scheduler, report.update)
		report.done()
	} else {
		err = w.Recall(ctx, coordinator.Past{Refused: refusedBefore(in.Pods)})
	}
	if err == nil {
		fmt.Fprintf(s.Err, "%s, %s\n", numbered(len(in.Nodes), "node"), say)
		err = o.serve(ctx, console.Config{Conn: w.conn, Version: Version(), Source: source, Command: s.program(), WhatIf: o.whatIf()}, nil)
	}
	return errors.Join(err, w.end())
}

// whatIf tries changes on the files, as they are.
func (o *offline) whatIf() *console.WhatIf {
	args := []string{"--namespace=" + o.namespace}
	for _, name := range o.files {
		if name == "-" {
			return &console.WhatIf{Missing: "The dump came by standard input, which can be read once: give a file to try changes on."}
		}
		args = append(args, "--filename="+name)
	}
	if o.skipInvalid {
		args = append(args, "--skip-invalid")
	}
	if name := o.configuration.Config; name != "" {
		args = append(args, "--config="+name)
	}
	m := newSimulator(nil, args...)
	m.env = o.childEnv
	return &console.WhatIf{Answer: m.answer, Command: append([]string{"simulate"}, args...), Copy: "The copy is made of the dump's files."}
}

// asItIs makes one of what is there and what is asked for besides: manifests that stand for no pod of the cluster are pods that wait.
func (in *Input) asItIs() {
	a := in.Asked
	if a == nil {
		return
	}
	in.Asked = nil
	there := make([]runtime.Object, len(in.Pods))
	for i, p := range in.Pods {
		there[i] = p
	}
	come := a.Pods
	expander := workload.New(in.Nodes, there)
	for _, w := range a.Workloads {
		come = append(come, expander.Expand(w).Pods...)
	}
	for _, p := range come {
		objects.Default(p)
		a.Admit(p)
	}
	in.Pods, in.Cluster = append(in.Pods, come...), append(in.Cluster, a.Objects...)
	create(in)
	objects.Sort(in.Cluster)
}

// refusedBefore is what pods without a node say of their last attempts, by their condition PodScheduled.
func refusedBefore(pods []*v1.Pod) map[types.UID]coordinator.Refusal {
	all := map[types.UID]coordinator.Refusal{}
	for _, p := range pods {
		for _, c := range p.Status.Conditions {
			if p.Spec.NodeName == "" && c.Type == v1.PodScheduled && c.Status == v1.ConditionFalse && c.Message != "" {
				all[p.UID] = coordinator.Refusal{Attempts: 1, Message: c.Message, Failed: c.Reason == coordinator.ReasonSchedulerError,
					At: c.LastTransitionTime.Time}
			}
		}
	}
	return all
}

// serve serves a console, in a handler of its own where wrap makes one.
func (o *offline) serve(ctx context.Context, cfg console.Config, wrap func(*console.Console) http.Handler) error {
	c, err := console.New(cfg)
	if err != nil {
		return err
	}
	var h http.Handler = c
	if wrap != nil {
		h = wrap(c)
	}
	return o.open(ctx, h)
}
