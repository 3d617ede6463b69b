package cli

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/shardsched/shardsched/cmd/internal/manifest"
	"github.com/shardsched/shardsched/cmd/internal/whatif"
	"github.com/shardsched/shardsched/cmd/internal/workload"
	"github.com/shardsched/shardsched/coordinator/objects"
)

// apart says when an input is kept apart in what is there and what is asked for.
type apart int

const (
	// apartNever: all of it is one.
	apartNever apart = iota
	// apartAuto: where it holds workloads, or anything of a cluster.
	apartAuto
	// apartAlways: whatever it holds.
	apartAlways
	// apartManifests: unless it holds anything of a cluster.
	apartManifests
)

// asked is what an input asks for. Objects of a cluster have a UID, pods that are there a node: all others are asked for, but
// for nodes, and for what stands beside workloads where the input holds nothing of a cluster.
type asked struct {
	Workloads []runtime.Object
	Pods      []*v1.Pod
	// from are the places of both in the input.
	from    map[runtime.Object]manifest.Object
	Objects []objects.Object
	// There are the workloads that the cluster has.
	There []runtime.Object
	// Autoscalers set replicas.
	Autoscalers []whatif.Autoscaler
	// Admit fills in a pod that is made.
	Admit func(*v1.Pod)
}

// isOfCluster tells whether an object was read from a cluster.
func isOfCluster(obj runtime.Object) bool { return obj.(metav1.Object).GetUID() != "" }

func (b *inputBuilder) isApart(when apart) bool {
	switch when {
	case apartManifests:
		return !slices.ContainsFunc(b.all, func(o manifest.Object) bool { return isOfCluster(o.Value) })
	case apartNever, apartAlways:
		return when == apartAlways
	}
	return slices.ContainsFunc(b.all, func(o manifest.Object) bool { return isOfCluster(o.Value) || isWorkload(o.Value) })
}

// keepApart goes over pods, workloads and what stands beside them, in place of expand.
func (b *inputBuilder) keepApart() {
	a := &asked{Admit: func(p *v1.Pod) { b.admission.Pod(p) }, from: map[runtime.Object]manifest.Object{}}
	for _, s := range b.scalers {
		a.Autoscalers = append(a.Autoscalers, whatif.Autoscaler{Name: s.Name, Min: int(s.Min), Max: int(s.Max),
			Of: whatif.Key{Kind: s.Kind, Namespace: s.Namespace, Name: s.Target}})
	}
	b.input.Asked, b.input.Cluster = a, nil
	clear(b.kept)
	dump := slices.ContainsFunc(b.all, func(o manifest.Object) bool { return isOfCluster(o.Value) })
	for _, o := range b.all {
		there := isOfCluster(o.Value) && o.Over == nil
		if o.Over != nil {
			b.there(o.Over.Value)
		}
		switch v := o.Value.(type) {
		case *v1.Node:
		case *v1.Pod:
			if there || v.Spec.NodeName != "" {
				b.pod(o, v)
			} else {
				b.askForPod(o, v)
			}
		default:
			switch {
			case isWorkload(v) && !there:
				b.askFor(o)
			case objects.KindOf(v).Known() && dump && !there:
				a.Objects = append(a.Objects, v.(objects.Object))
			default:
				b.there(v)
			}
		}
	}
}

// there takes an object that is neither node nor pod, and is there.
func (b *inputBuilder) there(obj runtime.Object) {
	if isWorkload(obj) {
		b.input.Asked.There = append(b.input.Asked.There, obj)
	}
	if objects.KindOf(obj).Known() {
		b.keep(obj.(objects.Object))
	}
}

// askForPod takes a pod that is to come.
func (b *inputBuilder) askForPod(o manifest.Object, p *v1.Pod) {
	model := p.DeepCopy()
	unknown, refused := b.admission.Pod(model)
	if b.note(o, nil, unknown); !b.refuse(o, nil, refused) {
		b.input.Asked.Pods, b.input.Asked.from[p] = append(b.input.Asked.Pods, p), o
	}
}

// askFor takes a workload of the change.
func (b *inputBuilder) askFor(o manifest.Object) {
	for _, e := range workload.Oddities(o.Value) {
		b.report.Note(o.Error(e.Field, e.ErrorBody()))
	}
	o.LeaveReplicas()
	model := workload.Model(o.Value)
	objects.Default(model)
	template, _ := workload.Template(o.Value)
	unknown, refused := b.admission.Pod(model)
	if b.note(o, template, unknown); !b.refuse(o, template, refused) {
		b.input.Asked.Workloads, b.input.Asked.from[o.Value] = append(b.input.Asked.Workloads, o.Value), o
	}
}
