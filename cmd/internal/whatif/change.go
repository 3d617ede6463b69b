package whatif

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

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
	// deleted are those that go.
	deleted []Key
}

// What a change does to a workload.
const (
	isNew       = "new"
	isScaled    = "scaled"
	isRolled    = "new template"
	isBoth      = "scaled, new template"
	isDeleted   = "deleted"
	isUnchanged = "unchanged"
	isEvicted   = "evicted"
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
	for _, key := range x.Delete {
		if !c.has(key) {
			errs = append(errs, fmt.Errorf("--delete: there is no %s in the cluster", key))
		}
	}
	for _, obj := range x.Workloads {
		if err := c.immutable(obj); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", keyOf(obj), err))
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
	return slices.Contains(slices.Collect(maps.Values(c.tops)), key)
}

// immutable tells what of a workload an API server lets nobody change.
func (c *Cluster) immutable(obj runtime.Object) error {
	why := func(field string) error {
		return fmt.Errorf("%s can't be changed: an API server refuses it; --delete the workload, and give it another name", field)
	}
	differ := func(a, b *metav1.LabelSelector) bool {
		return a != nil && b != nil && !apiequality.Semantic.DeepEqual(a, b)
	}
	switch now := obj.(type) {
	case *appsv1.Deployment:
		if w, ok := c.workloads[keyOf(obj)].(*deployment); ok && differ(w.object.Spec.Selector, now.Spec.Selector) {
			return why("spec.selector")
		}
	case *appsv1.DaemonSet:
		if w, ok := c.workloads[keyOf(obj)].(*daemonSet); ok && differ(w.object.Spec.Selector, now.Spec.Selector) {
			return why("spec.selector")
		}
	case *appsv1.StatefulSet:
		w, ok := c.workloads[keyOf(obj)].(*statefulSet)
		switch {
		case !ok:
		case differ(w.object.Spec.Selector, now.Spec.Selector):
			return why("spec.selector")
		case w.parallel() != (now.Spec.PodManagementPolicy == appsv1.ParallelPodManagement):
			return why("spec.podManagementPolicy")
		case len(w.object.Spec.VolumeClaimTemplates) != len(now.Spec.VolumeClaimTemplates):
			return why("spec.volumeClaimTemplates")
		}
	case *batchv1.Job:
		if w, ok := c.workloads[keyOf(obj)].(*job); ok {
			was := w.object.(*batchv1.Job).Spec.Template.DeepCopy()
			for label := range was.Labels {
				if _, named := now.Spec.Template.Labels[label]; !named {
					delete(was.Labels, label) // the API server's own
				}
			}
			if !sameTemplate(was, &now.Spec.Template) {
				return why("spec.template")
			}
		}
	}
	return nil
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
	c.change.deleted = append(c.change.deleted, key)
	for owner, top := range c.tops {
		if top == key {
			c.deleteOwner(owner)
		}
	}
	c.deleteOwner(key)
}

func (c *Cluster) deleteOwner(owner Key) {
	for _, p := range slices.Clone(c.of(owner)) {
		c.remove(p)
	}
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
		was, same = c.applyStatefulSet(key, now, known, atOnce)
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

func (c *Cluster) applyStatefulSet(key Key, now *appsv1.StatefulSet, known, atOnce bool) (was int, same bool) {
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
	return was, same
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
	if j, ok := c.workloads[key].(*job); ok {
		now.Status = j.object.(*batchv1.Job).Status
		now.UID = j.object.(*batchv1.Job).UID
	}
	want := c.newJob(now).wants(c)
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
