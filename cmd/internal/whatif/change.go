package whatif

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/shardsched/shardsched/cmd/internal/workload"
	"github.com/shardsched/shardsched/coordinator/objects"
)

// Change is what is asked about. Its objects are defaulted and valid, and need no UIDs.
type Change struct {
	Workloads []runtime.Object
	// Pods have no workload, and no node yet.
	Pods []*v1.Pod
	// Objects are new, or take the place of those of their names.
	Objects []objects.Object
	// Delete names workloads, and pods without one, that go.
	Delete []Key
	// AtOnce has new templates replace old ones in one step, whatever the workloads' strategies say.
	AtOnce bool
	// Nodes come; those named Cordon, Drain and Remove take no more pods, are emptied, are gone.
	Nodes                 []*v1.Node
	Cordon, Drain, Remove []string
}

// changed is what Apply has noted of the change.
type changed struct {
	// mine says of each workload of the change what the change does to it.
	mine map[Key]string
}

// What a change does to a workload.
const (
	isNew        = "new"
	isScaled     = "scaled"
	isRolled     = "new template"
	isBoth       = "scaled, new template"
	isDeleted    = "deleted"
	isRenumbered = "renumbered"
	isUnchanged  = "unchanged"
	isEvicted    = "evicted"
)

// adopt finds the controllers of what is there.
func (c *Cluster) adopt(there []runtime.Object) {
	for owner, pods := range c.owned {
		if owner.Kind == "Pod" {
			continue
		}
		c.workloads[owner] = &clones{key: owner, pods: len(pods)}
		if top := deploymentOf(owner, pods[0].obj); top != owner {
			c.tops[owner] = top
		}
	}
	for _, obj := range there {
		key := keyOf(obj)
		if by := metav1.GetControllerOfNoCopy(obj.(metav1.Object)); by != nil {
			c.tops[key] = Key{by.Kind, key.Namespace, by.Name}
		}
		switch obj := obj.(type) {
		case *appsv1.ReplicaSet:
			c.workloads[key] = newReplicas(obj, int(or(obj.Spec.Replicas, 1)))
		case *v1.ReplicationController:
			c.workloads[key] = newReplicas(obj, int(or(obj.Spec.Replicas, 1)))
		case *appsv1.StatefulSet:
			c.adoptStatefulSet(obj)
		case *appsv1.DaemonSet:
			d := c.newDaemonSet(obj)
			generation := fmt.Sprint(obj.Generation)
			for _, p := range c.of(key) {
				p.stale = obj.Generation > 0 && p.obj.Labels["pod-template-generation"] != generation &&
					!madeFrom(withAffinity(p.obj, &obj.Spec.Template), &obj.Spec.Template)
				d.rolled = d.rolled || p.stale
			}
		case *batchv1.Job:
			c.newJob(obj)
		case *batchv1.CronJob:
			c.workloads[key] = cron{}
		}
	}
	sets := c.replicaSets()
	for _, obj := range there {
		if d, ok := obj.(*appsv1.Deployment); ok {
			x := c.adoptDeployment(d, sets[keyOf(d)])
			x.rolled = len(x.older()) > 0
		}
	}
	for key := range c.workloads {
		c.dirty[key] = true
	}
}

// replicaSets are those of each Deployment: objects, and those that pods alone tell of.
func (c *Cluster) replicaSets() map[Key][]Key {
	sets := map[Key][]Key{}
	for key, top := range c.tops {
		if key.Kind == "ReplicaSet" && (c.setObject(key) != nil || len(c.owned[key]) > 0) {
			sets[top] = append(sets[top], key)
		}
	}
	return sets
}

// setObject is a ReplicaSet of the cluster; nil: pods alone tell of it, if anything does.
func (c *Cluster) setObject(key Key) *appsv1.ReplicaSet {
	set, _ := c.objects[objects.Ref{Kind: objects.KindReplicaSet, Namespace: key.Namespace, Name: key.Name}].(*appsv1.ReplicaSet)
	return set
}

// withAffinity is a DaemonSet's pod with the template's affinity: the controller has tied it to its node.
func withAffinity(p *v1.Pod, t *v1.PodTemplateSpec) *v1.Pod {
	bare := *p
	bare.Spec.Affinity = t.Spec.Affinity
	return &bare
}

