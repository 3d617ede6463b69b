package whatif

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/shardsched/shardsched/cmd/internal/workload"
	"github.com/shardsched/shardsched/coordinator/objects"
)

// Key names a workload, or a pod that has none.
type Key struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

// String is "Deployment shop/web".
func (k Key) String() string { return fmt.Sprintf("%s %s/%s", k.Kind, k.Namespace, k.Name) }

func compareKeys(a, b Key) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Kind, b.Kind))
}

// KeyOf names a workload or a pod.
func KeyOf(obj runtime.Object) Key { return keyOf(obj) }

func keyOf(obj runtime.Object) Key {
	meta := obj.(metav1.Object)
	return Key{kindOf(obj), meta.GetNamespace(), meta.GetName()}
}

func kindOf(obj runtime.Object) string {
	switch obj.(type) {
	case *appsv1.Deployment:
		return "Deployment"
	case *appsv1.DaemonSet:
		return "DaemonSet"
	case *batchv1.Job:
		return "Job"
	case *batchv1.CronJob:
		return "CronJob"
	}
	return string(objects.KindOf(obj))
}

// Input is what is there. All of it is defaulted and valid, and has UIDs.
type Input struct {
	Nodes []*v1.Node
	// Pods are in the order in which they were created.
	Pods []*v1.Pod
	// Objects are of all other kinds that a scheduler knows, in the order of objects.Kinds.
	Objects []objects.Object
	// Workloads are those that the cluster has.
	Workloads []runtime.Object
	// Autoscalers are not played: the report says so of those that set the replicas of a workload of the change.
	Autoscalers []Autoscaler
	// Admit fills in a pod that is made, as an API server does: its priority and what else classes and ranges say.
	Admit func(*v1.Pod)
	// Now is when the change is made: controllers that delete pods take the youngest first, by orders of magnitude.
	Now time.Time
}

// Autoscaler is a HorizontalPodAutoscaler in the namespace of the workload that it is of.
type Autoscaler struct {
	Name     string
	Of       Key
	Min, Max int
}

// pod is one that is there, or was.
type pod struct {
	obj   *v1.Pod // as the scheduler was told of it, without the node that it was given since
	node  string
	ready bool
	gone  bool
	// message is why the scheduler found no node; empty: it was not asked, or found one.
	message string
	owner   Key // its controller
	number  int // by age
	readyAt time.Time
	labels  string // as text; empty: not asked for yet
	// stale: it is of a template that its workload no longer has.
	stale bool
}

func (p *pod) key() string { return p.obj.Namespace + "/" + p.obj.Name }

// controller plays a controller of Kubernetes for one workload.
type controller interface {
	// sync takes one step, and tells whether there was anything to do.
	sync(c *Cluster) bool
	// wants is how many pods the workload is to have in the end.
	wants(c *Cluster) int
	// lost is told of a pod that left against the controller's will.
	lost(c *Cluster, p *pod)
	// rollout is how far the workload's pods are of its newest template; nil: they all are.
	rollout(c *Cluster) *Rollout
}

// Cluster is a cluster as its API server would have it.
type Cluster struct {
	nodes     map[string]*v1.Node
	pods      map[types.UID]*pod
	names     map[string]*pod
	owned     map[Key][]*pod           // by controller, those that are gone left out
	placed    map[string]map[*pod]bool // by node
	objects   map[objects.Ref]objects.Object
	workloads map[Key]controller
	tops      map[Key]Key // from a ReplicaSet to its Deployment
	dirty     map[Key]bool
	turnOf    map[Key]turn // of workloads that have lost pods; others have the first
	fillIn    func(*v1.Pod)
	now       time.Time
	made      int // pods, those of the input included: there
	there     int
	class     *storagev1.StorageClass // the default; nil: none
	templates map[objects.Ref]*resourcev1.ResourceClaimTemplate
	events    []objects.Event
	drains    []*drain
	before    *mark
	change    changed
	preempted []preemption
	budgets   map[string][]*budget // by namespace; nil: not looked up
	selected  map[labelSet][]*budget
	broken    map[objects.Ref]int // budgets that preemption broke, and how many pods were left
	words     map[Key][]Reason    // why pods pend, by workload
	scalers   []Autoscaler
	served    []string // the schedulerNames of the scheduler's profiles
	notes     []string
}

