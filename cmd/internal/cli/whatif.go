package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"

	"github.com/shardsched/shardsched/cmd/internal/client"
	"github.com/shardsched/shardsched/cmd/internal/manifest"
	"github.com/shardsched/shardsched/cmd/internal/plainjson"
	"github.com/shardsched/shardsched/cmd/internal/whatif"
	"github.com/shardsched/shardsched/cmd/internal/workload"
	"github.com/shardsched/shardsched/coordinator"
	"github.com/shardsched/shardsched/coordinator/config"
	"github.com/shardsched/shardsched/coordinator/groups"
	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/coordinator/observe"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// errPends says that something of a change has no place.
var errPends = errors.New("not all of the change is placed")

// drive leads a simulated cluster from what is there through a change, beside its scheduler.
type drive struct {
	coordinator.Silent
	cluster *whatif.Cluster
	change  whatif.Change
	deliver func([]objects.Event)
	// explain is what is to be explained in the end; nil: nothing.
	explain     *subject
	explanation *pb.ExplainResponse
	report      *whatif.Report
	// log is the scheduler's. It is not to tell of preemptions: the report does.
	log klog.Logger

	mu sync.Mutex
	// seen is what the scheduler has told since the cluster was told.
	seen []func()
}

func (d *drive) configure(c *coordinator.SchedulerConfig) {
	c.Reporter, c.Evictor, c.Log = d, d, d.log
	if c.Profiles != nil {
		d.cluster.Serve(slices.Collect(maps.Keys(c.Profiles))...)
	}
}

// begin is what the scheduler begins with.
func (d *drive) begin(s *coordinator.Scheduler) *objects.Snapshot {
	d.deliver = s.Deliver
	return d.cluster.Snapshot()
}

// run takes the cluster through the change. The scheduler is idle.
func (d *drive) run(ctx context.Context, s *coordinator.Scheduler) error {
	if err := d.settle(ctx, s); err != nil {
		return err
	}
	d.cluster.Mark()
	if err := d.cluster.Apply(d.change); err != nil {
		return err
	}
	if err := d.settle(ctx, s); err != nil {
		return err
	}
	err := d.reword(ctx, s)
	if err != nil {
		return err
	}
	d.report = d.cluster.Report()
	if err := d.notePodGroups(ctx, s); err != nil || d.explain == nil {
		return err
	}
	d.explanation, err = s.Explain(ctx, d.explain.request(5))
	if status.Code(err) == codes.NotFound {
		return fmt.Errorf("--explain %s: there is none after the change%s", d.explain, d.meant())
	}
	return err
}

// notedPodGroups is how many PodGroups that do not start a report tells the verdicts of.
const notedPodGroups = 20

// notePodGroups notes the PodGroups that have pods and do not start.
func (d *drive) notePodGroups(ctx context.Context, s *coordinator.Scheduler) error {
	wait := 0
	for token := ""; ; {
		page, err := s.PodGroups(ctx, &pb.ListPodGroupsRequest{Limit: podGroupPage, ContinueToken: token})
		if err != nil {
			return err
		}
		for _, g := range page.GetPodGroups() {
			if g.GetExist() == 0 || g.GetState() == groups.Scheduled.String() {
				continue
			}
			if wait++; wait <= notedPodGroups {
				verdict, _, _ := strings.Cut(g.GetVerdict(), "; since ")
				d.report.Notes = append(d.report.Notes, fmt.Sprintf("PodGroup %s/%s does not start: %s", g.GetNamespace(), g.GetName(), verdict))
			}
		}
		if token = page.GetContinueToken(); token == "" {
			break
		}
	}
	if wait > notedPodGroups {
		d.report.Notes = append(d.report.Notes, numbered(wait-notedPodGroups, "more PodGroup")+" do not start")
	}
	return nil
}

// meant names the workloads that bear the name of a pod that is not there.
func (d *drive) meant() string {
	var words []string
	for _, key := range d.cluster.Named(d.explain.namespace, d.explain.name) {
		words = append(words, fmt.Sprintf("--explain %s/%s/%s", strings.ToLower(key.Kind), key.Namespace, key.Name))
	}
	if d.explain.kind != client.KindPod || len(words) == 0 {
		return ""
	}
	return "; did you mean " + strings.Join(words, " or ") + "?"
}

// reword tells the cluster in words why pods pend.
func (d *drive) reword(ctx context.Context, s *coordinator.Scheduler) error {
	answer, err := s.Pending(ctx, &pb.ListPendingRequest{})
	for _, g := range answer.GetGroups() {
		if g.GetKind() != "" {
			d.cluster.Reword(whatif.Key{Kind: g.GetKind(), Namespace: g.GetNamespace(), Name: g.GetName()},
				whatif.Reason{Pods: int(g.GetPods()), Why: causesText(g.GetCauses()), Help: helpText(g.GetCauses())})
		}
	}
	return err
}