// Apply takes in the change. An error says what of it can't be, and nothing is changed then.
func (c *Cluster) Apply(x Change) error {
	if err := c.check(x); err != nil {
		return err
	}
	objects.Sort(x.Objects)
	for _, obj := range x.Objects {
		if c.objects[objects.RefOf(obj)] == nil {
			c.add(obj)
		} else {
			c.set(obj)
		}
	}
	c.noteNamespaces(x.Workloads)
	for _, key := range x.Delete {
		c.deleteWorkload(key)
	}
	c.applyNodes(x)
	for _, p := range x.Pods {
		c.change.mine[c.create(p).owner] = isNew
	}
	for _, obj := range x.Workloads {
		c.change.mine[keyOf(obj)] = c.apply(obj, x.AtOnce)
	}
	for key := range c.workloads {
		if key.Kind == "DaemonSet" {
			c.dirty[key] = true
		}
	}
	return nil
}

// noteNamespaces says where the namespace of a new workload may be another than its author thinks.
func (c *Cluster) noteNamespaces(workloads []runtime.Object) {
	namespaces := map[string]bool{}
	for ref := range c.objects {
		if ref.Kind == objects.KindNamespace {
			namespaces[ref.Name] = true
		}
	}
	type name struct{ kind, name string }
	there := map[name]string{} // the first namespace that has one
	for key := range c.workloads {
		if first, known := there[name{key.Kind, key.Name}]; !known || key.Namespace < first {
			there[name{key.Kind, key.Name}] = key.Namespace
		}
	}
	for _, obj := range workloads {
		key := keyOf(obj)
		elsewhere := there[name{key.Kind, key.Name}]
		switch {
		case c.has(key):
		case len(namespaces) > 0 && !namespaces[key.Namespace] && key.Namespace != v1.NamespaceDefault:
			c.notes = append(c.notes, fmt.Sprintf("%s: the cluster has no namespace %s, and refuses it without", key, key.Namespace))
		case elsewhere != "":
			c.notes = append(c.notes, fmt.Sprintf("%s is new; there is one of its name in namespace %s", key, elsewhere))
		}
	}
}

// check finds what an API server would refuse, and names that nobody bears.
func (c *Cluster) check(x Change) error {
	var errs []error
	added := map[string]bool{}
	for _, n := range x.Nodes {
		if c.nodes[n.Name] != nil || added[n.Name] {
			errs = append(errs, fmt.Errorf("node %s is to be added, and is there already", n.Name))
		}
		added[n.Name] = true
	}
	for flag, names := range map[string][]string{"drain": x.Drain, "cordon": x.Cordon, "remove-node": x.Remove} {
		for _, name := range names {
			if c.nodes[name] == nil {
				errs = append(errs, fmt.Errorf("--%s %s: there is no such node in the input", flag, name))
			}
		}
	}
	for _, name := range slices.Compact(slices.Sorted(slices.Values(x.Remove))) {
		for flag, names := range map[string][]string{"drain": x.Drain, "cordon": x.Cordon} {
			if slices.Contains(names, name) {
				errs = append(errs, fmt.Errorf("--%s %s: --remove-node has it gone at once, whatever budgets say; give one of them", flag, name))
			}
		}
	}
	for _, key := range x.Delete {
		if err := c.deletable(key); err != nil {
			errs = append(errs, fmt.Errorf("--delete: %w", err))
		}
	}
	for _, obj := range x.Workloads {
		if key := keyOf(obj); !slices.Contains(x.Delete, key) {
			if field := c.immutable(obj); field != "" {
				errs = append(errs, fmt.Errorf("%s: %s can't be changed: an API server refuses it; deleted first (simulate: --delete %s/%s/%s), "+
					"it is made anew", key, field, strings.ToLower(key.Kind), key.Namespace, key.Name))
			}
		}
	}
	slices.SortFunc(errs, func(a, b error) int { return cmp.Compare(a.Error(), b.Error()) })
	return errors.Join(errs...)
}

// has tells whether there is a workload, or a pod without one.
func (c *Cluster) has(key Key) bool {
	if key.Kind == "Pod" {
		p := c.names[key.Namespace+"/"+key.Name]
		return p != nil && p.owner == key
	}
	if c.workloads[key] != nil {
		return true
	}
	for owner, top := range c.tops {
		if top == key && (c.setObject(owner) != nil || len(c.owned[owner]) > 0) {
			return true
		}
	}
	return false
}

