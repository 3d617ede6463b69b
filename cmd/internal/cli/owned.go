package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/shardsched/shardsched/cmd/internal/client"
	"github.com/shardsched/shardsched/cmd/internal/whatif"
	"github.com/shardsched/shardsched/cmd/internal/workload"
	"github.com/shardsched/shardsched/coordinator/objects"
)

// owned is what a coordinator keeps of the workloads of an input: it keeps no Deployment, DaemonSet, Job or CronJob, but what
// controllers would have made of them.
type owned struct {
	pods    []*v1.Pod                          // of the workloads' namespaces
	objects map[objects.Ref]objects.Object     // ReplicaSets, StatefulSets, ReplicationControllers and claims, of these too
	keys    map[whatif.Key]map[whatif.Key]bool // of each workload, itself and the owners of pods that are its own
}

// keptWith are the kinds that are read of the namespaces of workloads.
func keptWith() []objects.Kind {
	return []objects.Kind{objects.KindReplicaSet, objects.KindStatefulSet, objects.KindReplicationController,
		objects.KindPersistentVolumeClaim}
}

// ownedBy reads what is kept of workloads.
func ownedBy(ctx context.Context, cl *client.Client, workloads []runtime.Object) (*owned, error) {
	x := &owned{objects: map[objects.Ref]objects.Object{}, keys: map[whatif.Key]map[whatif.Key]bool{}}
	namespaces := map[string]bool{}
	for _, w := range workloads {
		key := whatif.KeyOf(w)
		namespaces[key.Namespace] = true
		x.keys[key] = map[whatif.Key]bool{key: true}
		if key.Kind == "CronJob" { // of its Jobs one is played
			for _, p := range workload.New(nil, nil).Expand(w).Pods {
				by, _ := controllerOf(p)
				x.keys[key][by] = true
			}
		}
	}
	for _, namespace := range slices.Sorted(maps.Keys(namespaces)) {
		pods, err := cl.Pods(ctx, namespace)
		if err != nil {
			return nil, err
		}
		x.pods = append(x.pods, pods...)
		for _, kind := range keptWith() {
			all, _, err := cl.List(ctx, string(kind), namespace, "")
			if err != nil {
				return nil, err
			}
			for _, obj := range all {
				x.objects[objects.RefOf(obj.(objects.Object))] = obj.(objects.Object)
			}
		}
	}
	x.learn()
	return x, nil
}

// learn finds the ReplicaSets of Deployments, also those of which pods alone are kept: their names tell.
func (x *owned) learn() {
	for _, obj := range x.objects {
		if by := metav1.GetControllerOfNoCopy(obj); by != nil && objects.KindOf(obj) == objects.KindReplicaSet {
			if keys := x.keys[whatif.Key{Kind: by.Kind, Namespace: obj.GetNamespace(), Name: by.Name}]; keys != nil {
				keys[whatif.KeyOf(obj)] = true
			}
		}
	}
	for _, p := range x.pods {
		by, _ := controllerOf(p)
		name, ok := strings.CutSuffix(by.Name, "-"+p.Labels[appsv1.DefaultDeploymentUniqueLabelKey])
		if keys := x.keys[whatif.Key{Kind: "Deployment", Namespace: p.Namespace, Name: name}]; ok && by.Kind == "ReplicaSet" && keys != nil {
			keys[by] = true
		}
	}
}

// controllerOf is the owner that a pod has.
func controllerOf(p *v1.Pod) (whatif.Key, bool) {
	by := metav1.GetControllerOfNoCopy(p)
	if by == nil {
		return whatif.Key{}, false
	}
	return whatif.Key{Kind: by.Kind, Namespace: p.Namespace, Name: by.Name}, true
}

// podsOf are the pods of a workload.
func (x *owned) podsOf(key whatif.Key) (pods []*v1.Pod) {
	for _, p := range x.pods {
		if by, ok := controllerOf(p); ok && x.keys[key][by] {
			pods = append(pods, p)
		}
	}
	return pods
}

// refsOf are all objects of a workload: its pods, what owns them, and the claims that go with it.
func (x *owned) refsOf(key whatif.Key) (refs []objects.Ref) {
	for _, p := range x.podsOf(key) {
		refs = append(refs, objects.RefOf(p))
	}
	var others []objects.Ref
	for ref, obj := range x.objects {
		by := metav1.GetControllerOfNoCopy(obj)
		claim := ref.Kind == objects.KindPersistentVolumeClaim
		if !claim && x.keys[key][whatif.KeyOf(obj)] || claim && by != nil && by.Kind == key.Kind && by.Name == key.Name {
			others = append(others, ref)
		}
	}
	slices.SortFunc(others, compareRefs)
	return append(refs, others...)
}

