package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/shardsched/shardsched/cmd/internal/manifest"
	"github.com/shardsched/shardsched/cmd/internal/otlp"
	"github.com/shardsched/shardsched/cmd/internal/workload"
	"github.com/shardsched/shardsched/coordinator"
	"github.com/shardsched/shardsched/coordinator/framework"
	"github.com/shardsched/shardsched/coordinator/groups"
	"github.com/shardsched/shardsched/coordinator/objects"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// defaultMorePods bounds how many pods are tried unless --limit says otherwise.
const defaultMorePods = 100_000

// maxMorePods bounds --limit: each pod is held in memory.
const maxMorePods = 1_000_000

type capacityOptions struct {
	SimulateOptions
	pod   string
	limit int
}

func newCapacityCommand(s Streams, plugins framework.Registry) *cobra.Command {
	var o capacityOptions
	o.plugins = plugins
	o.Sharding = Sharding{Cluster: "capacity", Replicas: 1}
	c := &cobra.Command{
		Use:     "capacity -f PATH --pod FILE",
		GroupID: groupRun,
		Short:   "How many more such pods fit, by zone, and what runs out first",
		Long: `Place copies of a pod on a cluster, in memory, until the next one fits nowhere:
with the scheduler's own decisions, every rule and the configuration's plugins
included. The pod is that of --pod, whatever node it names, or what a workload's
template there makes. Pods of the cluster that wait for a node are left out,
nobody is preempted, and extenders are not asked. The exit code is 0 also where
none fits.`,
		Example: `  shardsched capacity -f cluster.json --pod pod.yaml
  shardsched capacity --live --kubeconfig view.conf --pod deployment.yaml -o json`,
		Args: onlyFiles,
		RunE: func(c *cobra.Command, _ []string) error {
			if o.WriteConfigTo != "" {
				return o.Configuration.write(c.OutOrStdout())
			}
			if err := o.check(); err != nil {
				return err
			}
			return o.run(c.Context(), s)
		},
	}
	fs := c.Flags()
	addFileFlags(fs, &o.Files, &o.SkipInvalid, "the cluster")
	fs.BoolVar(&o.Live, "live", false, "read the cluster of --kubeconfig, as shardsched snapshot would write it")
	o.kubernetes.addFlags(fs, "that --live reads")
	fs.StringVar(&o.pod, "pod", "", "`FILE` with one pod or workload; -: standard input")
	fs.IntVar(&o.limit, "limit", defaultMorePods, "pods to try at the most")
	fs.StringVarP(&o.Namespace, "namespace", "n", "default", "namespace of objects that name none")
	o.Configuration.addFlags(fs)
	o.podGroups = groups.All()
	addOutputFlag(fs, &o.Output, "text", "json")
	return c
}

func (o *capacityOptions) check() error {
	switch {
	case len(o.Files) == 0 && !o.Live:
		return usagef("-f is required: give files with the cluster, or --live")
	case o.kubernetes.given() && !o.Live:
		return usagef("--kubeconfig and --context: they are about the cluster that --live reads; give --live, too")
	case o.pod == "":
		return usagef("--pod is required: a file with the pod that is to be counted")
	case o.limit < 1 || o.limit > maxMorePods:
		return usagef("--limit: %d is not between 1 and %d", o.limit, maxMorePods)
	}
	return oneOf("output", o.Output, "text", "json")
}

func (o *capacityOptions) run(ctx context.Context, s Streams) error {
	configuration, err := o.Configuration.load()
	if err != nil {
		return err
	}
	request := inputRequest{Paths: o.Files, Namespace: o.Namespace, SkipInvalid: o.SkipInvalid, Create: true}
	in, err := o.kubernetes.readInput(ctx, s, o.Live, request)
	if err != nil {
		return err
	}
	model, err := o.model(s, in)
	if err != nil {
		return err
	}
	if err := tellOfExtenders(s.Err, configuration, false, []*v1.Pod{model}); err != nil {
		return err
	}
	in.Pods = slices.DeleteFunc(in.Pods, func(p *v1.Pod) bool { return p.Spec.NodeName == "" })
	f := &filler{in: in, model: model, limit: o.limit, placed: map[string]int{}}
	m := simulation{sharding: o.Sharding, config: configuration, plugins: o.plugins, drive: f,
		tracing: otlp.Options{RatePerMillion: -1}}
	if _, err := m.run(ctx, in, func(*pb.Summary) {}); err != nil {
		return err
	}
	answer := f.answer()
	if o.Output == "json" {
		encoder := json.NewEncoder(s.Out)
		encoder.SetIndent("", "  ")
		return encoder.Encode(answer)
	}
	return answer.print(s.Out)
}

