package whatif

import (
	"cmp"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/shardsched/shardsched/cmd/internal/workload"
	"github.com/shardsched/shardsched/coordinator/objects"
)

// deployment plays the Deployment controller (k8s.io/kubernetes/pkg/controller/deployment). A step sets the size of ReplicaSets once, and
// has their pods made and deleted.
type deployment struct {
	key    Key
	object *appsv1.Deployment
	// sets are its ReplicaSets, the oldest first.
	sets []*replicas
	// atOnce has a new template replace the old one in one step.
	atOnce bool
	steps  int // of the rollout
	// rolled: its template has changed.
	rolled bool
	// found is the newest of so many sets for a template: to compare templates takes long.
	found struct {
		object *appsv1.Deployment
		sets   int
		newest *replicas
	}
}

func (d *deployment) desired() int { return int(or(d.object.Spec.Replicas, 1)) }

func (d *deployment) wants(*Cluster) int { return d.desired() }

func (d *deployment) lost(*Cluster, *pod) {}

// pods are those of all its ReplicaSets.
func (d *deployment) pods(c *Cluster) (all []*pod) {
	for _, r := range d.sets {
		all = append(all, c.of(r.key)...)
	}
	return all
}

// newest is the ReplicaSet of the Deployment's template; nil: there is none yet. Of several it is the oldest, as the controller has it.
func (d *deployment) newest() *replicas {
	if d.found.object == d.object && d.found.sets == len(d.sets) {
		return d.found.newest
	}
	d.found.object, d.found.sets, d.found.newest = d.object, len(d.sets), nil
	if i := slices.IndexFunc(d.sets, d.isOf); i >= 0 {
		d.found.newest = d.sets[i]
	}
	return d.found.newest
}

func (d *deployment) isOf(r *replicas) bool {
	if set, ok := r.object.(*appsv1.ReplicaSet); ok {
		return sameTemplate(&set.Spec.Template, &d.object.Spec.Template)
	}
	return madeFrom(r.model, &d.object.Spec.Template)
}

// older are the other ReplicaSets that have pods to have, the oldest first.
func (d *deployment) older() (old []*replicas) {
	newest := d.newest()
	for _, r := range d.sets {
		if r != newest && r.count > 0 {
			old = append(old, r)
		}
	}
	return old
}

func total(sets []*replicas) (n int) {
	for _, r := range sets {
		n += r.count
	}
	return n
}

func (d *deployment) sync(c *Cluster) bool {
	sized := d.size(c)
	if sized && d.rolled {
		d.steps++
	}
	did := false
	// Pods go before others come: what takes a step of their own in a cluster takes none here.
	for _, r := range d.sets {
		if len(c.of(r.key)) > r.count {
			did = r.sync(c) || did
		}
	}
	for _, r := range d.sets {
		did = r.sync(c) || did
	}
	return did || sized
}

// size sets the size of ReplicaSets once, and tells whether one has changed.
func (d *deployment) size(c *Cluster) bool {
	if d.resized() && !d.atOnce {
		did := d.scale()
		for _, r := range d.sets {
			r.told = d.desired()
		}
		if did {
			return true
		}
	}
	if d.object.Spec.Paused {
		return false
	}
	if d.atOnce || d.object.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType {
		return d.recreate(c)
	}
	return d.grow(c) || d.shrink(c)
}

// resized tells whether the Deployment's number of replicas has changed since its ReplicaSets got their sizes.
func (d *deployment) resized() bool {
	return slices.ContainsFunc(d.sets, func(r *replicas) bool { return r.count > 0 && r.told != d.desired() })
}

// scale takes a new number of replicas to the ReplicaSets that there are, before any rollout goes on.
func (d *deployment) scale() bool {
	var active []*replicas
	for _, r := range d.sets {
		if r.count > 0 {
			active = append(active, r)
		}
	}
	newest := d.newest()
	switch {
	case len(active) == 1:
		return setCount(active[0], d.desired())
	case newest != nil && newest.count >= d.desired() && newest.told == d.desired():
		for _, r := range d.older() {
			setCount(r, 0)
		}
		return true
	}
	return d.share(active)
}