// preemption is a pod that had to leave for another.
type preemption struct {
	victim *pod
	by     Key // the preemptor's controller
}

// New takes in what is there.
func New(in Input) *Cluster {
	c := &Cluster{
		nodes: map[string]*v1.Node{}, pods: map[types.UID]*pod{}, names: map[string]*pod{}, owned: map[Key][]*pod{},
		placed:  map[string]map[*pod]bool{},
		objects: map[objects.Ref]objects.Object{}, workloads: map[Key]controller{}, tops: map[Key]Key{}, dirty: map[Key]bool{},
		turnOf: map[Key]turn{},
		fillIn: in.Admit, now: in.Now, scalers: in.Autoscalers, templates: map[objects.Ref]*resourcev1.ResourceClaimTemplate{},
		change: changed{mine: map[Key]string{}}, broken: map[objects.Ref]int{}, words: map[Key][]Reason{},
		served: []string{v1.DefaultSchedulerName},
	}
	for _, n := range in.Nodes {
		c.nodes[n.Name] = n
	}
	for _, obj := range in.Objects {
		c.keep(obj)
	}
	terminating := 0
	for _, p := range in.Pods {
		if p.DeletionTimestamp != nil {
			terminating++
			continue
		}
		c.admit(p)
	}
	if terminating > 0 {
		c.notes = append(c.notes, fmt.Sprintf("pods of the cluster that are being deleted, and count as gone: %d", terminating))
	}
	c.there = c.made
	c.adopt(in.Workloads)
	return c
}

// keep takes in an object that is neither node nor pod.
func (c *Cluster) keep(obj objects.Object) {
	ref := objects.RefOf(obj)
	c.objects[ref] = obj
	switch obj := obj.(type) {
	case *policyv1.PodDisruptionBudget:
		c.budgets = nil
	case *resourcev1.ResourceClaimTemplate:
		c.templates[ref] = obj
	case *storagev1.StorageClass:
		var classes []*storagev1.StorageClass
		for _, x := range c.objects {
			if class, ok := x.(*storagev1.StorageClass); ok {
				classes = append(classes, class)
			}
		}
		c.class = objects.DefaultStorageClass(classes)
	}
}

// admit takes in a pod as it is.
func (c *Cluster) admit(obj *v1.Pod) *pod {
	p := &pod{obj: obj, node: obj.Spec.NodeName, number: c.made, readyAt: obj.CreationTimestamp.Time}
	c.made++
	p.owner = Key{"Pod", obj.Namespace, obj.Name}
	if by := metav1.GetControllerOfNoCopy(obj); by != nil {
		p.owner = Key{by.Kind, obj.Namespace, by.Name}
	}
	p.ready = p.node != ""
	for i := range obj.Status.Conditions {
		if t := &obj.Status.Conditions[i]; t.Type == v1.PodReady {
			p.ready, p.readyAt = p.ready && t.Status == v1.ConditionTrue, t.LastTransitionTime.Time
		}
	}
	c.pods[obj.UID] = p
	if objects.IsTerminal(obj) {
		p.gone = true // it has ended, and neither takes room nor counts
		return p
	}
	c.names[p.key()] = p
	c.owned[p.owner] = append(c.owned[p.owner], p)
	c.place(p)
	return p
}

// place files a pod by its node.
func (c *Cluster) place(p *pod) {
	if p.node == "" {
		return
	}
	if c.placed[p.node] == nil {
		c.placed[p.node] = map[*pod]bool{}
	}
	c.placed[p.node][p] = true
}

