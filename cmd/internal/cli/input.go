package cli

import (
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	schedulingv1alpha2 "k8s.io/api/scheduling/v1alpha2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/shardsched/shardsched/cmd/internal/manifest"
	"github.com/shardsched/shardsched/cmd/internal/openb"
	"github.com/shardsched/shardsched/cmd/internal/workload"
	"github.com/shardsched/shardsched/coordinator/objects"
)

// Input is what files stand for, in the order in which it was written: objects
// as they are, workloads as the pods that their controllers would make, and what
// those need. Everything in it is defaulted and valid.
type Input struct {
	// Cluster holds what is neither node nor pod, in the order of objects.Kinds.
	Cluster []objects.Object
	// Retained are those of Cluster that outlive what they were made for: the claims of
	// a StatefulSet.
	Retained map[objects.Ref]bool
	Nodes    []*v1.Node
	// admit fills in a pod by the input's classes and ranges.
	admit func(*v1.Pod) (unknown, refused []workload.Remark)
	// Pods have their priority resolved.
	Pods []*v1.Pod
	// Come are those of Pods that are to come, as far as they are not kept apart: they wait for a node, and no cluster has them.
	Come []*v1.Pod
	// Asked is what the input asks for besides what is there: all else is there. nil: there is no telling, and workloads stand for
	// their pods.
	Asked *asked
}

// inputRequest says what to read.
type inputRequest struct {
	Paths       []string
	Namespace   string
	SkipInvalid bool
	// Strict refuses custom resources. Override has a later object take an earlier one's place.
	Strict, Override bool
	OverrideFlag     string // for messages; empty: there is none
	// Nodes are the nodes that DaemonSets run on beside the input's own; asked for
	// only where there is a DaemonSet. Nil: none.
	Nodes func() ([]*v1.Node, error)
	// Kept are the PriorityClasses, LimitRanges and RuntimeClasses that pods are filled in by beside the input's own; asked for only
	// where there are pods, or what they are made of. Nil: none.
	Kept func() ([]runtime.Object, error)
	// First are objects of no file, which stand before those of the files, and From is where they are from.
	First []runtime.Object
	From  string
	// Create does what else becomes of objects that are created, as a simulation
	// needs: see create. Without it whoever keeps them does.
	Create bool
	// Apart keeps what the input asks for apart from what is there.
	Apart apart
	// Demo adds the openb-shaped cluster, shuffled by Seed. With Devices its pods ask for GPUs by claims.
	Demo    bool
	Devices bool
	Seed    uint64
}

// readInput reads and checks everything before it returns anything. Warnings
// and a note on what was skipped go to s.Err.
func readInput(s Streams, q inputRequest) (*Input, error) {
	report := &manifest.Report{SkipInvalid: q.SkipInvalid, Warn: func(err error) { fmt.Fprintf(s.Err, "warning: %v\n", err) }}
	set, err := manifest.Read(q.Paths, manifest.Options{
		Stdin: s.In, Namespace: q.Namespace, Check: checkObject, Strict: q.Strict, Override: q.Override, OverrideFlag: q.OverrideFlag,
		First: q.First, From: q.From,
	}, report)
	if err != nil {
		return nil, err
	}
	b := &inputBuilder{report: report, all: set.Objects, scalers: set.Autoscalers, pods: map[string]manifest.Object{},
		kept: map[objects.Ref]bool{}, input: Input{Retained: map[objects.Ref]bool{}}}
	if q.Kept != nil && b.makes() {
		if b.fillIn, err = q.Kept(); err != nil {
			return nil, err
		}
	}
	b.look()
	nodes := b.input.Nodes
	if b.daemons && q.Nodes != nil {
		more, err := q.Nodes()
		if err != nil {
			return nil, err
		}
		nodes = joinNodes(nodes, more)
	}
	if b.isApart(q.Apart) {
		b.keepApart()
	} else {
		b.expand(nodes)
	}
	if err := report.Err(); err != nil {
		return nil, err
	}
	for _, note := range set.Notes() {
		fmt.Fprintln(s.Err, note)
	}
	if q.Demo {
		b.demo(&q)
	}
	if q.Create {
		create(&b.input)
	}
	objects.Sort(b.input.Cluster)
	b.input.admit = b.admission.Pod
	return &b.input, nil
}

// demo adds the openb-shaped cluster.
func (b *inputBuilder) demo(q *inputRequest) {
	var nodes []*v1.Node
	var pods []*v1.Pod
	var others []runtime.Object
	if n, p := openb.Demo(q.Seed); q.Devices {
		nodes, pods, others = openb.DeviceObjects(n, p)
	} else {
		nodes, pods = openb.Objects(n, p)
	}
	for _, o := range others {
		obj := o.(objects.Object)
		objects.Default(obj)
		b.input.Cluster = append(b.input.Cluster, obj)
	}
	for _, p := range pods {
		objects.Default(p)
	}
	b.input.Nodes = append(b.input.Nodes, nodes...)
	b.input.Pods = append(b.input.Pods, pods...)
}