func compareRefs(a, b objects.Ref) int {
	return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

// changes are what applying an input comes to: what is to be sent, what goes, and pods that are as they should be.
type changes struct {
	send       Input
	gone, kept []objects.Ref
	notes      []string
}

// changes has Kubernetes' controllers take the workloads of an input to where they should be: what is to be sent for that, besides
// what else the input holds, and what goes. They count every pod as ready, for nobody runs any.
func (in *Input) changes(ctx context.Context, cl *client.Client) (*changes, error) {
	for _, p := range in.Asked.Pods {
		in.Asked.Admit(p) // as those of workloads are, when they are made
	}
	out := &changes{send: Input{Nodes: in.Nodes}}
	out.send.Cluster, out.send.Pods = slices.Concat(in.Cluster, in.Asked.Objects), slices.Concat(in.Pods, in.Asked.Pods)
	if len(in.Asked.Workloads) == 0 {
		objects.Sort(out.send.Cluster)
		return out, nil
	}
	there, err := ownedBy(ctx, cl, in.Asked.Workloads)
	if err != nil {
		return nil, err
	}
	nodes, err := cl.Nodes(ctx)
	if err != nil {
		return nil, err
	}
	p := &ownedPlay{there: there, asked: in.Asked, made: map[types.NamespacedName]*v1.Pod{}, live: map[types.NamespacedName]*v1.Pod{},
		objects: map[objects.Ref]objects.Object{}}
	if err := p.run(joinNodes(in.Nodes, nodes)); err != nil {
		return nil, err
	}
	p.result(out)
	if err := p.refuseTwice(); err != nil {
		return nil, err
	}
	objects.Sort(out.send.Cluster)
	out.notes = append(p.cluster.Notes(), in.Asked.keptTemplates(there)...)
	return out, nil
}

// ownedPlay plays the controllers of some workloads.
type ownedPlay struct {
	there   *owned
	asked   *asked
	cluster *whatif.Cluster
	// made are the pods that were made, as they are to be sent. live are those that are there in the end.
	made, live map[types.NamespacedName]*v1.Pod
	order      []types.NamespacedName // in which pods were made, also such as went again
	left       []objects.Ref          // pods that were there and go, in the controllers' order
	// objects are those that were made or changed; nil: deleted.
	objects map[objects.Ref]objects.Object
}

func (p *ownedPlay) run(nodes []*v1.Node) error {
	in := whatif.Input{Nodes: nodes, Pods: p.there.pods, Now: time.Now(), Admit: func(pod *v1.Pod) {
		p.asked.Admit(pod)
		p.made[nameOf(pod)] = pod.DeepCopy() // what a server fills in else is the server's to fill in
	}}
	for _, ref := range slices.SortedFunc(maps.Keys(p.there.objects), compareRefs) {
		obj := p.there.objects[ref]
		in.Objects = append(in.Objects, obj)
		for _, keys := range p.there.keys {
			if keys[whatif.KeyOf(obj)] && isWorkload(obj) {
				in.Workloads = append(in.Workloads, obj)
			}
		}
	}
	objects.Sort(in.Objects)
	p.cluster = whatif.New(in)
	for _, pod := range p.there.pods {
		p.live[nameOf(pod)] = pod
		p.ready(pod)
	}
	if err := p.asked.refuseJobs(p.there); err != nil {
		return err
	}
	if err := p.cluster.Apply(whatif.Change{Workloads: p.asked.Workloads, AtOnce: true}); err != nil {
		return err
	}
	for events := p.cluster.Step(); len(events) > 0; events = p.cluster.Step() {
		for i := range events {
			p.take(&events[i])
		}
	}
	return nil
}

// refuseJobs refuses what an API server would: a Job of another template. Nothing is kept of it but its pods.
func (a *asked) refuseJobs(there *owned) error {
	for _, w := range a.Workloads {
		key := whatif.KeyOf(w)
		if key.Kind != "Job" {
			continue
		}
		for _, p := range there.podsOf(key) {
			if !whatif.MadeFrom(p, w) {
				return a.from[w].Error("spec.template", "it can't be changed: delete the Job with its pods (delete -f), or give it another name")
			}
		}
	}
	return nil
}

// keptTemplates tells of CronJobs of another template.
func (a *asked) keptTemplates(there *owned) (notes []string) {
	for _, w := range a.Workloads {
		key := whatif.KeyOf(w)
		older := func(p *v1.Pod) bool { return !whatif.MadeFrom(p, w) }
		if key.Kind == "CronJob" && slices.ContainsFunc(there.podsOf(key), older) {
			notes = append(notes, fmt.Sprintf("%s has another template: Jobs that are there keep theirs", key))
		}
	}
	return notes
}

// ready makes a pod count as ready on the node that it has, or would have.
func (p *ownedPlay) ready(pod *v1.Pod) {
	if by, _ := controllerOf(pod); pod.Spec.NodeName == "" && (p.made[nameOf(pod)] != nil || by.Kind == "StatefulSet") {
		p.cluster.Bound(pod.UID, cmp.Or(workload.TargetNode(pod), "unknown"))
	}
}

func nameOf(obj metav1.Object) types.NamespacedName {
	return types.NamespacedName{Namespace: obj.GetNamespace(), Name: obj.GetName()}
}

// refuseTwice refuses pods that have the name of a workload's.
func (p *ownedPlay) refuseTwice() error {
	var errs []error
	for _, pod := range p.asked.Pods {
		of := p.live[nameOf(pod)]
		if of == nil {
			continue
		}
		by, owned := controllerOf(of)
		for _, w := range p.asked.Workloads {
			if owned && p.there.keys[whatif.KeyOf(w)][by] {
				first := p.asked.from[w]
				errs = append(errs, p.asked.from[pod].Error("metadata.name", fmt.Sprintf("pod %s/%s is given twice: %s at %s makes it, too",
					pod.Namespace, pod.Name, first, first.Position(""))))
			}
		}
	}
	return errors.Join(errs...)
}

// take notes what a controller has done.
func (p *ownedPlay) take(e *objects.Event) {
	switch {
	case e.Kind == objects.KindPod && e.Type == objects.Deleted:
		name := nameOf(e.Pod)
		if p.live[name] != p.made[name] || p.made[name] == nil {
			p.left = append(p.left, objects.RefOf(e.Pod)) // it was there before
		}
		p.live[name] = nil
	case e.Kind == objects.KindPod:
		p.live[nameOf(e.Pod)] = p.made[nameOf(e.Pod)]
		p.order = append(p.order, nameOf(e.Pod))
		p.ready(e.Pod)
	case slices.Contains(keptWith(), e.Kind):
		if by := metav1.GetControllerOfNoCopy(e.Object); by != nil && by.Kind == "Pod" {
			return // a server makes the claims of a pod's ephemeral volumes
		}
		obj := e.Object
		if e.Type == objects.Deleted {
			obj = nil
		}
		p.objects[objects.RefOf(e.Object)] = obj
	}
}

// result tells what is to be sent and what goes. A ReplicaSet is sent with the number of its pods, and goes where others of its Deployment
// have taken over.
func (p *ownedPlay) result(out *changes) {
	p.size()
	for _, ref := range slices.SortedFunc(maps.Keys(p.objects), compareRefs) {
		switch obj := p.objects[ref]; {
		case obj != nil:
			out.send.Cluster = append(out.send.Cluster, obj)
		case p.there.objects[ref] != nil:
			out.gone = append(out.gone, ref)
		}
	}
	out.gone = append(slices.Clone(p.left), out.gone...)
	sent := map[types.NamespacedName]bool{}
	for _, name := range p.order {
		if pod := p.live[name]; pod != nil && !sent[name] {
			out.send.Pods = append(out.send.Pods, pod)
			sent[name] = true
		}
	}
	for key := range p.there.keys {
		for _, pod := range p.there.podsOf(key) {
			if p.live[nameOf(pod)] == pod {
				out.kept = append(out.kept, objects.RefOf(pod))
			}
		}
	}
	for ref, obj := range p.there.objects {
		if _, changed := p.objects[ref]; changed || ref.Kind != objects.KindReplicaSet {
			continue
		}
		for _, keys := range p.there.keys {
			if keys[whatif.KeyOf(obj)] {
				out.kept = append(out.kept, ref)
			}
		}
	}
	slices.SortFunc(out.kept, compareRefs)
}

// size gives ReplicaSets of Deployments the number of their pods.
func (p *ownedPlay) size() {
	pods := map[whatif.Key]int{}
	for _, pod := range p.live {
		if pod == nil {
			continue
		}
		if by, ok := controllerOf(pod); ok {
			pods[by]++
		}
	}
	sets := map[whatif.Key][]*appsv1.ReplicaSet{} // by Deployment
	all := maps.Clone(p.there.objects)
	maps.Copy(all, p.objects)
	for _, obj := range all {
		set, ok := obj.(*appsv1.ReplicaSet)
		if !ok {
			continue
		}
		if by := metav1.GetControllerOfNoCopy(set); by != nil {
			key := whatif.Key{Kind: by.Kind, Namespace: set.Namespace, Name: by.Name}
			if p.there.keys[key] != nil {
				sets[key] = append(sets[key], set)
			}
		}
	}
	for _, of := range sets {
		total := 0
		for _, set := range of {
			total += pods[whatif.KeyOf(set)]
		}
		for _, set := range of {
			ref, n := objects.RefOf(set), pods[whatif.KeyOf(set)]
			switch {
			case n == 0 && total > 0:
				p.objects[ref] = nil
			case set.Spec.Replicas == nil || int(*set.Spec.Replicas) != n:
				sized := set.DeepCopy()
				sized.Spec.Replicas = new(int32(n))
				p.objects[ref] = sized
			}
		}
	}
}