// model is the pod that is counted, filled in as an API server would.
func (o *capacityOptions) model(s Streams, in *Input) (*v1.Pod, error) {
	set, err := manifest.Read([]string{o.pod}, manifest.Options{Stdin: s.In, Namespace: o.Namespace, Check: checkObject}, &manifest.Report{})
	if err != nil {
		return nil, err
	}
	var of manifest.Object
	var model *v1.Pod
	for _, obj := range set.Objects {
		made := workload.Model(obj.Value)
		if p, isPod := obj.Value.(*v1.Pod); isPod {
			made = p.DeepCopy()
		}
		switch {
		case made == nil:
		case model != nil:
			return nil, obj.Error("", fmt.Sprintf("one pod or workload is wanted, and there is %s", of))
		default:
			of, model = obj, made
		}
	}
	if model == nil {
		return nil, fmt.Errorf("%s: neither a pod nor a workload in it", o.pod)
	}
	if set, is := of.Value.(*appsv1.StatefulSet); is && len(set.Spec.VolumeClaimTemplates) > 0 {
		return nil, of.Error("spec.volumeClaimTemplates", "pods that come with claims of their own can't be counted")
	}
	if model.Spec.SchedulingGroup != nil {
		return nil, of.Error("spec.schedulingGroup", "members of a PodGroup are placed together, and can't be counted one by one: leave it out, "+
			"or ask simulate whether the PodGroup starts")
	}
	never := v1.PreemptNever
	model.UID, model.ResourceVersion, model.OwnerReferences = "", "", nil
	model.Status, model.Spec.NodeName, model.Spec.PreemptionPolicy = v1.PodStatus{}, "", &never
	objects.Default(model)
	if len(objects.EphemeralClaims(model)) > 0 || len(model.Spec.ResourceClaims) > 0 {
		return nil, of.Error("", "pods that come with claims of their own can't be counted")
	}
	unknown, refused := in.admit(model)
	for _, r := range unknown {
		fmt.Fprintf(s.Err, "warning: %v\n", of.Error(r.Field.String(), r.Problem))
	}
	var errs manifest.Errors
	for _, r := range refused {
		errs = append(errs, of.Error(r.Field.String(), r.Problem))
	}
	if len(errs) > 0 {
		return nil, errs
	}
	objects.MergeLabelKeys(model, model.Labels)
	return model, nil
}

// filler puts copies of a pod on a cluster until one has no place.
type filler struct {
	coordinator.Silent
	in    *Input
	model *v1.Pod
	limit int

	mu      sync.Mutex
	placed  map[string]int // by node
	refused string         // a pod that has no place; empty: all have

	explanation *pb.ExplainResponse
}

// Waves of copies: the first is small, for often few fit.
const (
	firstWave = 256
	maxWave   = 16384
)

func (f *filler) begin(*coordinator.Scheduler) *objects.Snapshot {
	return &objects.Snapshot{Nodes: f.in.Nodes, Pods: f.in.Pods, Cluster: f.in.Cluster}
}

func (f *filler) configure(c *coordinator.SchedulerConfig) { c.Reporter = f }

// run is part of driver. The scheduler is idle.
func (f *filler) run(ctx context.Context, s *coordinator.Scheduler) error {
	taken := map[string]bool{}
	for _, p := range f.in.Pods {
		taken[p.Namespace+"/"+p.Name] = true
	}
	for sent, wave, number := 0, firstWave, 0; sent < f.limit && f.without() == ""; wave = min(2*wave, maxWave) {
		var events []objects.Event
		for ; len(events) < min(wave, f.limit-sent); number++ {
			p := f.model.DeepCopy()
			p.Name = fmt.Sprintf("%.50s-more-%d", f.model.Name, number)
			if p.UID = types.UID(p.Name); !taken[p.Namespace+"/"+p.Name] {
				events = append(events, objects.Event{Type: objects.Added, Kind: objects.KindPod, Pod: p})
			}
		}
		sent += len(events)
		s.Deliver(events)
		if err := s.Idle(ctx); err != nil {
			return err
		}
	}
	name := f.without()
	if name == "" {
		return nil
	}
	answer, err := s.Explain(ctx, &pb.ExplainRequest{Namespace: f.model.Namespace, Name: name})
	if err != nil {
		return fmt.Errorf("explain what runs out: %w", err)
	}
	f.explanation = answer
	return nil
}