// joinNodes takes the input's word where both have a node.
func joinNodes(input, others []*v1.Node) []*v1.Node {
	named := map[string]bool{}
	for _, n := range input {
		named[n.Name] = true
	}
	joined := input[:len(input):len(input)]
	for _, n := range others {
		if !named[n.Name] {
			joined = append(joined, n)
		}
	}
	return joined
}

type inputBuilder struct {
	report    *manifest.Report
	input     Input
	admission *workload.Admission
	all       []manifest.Object
	scalers   []manifest.Autoscaler
	fillIn    []runtime.Object // kept beside the input's own
	// later holds the objects that pods come from, pods and workloads, in the
	// input's order.
	later   []manifest.Object
	daemons bool
	kept    map[objects.Ref]bool       // what is in input.Cluster
	pods    map[string]manifest.Object // namespace/name of each pod to what it came from
}

// look sorts the input.
func (b *inputBuilder) look() {
	b.admission = workload.NewAdmission(append(b.keptBeside(), b.values()...))
	for _, o := range b.all {
		switch v := o.Value.(type) {
		case *v1.Node:
			b.input.Nodes = append(b.input.Nodes, v)
		case *v1.Pod:
			b.later = append(b.later, o)
		default:
			if c, ok := v.(*v1.PersistentVolumeClaim); ok && b.refuse(o, nil, b.admission.Claim(c)) {
				continue
			}
			if g, ok := v.(*schedulingv1alpha2.PodGroup); ok {
				b.note(o, nil, b.admission.PodGroup(g))
			}
			if objects.KindOf(v).Known() {
				b.keep(v.(objects.Object))
			}
			if isWorkload(v) {
				b.daemons = b.daemons || o.Kind == "DaemonSet"
				b.later = append(b.later, o)
			}
		}
	}
}

// makes tells whether anything comes of the input that is filled in by classes and ranges.
func (b *inputBuilder) makes() bool {
	return slices.ContainsFunc(b.all, func(o manifest.Object) bool {
		kind := objects.KindOf(o.Value)
		return kind == objects.KindPod || kind == objects.KindPodGroup || kind == objects.KindPersistentVolumeClaim || isWorkload(o.Value)
	})
}

// keptBeside are the kept classes and ranges of which the input has none of its own.
func (b *inputBuilder) keptBeside() []runtime.Object {
	own := map[objects.Ref]bool{}
	for _, o := range b.all {
		if kind := objects.KindOf(o.Value); kind.FillsIn() {
			own[objects.RefOf(o.Value.(objects.Object))] = true
		}
	}
	return slices.DeleteFunc(slices.Clone(b.fillIn), func(obj runtime.Object) bool { return own[objects.RefOf(obj.(objects.Object))] })
}

// values are the objects of the input.
func (b *inputBuilder) values() []runtime.Object {
	all := make([]runtime.Object, len(b.all))
	for i := range b.all {
		all[i] = b.all[i].Value
	}
	return all
}

// keep takes an object of the cluster: not one that is made for a workload where the input
// has it, and no workload that can be used but that no API server would take, for
// nobody finds pods by its selector.
func (b *inputBuilder) keep(obj objects.Object) {
	ref := objects.RefOf(obj)
	if b.kept[ref] || isWorkload(obj) && len(objects.Validate(obj)) > 0 {
		return
	}
	b.kept[ref] = true
	b.input.Cluster = append(b.input.Cluster, obj)
}

func isWorkload(obj runtime.Object) bool {
	_, is := workload.Template(obj)
	return is
}

// expand goes over pods and workloads once the nodes are known.
func (b *inputBuilder) expand(nodes []*v1.Node) {
	expander := workload.New(nodes, b.values())
	for _, o := range b.later {
		if p, ok := o.Value.(*v1.Pod); ok {
			b.pod(o, p)
		} else {
			b.workload(o, expander)
		}
	}
}

func (b *inputBuilder) pod(o manifest.Object, p *v1.Pod) {
	unknown, refused := b.admission.Pod(p)
	b.note(o, nil, unknown)
	if b.refuse(o, nil, refused) {
		return
	}
	b.add(o, p)
}