// settle has controllers and scheduler take turns until neither has anything left to do.
func (d *drive) settle(ctx context.Context, s *coordinator.Scheduler) error {
	for {
		d.mu.Lock()
		seen := d.seen
		d.seen = nil
		d.mu.Unlock()
		for _, tell := range seen {
			tell()
		}
		events := d.cluster.Step()
		if len(events) == 0 {
			return nil
		}
		s.Deliver(events)
		if err := s.Idle(ctx); err != nil {
			return err
		}
	}
}

func (d *drive) saw(tell func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.seen = append(d.seen, tell)
}

// Scheduled is part of coordinator.Reporter.
func (d *drive) Scheduled(p *v1.Pod, node string) { d.saw(func() { d.cluster.Bound(p.UID, node) }) }

// Unscheduled is part of coordinator.Reporter.
func (d *drive) Unscheduled(p *v1.Pod, _, message string, _ *objects.Nominating) {
	d.saw(func() { d.cluster.Refused(p.UID, message) })
}

// Evict is part of coordinator.Evictor: victims are gone at once.
func (d *drive) Evict(_ context.Context, e objects.Eviction, done func(error)) {
	events := make([]objects.Event, 0, len(e.Victims))
	for _, v := range e.Victims {
		d.saw(func() { d.cluster.Preempted(v.UID, e.Preemptor) })
		events = append(events, objects.Event{Type: objects.Deleted, Kind: objects.KindPod, Pod: v})
	}
	d.deliver(events)
	done(nil)
}

// errorLog leaves out all that is no error.
type errorLog struct{ *plainLog }

// Enabled is part of logr.LogSink.
func (errorLog) Enabled(int) bool { return false }

// runWhatIf tells what a change comes to.
func (o SimulateOptions) runWhatIf(ctx context.Context, s Streams, c *config.Config, in *Input) (err error) {
	change, err := o.change(s, in)
	if err != nil {
		return err
	}
	against, err := o.against()
	if err != nil {
		return err
	}
	log, err := createDecisionLog(o.Decisions, s.Out)
	if err != nil {
		return err
	}
	out := s.Out
	if o.Decisions == "-" {
		out = s.Err
	}
	if err := tellOfExtenders(s.Err, c, o.AskExtenders, in.come()); err != nil {
		return err
	}
	d, err := o.play(ctx, s, c, in, change, log)
	if err := errors.Join(err, log.Close()); err != nil {
		return err
	}
	if err := o.compare(ctx, s, d, in, change, against); err != nil {
		return err
	}
	if err := d.print(out, o.Output); err != nil {
		return err
	}
	if !d.report.Placed {
		return errPends
	}
	return nil
}

// come are the pods that wait for a node, and those that the input's workloads are short of.
func (in *Input) come() []*v1.Pod {
	if in.Asked == nil {
		return in.Pods
	}
	all := slices.Concat(in.Pods, in.Asked.Pods)
	there := make([]runtime.Object, len(in.Pods))
	for i, p := range in.Pods {
		there[i] = p
	}
	expander := workload.New(in.Nodes, there)
	for _, w := range in.Asked.Workloads {
		all = append(all, expander.Expand(w).Pods...)
	}
	return all
}

// play takes a cluster through a change, under one configuration.
func (o *SimulateOptions) play(ctx context.Context, s Streams, c *config.Config, in *Input, change whatif.Change,
	log *observe.DecisionLog) (*drive, error) {
	d := &drive{change: change, log: logr.New(errorLog{&plainLog{out: &lockedWriter{out: s.Err}, now: time.Now}}),
		explain: o.explained, cluster: whatif.New(whatif.Input{Nodes: in.Nodes, Pods: in.Pods, Objects: in.Cluster,
			Workloads: in.Asked.There, Autoscalers: in.Asked.Autoscalers, Admit: in.Asked.Admit, Now: time.Now()})}
	sim := simulation{sharding: o.Sharding, config: c, extenders: o.AskExtenders, plugins: o.plugins, decisions: log,
		recording: o.Recording, process: o.Process, tracing: o.Tracing, drive: d}
	progress := newProgress(s, waiting(in.Pods))
	defer progress.done()
	_, err := sim.run(ctx, in, progress.update)
	return d, err
}

// other is what a run is held against: an earlier answer, or another configuration.
type other struct {
	report *whatif.Report
	config *config.Config
}