// without is a pod that has no place; empty: none is.
func (f *filler) without() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.refused
}

// Scheduled is part of coordinator.Reporter.
func (f *filler) Scheduled(_ *v1.Pod, node string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.placed[node]++
}

// Unscheduled is part of coordinator.Reporter.
func (f *filler) Unscheduled(p *v1.Pod, _, _ string, _ *objects.Nominating) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.refused = p.Name
}

// room is the answer.
type room struct {
	Pod string `json:"pod"`
	// Fit is how many more fit; AtLeast: so many were tried, and all fit.
	Fit     int        `json:"fit"`
	AtLeast bool       `json:"atLeast,omitempty"`
	Zones   []zoneRoom `json:"zones"`
	// RunsOut is what the next pod lacks, that of most nodes first.
	RunsOut []lack `json:"runsOut,omitempty"`
	Help    string `json:"help,omitempty"`
}

type zoneRoom struct {
	Zone  string `json:"zone"` // empty: of nodes without a zone
	Fit   int    `json:"fit"`
	Nodes int    `json:"nodes"` // that take any
	Of    int    `json:"of"`    // all nodes of the zone
}

type lack struct {
	Reason string `json:"reason"`
	Nodes  int    `json:"nodes"`
}

func (f *filler) answer() *room {
	r := &room{Pod: f.model.Namespace + "/" + f.model.Name, AtLeast: f.refused == ""}
	zones := map[string]*zoneRoom{}
	for _, n := range f.in.Nodes {
		zone := n.Labels[v1.LabelTopologyZone]
		if zones[zone] == nil {
			zones[zone] = &zoneRoom{Zone: zone}
		}
		z := zones[zone]
		z.Of++
		if here := f.placed[n.Name]; here > 0 {
			z.Nodes++
			z.Fit += here
			r.Fit += here
		}
	}
	for _, zone := range slices.Sorted(maps.Keys(zones)) {
		r.Zones = append(r.Zones, *zones[zone])
	}
	for _, c := range f.explanation.GetReasons() {
		r.RunsOut = append(r.RunsOut, lack{c.GetReason(), int(c.GetNodes())})
	}
	slices.SortFunc(r.RunsOut, func(a, b lack) int { return cmp.Or(b.Nodes-a.Nodes, strings.Compare(a.Reason, b.Reason)) })
	r.Help = helpText(f.explanation.GetCauses())
	return r
}

func (r *room) print(out io.Writer) error {
	var b strings.Builder
	fit := "fit"
	if r.Fit == 1 {
		fit = "fits"
	}
	if r.AtLeast {
		fmt.Fprintf(&b, "at least %s like %s %s: --limit has no more tried\n\n", numbered(r.Fit, "more pod"), r.Pod, fit)
	} else {
		fmt.Fprintf(&b, "%s like %s %s\n\n", numbered(r.Fit, "more pod"), r.Pod, fit)
	}
	var zones, lacks [][]string
	for _, z := range r.Zones {
		zones = append(zones, []string{cmp.Or(z.Zone, "none"), fmt.Sprint(z.Fit), fmt.Sprintf("%d of %d", z.Nodes, z.Of)})
	}
	for _, l := range r.RunsOut {
		lacks = append(lacks, []string{l.Reason, fmt.Sprint(l.Nodes)})
	}
	err := newTable(&b, "ZONE", "FIT", "NODES").print(zones...)
	if len(lacks) > 0 {
		b.WriteString("\n")
		err = errors.Join(err, newTable(&b, "THE NEXT ONE LACKS", "NODES").print(lacks...))
	}
	if r.Help != "" {
		fmt.Fprintf(&b, "\nwould help: %s\n", r.Help)
	}
	_, written := io.WriteString(out, b.String())
	return errors.Join(err, written)
}