// share adds or takes pods in proportion to the sizes of the ReplicaSets.
func (d *deployment) share(active []*replicas) bool {
	surge, _ := d.bounds()
	add := d.desired() + surge - total(active)
	if d.desired() == 0 {
		add = -total(active)
	}
	slices.SortStableFunc(active, func(a, b *replicas) int { return cmp.Compare(b.count, a.count) })
	left := add
	sizes := make([]int, len(active))
	for i, r := range active {
		sizes[i] = r.count
		if add != 0 {
			most := max(1, r.told+surge)
			share := (r.count*(d.desired()+surge)+most/2)/most - r.count
			if add > 0 {
				share = min(max(share, 0), left)
			} else {
				share = max(min(share, 0), left)
			}
			sizes[i] += share
			left -= share
		}
	}
	did := false
	for i, r := range active {
		if i == 0 {
			sizes[i] = max(0, sizes[i]+left)
		}
		did = setCount(r, sizes[i]) || did
	}
	return did
}

func setCount(r *replicas, n int) bool {
	did := r.count != n
	r.count = n
	return did
}

// recreate has all old pods gone before new ones come.
func (d *deployment) recreate(c *Cluster) bool {
	did := false
	for _, r := range d.older() {
		did = setCount(r, 0) || did
	}
	if did && !d.atOnce {
		return true
	}
	newest := d.newest()
	if newest == nil {
		newest, did = d.begin(c), true
	}
	return setCount(newest, d.desired()) || did
}

// begin makes the ReplicaSet of a new template.
func (d *deployment) begin(c *Cluster) *replicas {
	obj := workload.ReplicaSet(d.object, 0)
	// Where the name is taken, another value of the label has the pods of both kept apart.
	for i, name := 1, obj.Name; c.objects[objects.RefOf(obj)] != nil; i++ {
		obj = workload.ReplicaSetNamed(d.object, fmt.Sprintf("%s-%d", name, i), 0)
	}
	c.add(obj)
	r := newReplicas(obj, 0)
	r.told = d.desired()
	r.parent = d
	d.sets = append(d.sets, r)
	c.tops[r.key] = d.key
	return r
}

// bounds are maxSurge, rounded up, and maxUnavailable, rounded down. They are not both 0.
func (d *deployment) bounds() (surge, unavailable int) {
	quarter := intstr.FromString("25%")
	most, least := &quarter, &quarter
	if r := d.object.Spec.Strategy.RollingUpdate; r != nil {
		most, least = orPointer(r.MaxSurge, most), orPointer(r.MaxUnavailable, least)
	}
	surge, unavailable = scaled(most, d.desired(), true), scaled(least, d.desired(), false)
	if surge == 0 && unavailable == 0 {
		unavailable = 1
	}
	return surge, min(unavailable, max(d.desired(), 1))
}

func orPointer[T any](p, otherwise *T) *T {
	if p == nil {
		return otherwise
	}
	return p
}

func or[T any](p *T, otherwise T) T { return *orPointer(p, &otherwise) }

// scaled is a number of pods, or a percentage of all. One that is neither counts as 0: an API server would not take it.
func scaled(x *intstr.IntOrString, all int, up bool) int {
	n, err := intstr.GetScaledValueFromIntOrPercent(x, all, up)
	if err != nil {
		return 0
	}
	return n
}

// grow makes the newest ReplicaSet larger, as far as maxSurge allows.
func (d *deployment) grow(c *Cluster) bool {
	newest := d.newest()
	if newest == nil {
		if d.desired() == 0 && len(d.sets) > 0 && total(d.sets) == 0 {
			return false
		}
		newest = d.begin(c)
	}
	if newest.count >= d.desired() {
		return setCount(newest, d.desired())
	}
	surge, _ := d.bounds()
	room := d.desired() + surge - total(d.sets)
	if room <= 0 {
		return false
	}
	return setCount(newest, newest.count+min(room, d.desired()-newest.count))
}