// deletable tells why a workload, or a pod, can't be deleted.
func (c *Cluster) deletable(key Key) error {
	if c.has(key) {
		return nil
	}
	top := c.top(key)
	if p := c.names[key.Namespace+"/"+key.Name]; key.Kind == "Pod" && p != nil {
		top = c.top(p.owner)
	}
	if top != key {
		return fmt.Errorf("%s belongs to %s, which makes it again: delete that", key, top)
	}
	return fmt.Errorf("there is no %s in the cluster", key)
}

// immutable is a field of a workload that an API server lets nobody change, and that is to change; empty: there is none.
func (c *Cluster) immutable(obj runtime.Object) string {
	differ := func(a, b *metav1.LabelSelector) bool {
		return a != nil && b != nil && !apiequality.Semantic.DeepEqual(a, b)
	}
	switch now := obj.(type) {
	case *appsv1.Deployment:
		if w, ok := c.workloads[keyOf(obj)].(*deployment); ok && differ(w.object.Spec.Selector, now.Spec.Selector) {
			return "spec.selector"
		}
	case *appsv1.DaemonSet:
		if w, ok := c.workloads[keyOf(obj)].(*daemonSet); ok && differ(w.object.Spec.Selector, now.Spec.Selector) {
			return "spec.selector"
		}
	case *appsv1.StatefulSet:
		w, ok := c.workloads[keyOf(obj)].(*statefulSet)
		switch {
		case !ok:
		case differ(w.object.Spec.Selector, now.Spec.Selector):
			return "spec.selector"
		case w.parallel() != (now.Spec.PodManagementPolicy == appsv1.ParallelPodManagement):
			return "spec.podManagementPolicy"
		case w.object.Spec.ServiceName != now.Spec.ServiceName:
			return "spec.serviceName"
		case !slices.EqualFunc(w.object.Spec.VolumeClaimTemplates, now.Spec.VolumeClaimTemplates, sameClaim):
			return "spec.volumeClaimTemplates"
		}
	case *batchv1.Job:
		if w, ok := c.workloads[keyOf(obj)].(*job); ok {
			return immutableOfJob(w.object.(*batchv1.Job), now)
		}
	}
	return ""
}

// sameClaim tells whether claim templates are the same, but for what an API server fills in.
func sameClaim(a, b v1.PersistentVolumeClaim) bool {
	return a.Name == b.Name && or(a.Spec.StorageClassName, "") == or(b.Spec.StorageClassName, "") &&
		apiequality.Semantic.DeepEqual(a.Spec.AccessModes, b.Spec.AccessModes) &&
		apiequality.Semantic.DeepEqual(a.Spec.Resources, b.Spec.Resources) && apiequality.Semantic.DeepEqual(a.Spec.Selector, b.Spec.Selector)
}

// immutableOfJob is a field of a Job that nobody may change, and that another has otherwise; empty: there is none.
func immutableOfJob(there, now *batchv1.Job) string {
	was := there.Spec.Template.DeepCopy()
	for label := range was.Labels {
		if _, named := now.Spec.Template.Labels[label]; !named {
			delete(was.Labels, label) // the API server's own
		}
	}
	mode := or(there.Spec.CompletionMode, batchv1.NonIndexedCompletion)
	// An Indexed Job that runs all of its indexes at once may be given more, or fewer.
	elastic := mode == batchv1.IndexedCompletion && or(now.Spec.Completions, 1) == or(now.Spec.Parallelism, 1)
	switch {
	case !or(there.Spec.Suspend, false) && !sameTemplate(was, &now.Spec.Template):
		return "spec.template"
	case or(now.Spec.CompletionMode, batchv1.NonIndexedCompletion) != mode:
		return "spec.completionMode"
	case completions(there) != completions(now) && !elastic:
		return "spec.completions"
	}
	return ""
}

// completions are as an API server fills them in: one, where neither their number nor how many run at once is given; -1: there is none.
func completions(w *batchv1.Job) int32 {
	if w.Spec.Completions == nil && w.Spec.Parallelism == nil {
		return 1
	}
	return or(w.Spec.Completions, -1)
}