// against reads what --diff and --compare-config name.
func (o *SimulateOptions) against() (x other, err error) {
	switch {
	case o.Diff != "":
		f, err := os.Open(o.Diff)
		if err != nil {
			return x, fmt.Errorf("--diff: %w", err)
		}
		defer f.Close()
		if x.report, err = whatif.ReadReport(f); err != nil {
			return x, fmt.Errorf("--diff %s: %w", o.Diff, err)
		}
	case o.CompareConfig != "":
		configuration := Configuration{Config: o.CompareConfig, podGroups: o.Configuration.podGroups, plugins: o.Configuration.plugins}
		x.config, err = configuration.load()
	}
	return x, err
}

// compare holds the answer against an earlier one, or against that under another configuration.
func (o *SimulateOptions) compare(ctx context.Context, s Streams, d *drive, in *Input, change whatif.Change, against other) error {
	switch {
	case o.Diff != "":
		d.report.Compare(o.Diff, against.report)
	case o.CompareConfig != "":
		second := *o
		second.Process, second.Recording, second.explained = Process{}, Recording{}, nil
		other, err := second.play(ctx, s, against.config, in, change, nil)
		if err != nil {
			return err
		}
		d.report.Compare(o.CompareConfig, other.report)
	}
	return nil
}

// print writes the answer.
func (d *drive) print(out io.Writer, form string) error {
	var err error
	fence := ""
	switch form {
	case "json":
		if d.explanation != nil {
			if d.report.Explanation, err = plainjson.Marshal(d.explanation); err != nil {
				return err
			}
		}
		return writeJSON(out, d.report)
	case "markdown":
		fence = "```\n"
		err = d.report.WriteMarkdown(out)
	default:
		err = d.report.WriteTable(out)
	}
	if err != nil || d.explanation == nil {
		return err
	}
	fmt.Fprint(out, "\n", fence)
	err = renderExplanation(out, cmp.Or(d.explanation.GetPod(), d.explain.namespace+"/"+d.explain.name), d.explanation)
	fmt.Fprint(out, fence)
	return err
}