// Snapshot is what is there, for a scheduler to begin with.
func (c *Cluster) Snapshot() *objects.Snapshot {
	all := &objects.Snapshot{}
	for _, name := range slices.Sorted(maps.Keys(c.nodes)) {
		all.Nodes = append(all.Nodes, c.nodes[name])
	}
	for _, p := range c.alive() {
		all.Pods = append(all.Pods, p.obj)
	}
	refs := slices.SortedFunc(maps.Keys(c.objects), func(a, b objects.Ref) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	for _, ref := range refs {
		all.Cluster = append(all.Cluster, c.objects[ref])
	}
	objects.Sort(all.Cluster)
	c.events = nil
	return all
}

// alive are all pods that are there, the oldest first.
func (c *Cluster) alive() []*pod {
	all := make([]*pod, 0, len(c.names))
	for _, p := range c.names {
		all = append(all, p)
	}
	slices.SortFunc(all, func(a, b *pod) int { return cmp.Compare(a.number, b.number) })
	return all
}

// Serve tells which schedulerNames the scheduler has profiles for, where it is not upstream's default alone.
func (c *Cluster) Serve(schedulers ...string) { c.served = schedulers }

// Named are the workloads of a name.
func (c *Cluster) Named(namespace, name string) []Key {
	found := map[Key]bool{}
	for key := range c.workloads {
		if top := c.top(key); top.Namespace == namespace && top.Name == name {
			found[top] = true
		}
	}
	return slices.SortedFunc(maps.Keys(found), compareKeys)
}

// Notes are what is to be said of the change, besides the report.
func (c *Cluster) Notes() []string { return c.notes }

// Bound takes in that a pod is on a node.
func (c *Cluster) Bound(uid types.UID, node string) {
	if p := c.pods[uid]; p != nil && !p.gone {
		p.node, p.ready, p.message, p.readyAt = node, true, "", c.now
		c.place(p)
		c.touch(p.owner)
	}
}

// Refused takes in why a pod finds no node.
func (c *Cluster) Refused(uid types.UID, message string) {
	if p := c.pods[uid]; p != nil && !p.gone {
		p.message = message
	}
}

// Preempted takes in that a pod had to leave for another. The scheduler knows that it is gone.
func (c *Cluster) Preempted(uid types.UID, by *v1.Pod) {
	p := c.pods[uid]
	if p == nil || p.gone {
		return
	}
	x := preemption{victim: p, by: Key{"Pod", by.Namespace, by.Name}}
	if preemptor := c.pods[by.UID]; preemptor != nil {
		x.by = preemptor.owner
	}
	c.preempted = append(c.preempted, x)
	c.forget(p)
	c.breakBudgets(p)
	c.lose(p)
}

// Step has every controller that has something to do take a step, and returns what the scheduler is to know of it; none: nothing is
// left to do.
func (c *Cluster) Step() []objects.Event {
	for len(c.events) == 0 {
		busy := c.sync()
		for _, d := range c.drains {
			busy = d.step(c) || busy
		}
		if !busy {
			return nil
		}
	}
	events := c.events
	c.events = nil
	return events
}

// turn says when a controller makes up for pods that it has lost.
type turn int

const (
	// whileStopping: a ReplicaSet's.
	whileStopping turn = iota
	// onceStopped: a StatefulSet's, for two pods of one name can't be there.
	onceStopped
	// afterBackoff: a Job's, for lost pods count as failed.
	afterBackoff
	turns
)

// sync has the controllers of the first turn that has anything to do take a step each, and tells whether there is one.
func (c *Cluster) sync() (busy bool) {
	keys := slices.SortedFunc(maps.Keys(c.dirty), compareKeys)
	for now := whileStopping; now < turns; now++ {
		for _, key := range keys {
			if c.turnOf[key] != now {
				continue
			}
			delete(c.turnOf, key)
			if w := c.workloads[key]; w != nil && w.sync(c) {
				busy = true
			} else {
				delete(c.dirty, key)
			}
		}
		if busy {
			return true
		}
	}
	return false
}

// touch notes that a workload may have something to do.
func (c *Cluster) touch(owner Key) { c.dirty[c.keeper(owner)] = true }

// keeper is the workload that plays an owner's controller: the owner's own, or that of what the owner belongs to.
func (c *Cluster) keeper(owner Key) Key {
	if c.workloads[owner] != nil {
		return owner
	}
	return c.top(owner)
}

// top is the workload that an owner of pods belongs to.
func (c *Cluster) top(owner Key) Key {
	if top, ok := c.tops[owner]; ok {
		return top
	}
	return owner
}

// of are the pods of an owner, the oldest first.
func (c *Cluster) of(owner Key) []*pod { return c.owned[owner] }

// taken tells whether a pod of the namespace has a name.
func (c *Cluster) taken(namespace string) func(string) bool {
	return func(name string) bool { return c.names[namespace+"/"+name] != nil }
}

// create makes a pod as an API server and its controllers would.
func (c *Cluster) create(obj *v1.Pod) *pod {
	objects.Default(obj)
	c.fillIn(obj)
	obj.UID = workload.UID("Pod", obj.Namespace, obj.Name)
	if c.pods[obj.UID] != nil {
		obj.UID = workload.UID("Pod", obj.Namespace, fmt.Sprintf("%s/%d", obj.Name, c.made))
	}
	objects.MergeLabelKeys(obj, obj.Labels)
	for _, claim := range objects.EphemeralClaims(obj) {
		c.add(claim)
	}
	objects.NameClaims(obj)
	for _, x := range objects.PodClaims(obj) {
		t := c.templates[objects.Ref{Kind: objects.KindResourceClaimTemplate, Namespace: obj.Namespace, Name: x.Template}]
		if t != nil && c.objects[x.Ref] == nil {
			c.add(objects.MakeClaim(obj, x, t))
		}
	}
	p := c.admit(obj)
	p.readyAt = c.now
	c.events = append(c.events, objects.Event{Type: objects.Added, Kind: objects.KindPod, Pod: obj})
	return p
}

// add makes an object that is not there yet.
func (c *Cluster) add(obj objects.Object) {
	objects.Default(obj)
	ref := objects.RefOf(obj)
	if c.objects[ref] != nil {
		return
	}
	if claim, ok := obj.(*v1.PersistentVolumeClaim); ok && c.class != nil && objects.NamesNoClass(claim) {
		claim.Spec.StorageClassName = &c.class.Name
	}
	c.set(obj)
}

// set makes an object, or replaces it.
func (c *Cluster) set(obj objects.Object) {
	ref := objects.RefOf(obj)
	kind := objects.Added
	if old := c.objects[ref]; old != nil {
		kind = objects.Modified
		obj.SetUID(old.GetUID())
	}
	if obj.GetUID() == "" {
		obj.SetUID(workload.UID(string(ref.Kind), ref.Namespace, ref.Name))
	}
	c.keep(obj)
	c.events = append(c.events, objects.Event{Type: kind, Kind: ref.Kind, Object: obj})
}

// unset deletes an object.
func (c *Cluster) unset(ref objects.Ref) {
	if old := c.objects[ref]; old != nil {
		delete(c.objects, ref)
		c.budgets = nil
		c.events = append(c.events, objects.Event{Type: objects.Deleted, Kind: ref.Kind, Object: old})
	}
}

// remove deletes a pod, as its controller wants.
func (c *Cluster) remove(p *pod) {
	if p.gone {
		return
	}
	was := *p.obj
	was.Spec.NodeName = p.node
	c.forget(p)
	c.events = append(c.events, objects.Event{Type: objects.Deleted, Kind: objects.KindPod, Pod: &was})
}

// removeAll deletes the pods of an owner, and tells whether there were any.
func (c *Cluster) removeAll(owner Key) bool {
	pods := slices.Clone(c.of(owner))
	for _, p := range pods {
		c.remove(p)
	}
	return len(pods) > 0
}

// evict deletes a pod against its controller's will.
func (c *Cluster) evict(p *pod) {
	c.remove(p)
	c.lose(p)
}

func (c *Cluster) lose(p *pod) {
	key := c.keeper(p.owner)
	w := c.workloads[key]
	if w == nil {
		return
	}
	w.lost(c, p)
	c.dirty[key] = true
	switch p.owner.Kind {
	case "StatefulSet":
		c.turnOf[key] = onceStopped
	case "Job":
		c.turnOf[key] = afterBackoff
	}
}

// forget takes a pod out of the books, and what was made for it alone.
func (c *Cluster) forget(p *pod) {
	p.gone = true
	delete(c.names, p.key())
	delete(c.placed[p.node], p)
	rest := slices.DeleteFunc(c.owned[p.owner], func(x *pod) bool { return x == p })
	if c.owned[p.owner] = rest; len(rest) == 0 {
		delete(c.owned, p.owner)
	}
	for _, claim := range objects.EphemeralClaims(p.obj) {
		if ref := objects.RefOf(claim); c.objects[ref] != nil && metav1.IsControlledBy(c.objects[ref], p.obj) {
			c.unset(ref)
		}
	}
	for _, x := range objects.PodClaims(p.obj) {
		if x.Template != "" {
			delete(c.objects, x.Ref) // the scheduler gives its devices back with the pod
		}
	}
	c.touch(p.owner)
}