func (c *Cluster) applyNodes(x Change) {
	for _, n := range x.Nodes {
		c.nodes[n.Name] = n
		c.events = append(c.events, objects.Event{Type: objects.Added, Kind: objects.KindNode, Node: n})
	}
	for _, name := range slices.Concat(x.Cordon, x.Drain) {
		if n := c.nodes[name]; !n.Spec.Unschedulable {
			c.cordon(n)
		}
	}
	for _, name := range slices.Compact(slices.Sorted(slices.Values(x.Remove))) {
		n := c.nodes[name]
		delete(c.nodes, name)
		for _, p := range c.on(name) {
			c.evicted(p)
		}
		c.events = append(c.events, objects.Event{Type: objects.Deleted, Kind: objects.KindNode, Node: n})
	}
	for _, name := range slices.Compact(slices.Sorted(slices.Values(x.Drain))) {
		if c.nodes[name] != nil {
			c.drains = append(c.drains, &drain{node: name, pods: c.on(name)})
		}
	}
}

// cordon has a node take no more pods: the spec says so, and the node lifecycle controller's taint.
func (c *Cluster) cordon(n *v1.Node) {
	now := n.DeepCopy()
	now.Spec.Unschedulable = true
	taint := v1.Taint{Key: v1.TaintNodeUnschedulable, Effect: v1.TaintEffectNoSchedule}
	if !slices.ContainsFunc(now.Spec.Taints, func(t v1.Taint) bool { return t.MatchTaint(&taint) }) {
		now.Spec.Taints = append(now.Spec.Taints, taint)
	}
	c.nodes[n.Name] = now
	c.events = append(c.events, objects.Event{Type: objects.Modified, Kind: objects.KindNode, Node: now})
}

// on are the pods of a node, by name.
func (c *Cluster) on(node string) (pods []*pod) {
	pods = slices.Collect(maps.Keys(c.placed[node]))
	slices.SortFunc(pods, func(a, b *pod) int { return cmp.Compare(a.key(), b.key()) })
	return pods
}

// evicted deletes a pod whose node is emptied; its workload counts to the change.
func (c *Cluster) evicted(p *pod) {
	if key := c.top(p.owner); c.change.mine[key] == "" {
		c.change.mine[key] = isEvicted
	}
	c.evict(p)
}

// deleteWorkload deletes a workload with its pods.
func (c *Cluster) deleteWorkload(key Key) {
	c.change.mine[key] = isDeleted
	for owner, top := range c.tops {
		if top == key {
			c.deleteOwner(owner)
		}
	}
	c.deleteOwner(key)
}

func (c *Cluster) deleteOwner(owner Key) {
	c.removeAll(owner)
	delete(c.workloads, owner)
	c.unset(objects.Ref{Kind: objects.Kind(owner.Kind), Namespace: owner.Namespace, Name: owner.Name})
}

// apply takes in one workload, and says what is done to it.
func (c *Cluster) apply(obj runtime.Object, atOnce bool) string {
	key := keyOf(obj)
	c.dirty[key] = true
	was := 0
	if w := c.workloads[key]; w != nil {
		was = w.wants(c)
	}
	known := c.has(key)
	same := true
	switch now := obj.(type) {
	case *appsv1.Deployment:
		d, there := c.workloads[key].(*deployment)
		if !there {
			d = c.adoptDeployment(now, c.replicaSets()[key])
			was = total(d.sets)
		}
		if now.Spec.Replicas == nil && known {
			now.Spec.Replicas = new(int32(was))
		}
		same = there && sameTemplate(&d.object.Spec.Template, &now.Spec.Template)
		d.object, d.atOnce = now, atOnce
		same = same || d.newest() != nil && len(d.older()) == 0
		if !same {
			d.steps, d.rolled = 0, known
		}
	case *appsv1.ReplicaSet, *v1.ReplicationController:
		was, same = c.applyReplicas(key, obj, known)
	case *appsv1.StatefulSet:
		renumbered := false
		if was, same, renumbered = c.applyStatefulSet(key, now, known, atOnce); renumbered && same && or(now.Spec.Replicas, 1) == int32(was) {
			return isRenumbered
		}
	case *appsv1.DaemonSet:
		return c.applyDaemonSet(key, now, known, atOnce)
	case *batchv1.Job, *batchv1.CronJob:
		if known {
			return c.applyJob(key, obj)
		}
		c.newJob(obj)
	}
	scaled := c.workloads[key].wants(c) != was
	switch {
	case !known:
		return isNew
	case scaled && !same:
		return isBoth
	case scaled:
		return isScaled
	case !same:
		return isRolled
	}
	return isUnchanged
}