func writeJSON(out io.Writer, x any) error {
	enc := json.NewEncoder(out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(x)
}

// changes are the flags that ask for something beside the files.
func (o *SimulateOptions) changes() (flags []string) {
	for name, values := range map[string][]string{
		"--delete": o.Delete, "--drain": o.Drain, "--cordon": o.Cordon, "--remove-node": o.RemoveNodes, "--add-nodes": o.AddNodes,
		"--scale": o.Scale,
	} {
		if len(values) > 0 {
			flags = append(flags, name)
		}
	}
	for name, value := range map[string]string{"--explain": o.Explain, "--diff": o.Diff, "--compare-config": o.CompareConfig} {
		if value != "" {
			flags = append(flags, name)
		}
	}
	slices.Sort(flags)
	return flags
}

// apart is how the input is to be read.
func (o *SimulateOptions) apart() apart {
	switch {
	case len(o.changes()) > 0 || o.Output == "markdown":
		return apartAlways
	case o.Objects != "" || o.Picture != "":
		return apartNever
	}
	return apartAuto
}

// change is what files and flags ask for.
func (o *SimulateOptions) change(s Streams, in *Input) (x whatif.Change, err error) {
	a := in.Asked
	x = whatif.Change{Workloads: a.Workloads, Pods: a.Pods, Objects: a.Objects, AtOnce: o.Rollout == "replace",
		Cordon: bareNodes(o.Cordon), Drain: bareNodes(o.Drain), Remove: bareNodes(o.RemoveNodes)}
	for _, text := range o.Delete {
		key, err := o.workloadKey(text)
		if err != nil {
			return x, fmt.Errorf("--delete %s: %w", text, err)
		}
		x.Delete = append(x.Delete, key)
	}
	for _, text := range o.Scale {
		w, err := o.scaled(text, a)
		if err != nil {
			return x, fmt.Errorf("--scale %s: %w", text, err)
		}
		x.Workloads = append(x.Workloads, w)
	}
	names := map[string]bool{}
	for _, n := range in.Nodes {
		names[n.Name] = true
	}
	for _, text := range o.AddNodes {
		more, err := o.moreNodes(s, text, in.Nodes, names)
		if err != nil {
			return x, fmt.Errorf("--add-nodes %s: %w", text, err)
		}
		x.Nodes = append(x.Nodes, more...)
	}
	return x, nil
}

// workloadKey reads KIND/NAME and KIND/NAMESPACE/NAME.
func (o *SimulateOptions) workloadKey(text string) (whatif.Key, error) {
	parts := strings.Split(text, "/")
	if len(parts) == 2 {
		parts = []string{parts[0], o.Namespace, parts[1]}
	}
	kinds := map[string]string{
		"deployment": "Deployment", "deploy": "Deployment", "statefulset": "StatefulSet", "sts": "StatefulSet", "daemonset": "DaemonSet",
		"ds": "DaemonSet", "replicaset": "ReplicaSet", "rs": "ReplicaSet", "replicationcontroller": "ReplicationController",
		"rc": "ReplicationController", "job": "Job", "cronjob": "CronJob", "cj": "CronJob", "pod": "Pod", "po": "Pod",
	}
	word := strings.ToLower(parts[0])
	kind := kinds[word]
	if kind == "" {
		kind = kinds[strings.TrimSuffix(word, "s")]
	}
	if len(parts) != 3 || kind == "" || parts[1] == "" || parts[2] == "" {
		return whatif.Key{}, errors.New("expected KIND/NAME or KIND/NAMESPACE/NAME of a deployment, statefulset, daemonset, " +
			"replicaset, replicationcontroller, job, cronjob or pod")
	}
	return whatif.Key{Kind: kind, Namespace: parts[1], Name: parts[2]}, nil
}

// maxReplicas bounds what --scale asks for.
const maxReplicas = 1_000_000

// scaled is a workload of the cluster with another number of replicas.
func (o *SimulateOptions) scaled(text string, a *asked) (runtime.Object, error) {
	name, number, ok := strings.Cut(text, "=")
	replicas, err := strconv.Atoi(number)
	if !ok || err != nil || replicas < 0 || replicas > maxReplicas {
		return nil, fmt.Errorf("expected KIND/NAMESPACE/NAME=REPLICAS, with a number from 0 to %d", maxReplicas)
	}
	key, err := o.workloadKey(name)
	if err != nil {
		return nil, err
	}
	is := func(obj runtime.Object) bool { return whatif.KeyOf(obj) == key }
	if slices.ContainsFunc(a.Workloads, is) {
		return nil, errors.New("a manifest of it is given, too: have that say the number")
	}
	at := slices.IndexFunc(a.There, is)
	if at < 0 {
		return nil, fmt.Errorf("what is known of the cluster has no object %s: give its manifest, with the number", key)
	}
	w := a.There[at].DeepCopyObject()
	if !manifest.SetReplicas(w, int32(replicas)) {
		return nil, fmt.Errorf("%s has no number of replicas", key)
	}
	return w, nil
}

// maxAddedNodes bounds what one --add-nodes makes.
const maxAddedNodes = 100_000

// moreNodes makes nodes as a file's, or as one that is there, under names that are not taken.
func (o *SimulateOptions) moreNodes(s Streams, text string, there []*v1.Node, taken map[string]bool) ([]*v1.Node, error) {
	number, path, ok := strings.Cut(text, "=")
	count, err := strconv.Atoi(number)
	if !ok || err != nil || count < 1 || count > maxAddedNodes {
		return nil, fmt.Errorf("expected COUNT=FILE or COUNT=node/NAME, with a number from 1 to %d", maxAddedNodes)
	}
	model, err := o.likeNode(s, path, there)
	if err != nil {
		return nil, err
	}
	var nodes []*v1.Node
	for i := 1; len(nodes) < count; i++ {
		n := model.DeepCopy()
		n.Name = fmt.Sprintf("%s-%d", n.Name, i)
		if taken[n.Name] {
			continue
		}
		taken[n.Name] = true
		n.UID, n.ResourceVersion, n.Spec.ProviderID = workload.UID("Node", "", n.Name), "", ""
		if n.Labels == nil {
			n.Labels = map[string]string{}
		}
		n.Labels[v1.LabelHostname] = n.Name
		nodes = append(nodes, n)
	}
	return nodes, nil
}

// likeNode is the node that others are to be like: a file's, or one that is there.
func (o *SimulateOptions) likeNode(s Streams, path string, there []*v1.Node) (*v1.Node, error) {
	if name, is := strings.CutPrefix(path, "node/"); is {
		if at := slices.IndexFunc(there, func(n *v1.Node) bool { return n.Name == name }); at >= 0 {
			return there[at], nil
		}
		if _, err := os.Stat(path); err != nil {
			return nil, fmt.Errorf("there is no node %s in the input", name)
		}
	}
	if _, err := os.Stat(path); err != nil {
		return nil, err
	}
	in, err := readInput(s, inputRequest{Paths: []string{path}, SkipInvalid: o.SkipInvalid})
	if err != nil {
		return nil, err
	}
	if len(in.Nodes) != 1 {
		return nil, fmt.Errorf("%s holds %d nodes, expected one to make others like it", path, len(in.Nodes))
	}
	return in.Nodes[0], nil
}