// shrink makes older ReplicaSets smaller: first by pods that are not ready, then as far as maxUnavailable allows.
func (d *deployment) shrink(c *Cluster) bool {
	old := d.older()
	newest := d.newest()
	_, unavailable := d.bounds()
	least := d.desired() - unavailable
	if len(old) == 0 || newest == nil {
		return false
	}
	most := total(d.sets) - least - (newest.count - newest.available(c))
	did := false
	for _, r := range old {
		if n := min(most, r.count-r.available(c)); n > 0 {
			r.count -= n
			most -= n
			did = true
		}
	}
	if most <= 0 {
		return did
	}
	available := 0
	for _, r := range d.sets {
		available += r.available(c)
	}
	for _, r := range old {
		if n := min(r.count, available-least, most); n > 0 {
			r.count -= n
			available -= n
			most -= n
			did = true
		}
	}
	return did
}

func (d *deployment) rollout(c *Cluster) *Rollout {
	if !d.rolled {
		return nil
	}
	x := &Rollout{Steps: d.steps}
	newest, asked := d.newest(), 0
	if newest != nil {
		x.Updated, asked = newest.available(c), newest.count
	}
	for _, r := range d.sets {
		if r != newest {
			x.Old += len(c.of(r.key))
		}
	}
	x.Complete = x.Old == 0 && x.Updated >= d.desired()
	switch surge, unavailable := d.bounds(); {
	case x.Complete:
	case d.object.Spec.Paused:
		x.Stuck = isPaused
	case x.Old == 0 || d.object.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType || d.atOnce:
		x.Stuck = notPlaced(d.desired() - x.Updated)
	default:
		x.Stuck = fmt.Sprintf("%s, and maxUnavailable %d lets no more old pods go (maxSurge %d)", notPlaced(asked-x.Updated), unavailable,
			surge)
	}
	return x
}

const isPaused = "it is paused"

func notPlaced(n int) string {
	if n == 1 {
		return "1 new pod is not placed"
	}
	return fmt.Sprintf("%d new pods are not placed", n)
}

// adoptDeployment takes in a Deployment with its ReplicaSets.
func (c *Cluster) adoptDeployment(obj *appsv1.Deployment, sets []Key) *deployment {
	d := &deployment{key: keyOf(obj), object: obj}
	for _, key := range sets {
		if set := c.setObject(key); set != nil {
			d.sets = append(d.sets, newReplicas(set, int(or(set.Spec.Replicas, 1))))
		} else {
			d.sets = append(d.sets, c.infer(d, key, c.owned[key]))
		}
	}
	all := total(d.sets)
	for _, r := range d.sets {
		if r.told < 0 {
			r.told = all
		}
		r.parent = d
		c.tops[r.key] = d.key
		delete(c.workloads, r.key)
	}
	slices.SortStableFunc(d.sets, func(a, b *replicas) int {
		return cmp.Or(a.created.Compare(b.created), cmp.Compare(a.key.Name, b.key.Name))
	})
	c.workloads[d.key] = d
	return d
}

// infer makes the ReplicaSet of pods that are there without it. All but its template follows from the Deployment.
func (c *Cluster) infer(d *deployment, owner Key, pods []*pod) *replicas {
	youngest := slices.MaxFunc(pods, func(a, b *pod) int { return cmp.Compare(a.number, b.number) })
	c.add(workload.ReplicaSetNamed(d.object, owner.Name, len(pods)))
	return &replicas{key: owner, model: youngest.obj, count: len(pods), told: -1, created: pods[0].obj.CreationTimestamp.Time}
}

// deploymentOf is the Deployment that a ReplicaSet's name and its pod's labels tell of; otherwise the owner itself.
func deploymentOf(owner Key, p *v1.Pod) Key {
	hash := p.Labels[appsv1.DefaultDeploymentUniqueLabelKey]
	end := len(owner.Name) - len(hash) - 1
	if owner.Kind != "ReplicaSet" || hash == "" || end <= 0 || owner.Name[end:] != "-"+hash {
		return owner
	}
	return Key{"Deployment", owner.Namespace, owner.Name[:end]}
}