// applyReplicas sets a number of pods. Pods that are there keep their template, as the controller leaves them alone.
func (c *Cluster) applyReplicas(key Key, obj runtime.Object, known bool) (was int, same bool) {
	now := &replicas{key: key, object: obj, told: -1}
	same = true
	var wanted *int32
	var template *v1.PodTemplateSpec
	switch obj := obj.(type) {
	case *appsv1.ReplicaSet:
		wanted, template = obj.Spec.Replicas, &obj.Spec.Template
	case *v1.ReplicationController:
		wanted, template = obj.Spec.Replicas, obj.Spec.Template
	}
	if known {
		was = c.workloads[key].wants(c)
		for _, p := range c.of(key) {
			same = same && madeFrom(p.obj, template)
		}
		if !same {
			c.notes = append(c.notes, fmt.Sprintf("%s has another template: its controller leaves the pods that are there as they are", key))
		}
	}
	if now.count = int(or(wanted, 1)); wanted == nil && known {
		now.count = was
	}
	c.workloads[key] = now
	c.setWorkload(obj)
	return was, true
}

// setWorkload tells the scheduler of a workload whose selector spreads pods.
func (c *Cluster) setWorkload(obj runtime.Object) {
	kept, ok := obj.(objects.Object)
	if ok {
		objects.Default(kept)
	}
	if ok && objects.KindOf(obj).Known() && len(objects.Validate(kept)) == 0 {
		c.set(kept)
	}
}

func (c *Cluster) applyStatefulSet(key Key, now *appsv1.StatefulSet, known, atOnce bool) (was int, same, renumbered bool) {
	s, there := c.workloads[key].(*statefulSet)
	same = true
	if !there {
		s = &statefulSet{key: key, object: now}
		was = len(c.of(key))
		for _, p := range c.of(key) {
			p.stale = !madeFrom(p.obj, &now.Spec.Template)
			same = same && !p.stale
		}
		c.workloads[key] = s
	} else {
		was = s.wants(c)
		same = sameTemplate(&s.object.Spec.Template, &now.Spec.Template)
		renumbered = firstOf(s.object) != firstOf(now)
		if !same {
			s.old = s.object
			for _, p := range c.of(key) {
				p.stale = true
			}
		}
	}
	if now.Spec.Replicas == nil && known {
		now.Spec.Replicas = new(int32(was))
	}
	s.object, s.atOnce, s.rolled = now, atOnce, s.rolled || !same
	c.setWorkload(now)
	return was, same, renumbered
}

func (c *Cluster) applyDaemonSet(key Key, now *appsv1.DaemonSet, known, atOnce bool) string {
	was, there := c.workloads[key].(*daemonSet)
	d := c.newDaemonSet(now)
	d.atOnce = atOnce
	if !known {
		return isNew
	}
	for _, p := range c.of(key) {
		if there {
			p.stale = p.stale || !sameTemplate(&was.object.Spec.Template, &now.Spec.Template)
		} else {
			p.stale = !madeFrom(withAffinity(p.obj, &now.Spec.Template), &now.Spec.Template)
		}
		d.rolled = d.rolled || p.stale
	}
	if d.rolled {
		return isRolled
	}
	return isUnchanged
}

func (c *Cluster) applyJob(key Key, obj runtime.Object) string {
	if _, cron := obj.(*batchv1.CronJob); cron {
		return isUnchanged // Jobs that run keep their template
	}
	was := c.workloads[key].wants(c)
	now := obj.(*batchv1.Job)
	there, known := c.workloads[key].(*job)
	if known {
		now.Status = there.object.(*batchv1.Job).Status
		now.UID = there.object.(*batchv1.Job).UID
	}
	j := c.newJob(now)
	if known {
		j.lostNow, j.failed = there.lostNow, there.failed
	}
	want := j.wants(c)
	if most := workload.AtOnce(now); len(c.of(key)) > most {
		for _, p := range leaving(c.of(key), c.of(key), len(c.of(key))-most, c.now) {
			c.remove(p)
		}
		want = most
	}
	if want != was {
		return isScaled
	}
	return isUnchanged
}