func (b *inputBuilder) workload(o manifest.Object, expander *workload.Expander) {
	for _, e := range workload.Oddities(o.Value) {
		b.report.Note(o.Error(e.Field, e.ErrorBody()))
	}
	if there := b.running(o, expander); there != nil {
		b.report.Add(o.Error("", fmt.Sprintf("runs in the cluster already, with %s at %s: what a change of it would come to can't be "+
			"told yet", there, there.Position(""))))
		return
	}
	made := expander.Expand(o.Value)
	for _, rs := range made.ReplicaSets {
		objects.Default(rs)
		b.keep(rs)
	}
	template, _ := workload.Template(o.Value)
	for _, c := range made.Claims {
		objects.Default(c)
		if b.refuse(o, field.NewPath("spec", "volumeClaimTemplates"), b.admission.Claim(c)) {
			return
		}
		if metav1.GetControllerOfNoCopy(c) == nil {
			b.input.Retained[objects.RefOf(c)] = true
		}
		b.keep(c)
	}
	for i, p := range made.Pods {
		objects.Default(p)
		unknown, refused := b.admission.Pod(p)
		if b.refuse(o, template, refused) {
			return // the others are refused, too
		}
		if i == 0 {
			b.note(o, template, unknown)
		}
		b.add(o, p)
	}
}

// running finds what a cluster runs of a workload that is not the cluster's own object, which has a uid: that pods of
// it are there tells nothing of what becomes of them. nil: nothing.
func (b *inputBuilder) running(o manifest.Object, expander *workload.Expander) *manifest.Object {
	there := expander.Running(o.Kind, o.Namespace, o.Name)
	if there == nil || o.Over == nil && o.Value.(metav1.Object).GetUID() != "" {
		return nil
	}
	i := slices.IndexFunc(b.all, func(x manifest.Object) bool { return x.Value == there.(runtime.Object) })
	return &b.all[i]
}

// note tells of what is odd with a pod of a template, or of a pod as it is: template is nil.
func (b *inputBuilder) note(o manifest.Object, template *field.Path, remarks []workload.Remark) {
	for _, r := range remarks {
		b.report.Note(o.Error(beneath(template, r.Field), r.Problem))
	}
}

// refuse tells why an API server would not take a pod or a claim, and whether it would not.
func (b *inputBuilder) refuse(o manifest.Object, template *field.Path, remarks []workload.Remark) bool {
	for _, r := range remarks {
		b.report.Add(o.Error(beneath(template, r.Field), r.Problem))
	}
	return len(remarks) > 0
}

func beneath(template, inside *field.Path) string {
	if template == nil {
		return inside.String()
	}
	return template.String() + "." + inside.String()
}

// add takes a pod, unless another has its name.
func (b *inputBuilder) add(o manifest.Object, p *v1.Pod) {
	name := p.Namespace + "/" + p.Name
	if first, twice := b.pods[name]; twice {
		b.report.Add(o.Error("", fmt.Sprintf("pod %s is given twice; first by %s at %s", name, first, first.Position(""))))
		return
	}
	b.pods[name] = o
	b.input.Pods = append(b.input.Pods, p)
	if !isOfCluster(o.Value) && p.Spec.NodeName == "" && !objects.IsTerminal(p) {
		b.input.Come = append(b.input.Come, p)
	}
}

// checkObject fills in defaults and finds what makes an object unusable. A
// workload is checked as the pods that it stands for: their name is the workload's,
// all else comes from the template.
func checkObject(obj runtime.Object) field.ErrorList {
	kept, ok := obj.(objects.Object)
	if ok {
		objects.Default(kept)
	}
	if !isWorkload(obj) {
		return objects.Validate(kept)
	}
	if errs := workload.Validate(obj); len(errs) > 0 {
		return errs
	}
	model := workload.Model(obj)
	objects.Default(model)
	errs := objects.Validate(model)
	template, _ := workload.Template(obj)
	for _, e := range errs {
		if e.Field != "metadata.name" && e.Field != "metadata.namespace" {
			e.Field = template.String() + "." + e.Field
		}
	}
	return append(errs, checkClaims(obj)...)
}

// checkClaims checks the claim templates of a StatefulSet as the claims that they stand for.
func checkClaims(obj runtime.Object) (errs field.ErrorList) {
	set, ok := obj.(*appsv1.StatefulSet)
	if !ok {
		return nil
	}
	for i := range set.Spec.VolumeClaimTemplates {
		c := set.Spec.VolumeClaimTemplates[i].DeepCopy()
		c.Namespace = set.Namespace
		objects.Default(c)
		for _, e := range objects.Validate(c) {
			e.Field = field.NewPath("spec", "volumeClaimTemplates").Index(i).String() + "." + e.Field
			errs = append(errs, e)
		}
	}
	return errs
}

// input is what a simulation schedules.
func (o SimulateOptions) input() inputRequest {
	return inputRequest{
		Paths: o.Files, Namespace: o.Namespace, SkipInvalid: o.SkipInvalid, Strict: o.Strict, Override: o.Override,
		OverrideFlag: "--override", Apart: o.apart(), Create: true, Demo: o.Demo, Devices: o.Devices, Seed: o.Seed,
	}
}

// input is what `up` applies to its own coordinator.
func (o UpOptions) input() inputRequest {
	return inputRequest{Paths: o.Files, SkipInvalid: o.SkipInvalid, Apart: apartManifests, Demo: o.Demo, Devices: o.Devices, Seed: o.Seed}
}
