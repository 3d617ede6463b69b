package volumes

import (
	"iter"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/shardsched/shardsched/coordinator/compile"
	"github.com/shardsched/shardsched/coordinator/storage"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// usage counts which volumes are attached to which nodes.
type usage struct {
	counters Counters
	version  *uint64 // the cache's
	attached map[compile.Attachment]*attached
	pods     map[types.UID]*podUse
	// naming are the namespaces, sorted, whose pods name a claim so.
	naming map[string][]string
	// drivers holds the counter of each driver that ever had a volume attached.
	drivers map[string]uint32
	// uses is how many counters were reserved for single volumes; free are those of
	// them that no volume has.
	uses int
	free []uint32
	// Who must be looked at again when a volume or a storage class changes: claims that
	// pods on nodes use, and VolumeAttachments.
	claimsByVolume      map[string]set[*claim]
	claimsByClass       map[string]set[*claim]
	attachments         map[string]*attachment
	attachmentsByVolume map[string]set[*attachment]
	// changes of counters that nobody was told of, by node.
	changes map[string]map[uint32]int64
	// direct takes the changes of the pod at hand instead.
	direct map[uint32]int64
	// retold are pods whose Departure may have changed; numbers is how many volumes were
	// numbered.
	retold  set[types.UID]
	numbers uint64
}

type set[T comparable] map[T]struct{}

// attached is a volume that is attached somewhere.
type attached struct {
	id compile.Attachment
	// counter counts its pods on each node; 0: nobody asked for it.
	counter uint32
	on      map[string]held // by node
	pods    int             // all over the cluster
	number  uint64          // tells it from others
}

// held says why a volume is attached to a node: users are the pods, each with how many of its volumes are this one.
type held struct {
	users       map[*podUse]int
	attachments int
}

func (h held) attached() bool { return len(h.users) > 0 || h.attachments > 0 }

// use counts one volume more or less of a pod.
func (h *held) use(p *podUse, by int) {
	if h.users[p] += by; h.users[p] == 0 {
		delete(h.users, p)
	}
}

// podUse is a pod on a node that has volumes which may be attached to it.
type podUse struct {
	pod  *v1.Pod
	node string
	// volumes are the pod's, each claim once, and attachments what they attach; the zero value: nothing.
	volumes     []*v1.Volume
	attachments []compile.Attachment
}

func newUsage(c *Cache) usage {
	return usage{
		counters:            c.counters,
		version:             &c.version,
		attached:            map[compile.Attachment]*attached{},
		pods:                map[types.UID]*podUse{},
		naming:              map[string][]string{},
		drivers:             map[string]uint32{},
		claimsByVolume:      map[string]set[*claim]{},
		claimsByClass:       map[string]set[*claim]{},
		attachments:         map[string]*attachment{},
		attachmentsByVolume: map[string]set[*attachment]{},
		changes:             map[string]map[uint32]int64{},
		retold:              set[types.UID]{},
	}
}

// PodAdded takes in that a pod is on a node, or promised to it, and returns how the
// node's counters change: sorted by counter, none of them 0. A pod that is there already
// changes nothing; one that was on another node moves, and what that changes there is left
// to TakeChanges.
func (c *Cache) PodAdded(node string, pod *v1.Pod) []*pb.CounterValue {
	if !StorageMatters(pod) {
		return nil
	}
	if p := c.usage.pods[pod.UID]; p != nil {
		if p.node == node {
			return nil
		}
		c.removePod(p)
	}
	return c.usage.collect(func() {
		volumes := compile.DistinctVolumes(pod)
		c.addPod(&podUse{pod, node, volumes, make([]compile.Attachment, len(volumes))})
	})
}

// PodRemoved undoes PodAdded.
func (c *Cache) PodRemoved(node string, pod *v1.Pod) []*pb.CounterValue {
	if !StorageMatters(pod) {
		return nil
	}
	p := c.usage.pods[pod.UID]
	if p == nil || p.node != node {
		return nil
	}
	return c.usage.collect(func() { c.removePod(p) })
}

// StorageMatters tells whether a pod mounts anything that NodeVolumeLimits counts.
func StorageMatters(pod *v1.Pod) bool {
	return storage.HasClaims(pod) || slices.ContainsFunc(pod.Spec.Volumes, func(v v1.Volume) bool {
		return compile.IsMigratedInline(&v.VolumeSource)
	})
}

func (c *Cache) addPod(p *podUse) {
	c.usage.pods[p.pod.UID] = p
	for i, key := range p.claims() {
		x := c.claimOf(key)
		if x.users == nil {
			x.users = map[*podUse][]int{}
		}
		x.users[p] = append(x.users[p], i)
		c.usage.name(x)
		c.watch(x)
	}
	for i := range p.attachments {
		c.attach(p, i)
	}
}

func (c *Cache) removePod(p *podUse) {
	delete(c.usage.pods, p.pod.UID)
	for _, key := range p.claims() {
		x := c.claims[key]
		if x == nil {
			continue // the pod has it as an ephemeral volume's too
		}
		delete(x.users, p)
		c.usage.name(x)
		c.watch(x)
		c.forgetClaim(x)
	}
	for i := range p.attachments {
		c.usage.replace(p, i, compile.Attachment{})
	}
}

// name keeps whether a claim is one that pods name.
func (u *usage) name(x *claim) {
	list := u.naming[x.key.name]
	i, known := slices.BinarySearch(list, x.key.namespace)
	switch used := len(x.users) > 0; {
	case used == known:
		return
	case used:
		list = slices.Insert(list, i, x.key.namespace)
	default:
		list = slices.Delete(list, i, i+1)
	}
	if len(list) == 0 {
		delete(u.naming, x.key.name)
	} else {
		u.naming[x.key.name] = list
	}
}

// NamespacesOf is part of compile.Volumes.
func (c *Cache) NamespacesOf(claim string) []string { return c.usage.naming[claim] }

// attach finds out what a pod's volume attaches from now on.
func (c *Cache) attach(p *podUse, volume int) {
	c.usage.replace(p, volume, compile.AttachmentOf(p.pod, p.volumes[volume], c))
}

// replace says what a pod's volume attaches from now on. The pod counts once for what several volumes attach.
func (u *usage) replace(p *podUse, volume int, now compile.Attachment) {
	was := p.attachments[volume]
	if was == now {
		return
	}
	p.attachments[volume] = now
	if was != (compile.Attachment{}) {
		u.move(was, p.node, func(h *held) { h.use(p, -1) })
	}
	if now != (compile.Attachment{}) {
		u.move(now, p.node, func(h *held) { h.use(p, +1) })
	}
	u.retold[p.pod.UID] = struct{}{}
}

// claims yields the claims that a pod's volumes are, with the volumes' indexes.
func (p *podUse) claims() iter.Seq2[int, claimKey] {
	return func(yield func(int, claimKey) bool) {
		for i, v := range p.volumes {
			if name, _, ok := storage.ClaimName(p.pod, v); ok && !yield(i, claimKey{p.pod.Namespace, name}) {
				return
			}
		}
	}
}

// watch files a claim that pods use under what it takes its attachment from.
func (c *Cache) watch(x *claim) {
	u := &c.usage
	unlink(u.claimsByVolume, x.volume, x)
	unlink(u.claimsByClass, x.class, x)
	x.volume, x.class = "", ""
	if x.api == nil || len(x.users) == 0 {
		return
	}
	x.volume, x.class = x.api.Spec.VolumeName, storage.ClassOf(x.api)
	link(u.claimsByVolume, x.volume, x)
	link(u.claimsByClass, x.class, x)
}

// recount takes in that what a claim attaches may have changed. It looks at the volumes that are the claim, and
// at no others of their pods, and finds out once what those attach whose claim it is.
func (c *Cache) recount(x *claim) {
	var now compile.Attachment
	known := false
	for p, volumes := range x.users {
		for _, i := range volumes {
			if p.volumes[i].Ephemeral != nil { // it may be another pod's
				c.attach(p, i)
				continue
			}
			if !known {
				now, known = compile.AttachmentOf(p.pod, p.volumes[i], c), true
			}
			c.usage.replace(p, i, now)
		}
	}
}

func (c *Cache) recountVolume(name string) {
	for x := range c.usage.claimsByVolume[name] {
		c.recount(x)
	}
	for a := range c.usage.attachmentsByVolume[name] {
		c.recountAttachment(a)
	}
}

func (c *Cache) recountClass(name string) {
	for x := range c.usage.claimsByClass[name] {
		c.recount(x)
	}
}

// move changes why a volume is attached to a node, and the counters with it.
func (u *usage) move(as compile.Attachment, node string, change func(*held)) {
	a := u.attached[as]
	if a == nil {
		u.numbers++
		a = &attached{id: as, on: map[string]held{}, number: u.numbers}
		u.attached[as] = a
	}
	h := a.on[node]
	if h.users == nil {
		h.users = map[*podUse]int{}
	}
	pods, attachments, was := len(h.users), h.attachments, h.attached()
	change(&h)
	if h.attached() {
		a.on[node] = h
	} else {
		delete(a.on, node)
	}
	if was != h.attached() {
		sign := int64(1)
		if was {
			sign = -1
		}
		u.change(node, u.driver(as.Driver), sign)
	}
	by := len(h.users) - pods
	if a.counter != 0 && by != 0 {
		u.change(node, a.counter, int64(by))
	}
	if (attachments > 0) != (h.attachments > 0) {
		u.retell(h)
	}
	u.used(a, by)
	if len(a.on) == 0 {
		delete(u.attached, as)
	}
}

// used keeps the number of pods, and tells classes where UseCounter's answer changes.
func (u *usage) used(a *attached, by int) {
	before := a.pods
	a.pods += by
	switch {
	case before == 0 && a.pods > 0:
		*u.version++
	case before > 0 && a.pods == 0 && a.counter != 0:
		// All rows have 0 by now: another volume may have it.
		u.free = append(u.free, a.counter)
		a.counter = 0
		*u.version++
	}
}

// driver is the counter of a driver's volumes.
func (u *usage) driver(name string) uint32 {
	id := u.drivers[name]
	if id == 0 {
		id = u.counters.Reserve("attached volumes of " + name)
		u.drivers[name] = id
		*u.version++
	}
	return id
}

// collect returns the changes that f makes, all of them on one node.
func (u *usage) collect(f func()) []*pb.CounterValue {
	u.direct = map[uint32]int64{}
	defer func() { u.direct = nil }()
	f()
	return inOrder(u.direct)
}

// inOrder lists changes by counter.
func inOrder(values map[uint32]int64) []*pb.CounterValue {
	var list []*pb.CounterValue
	for id, v := range values {
		list = append(list, &pb.CounterValue{Counter: id, Value: v})
	}
	slices.SortFunc(list, func(a, b *pb.CounterValue) int { return int(a.Counter) - int(b.Counter) })
	return list
}

// change notes a change of a node's counter.
func (u *usage) change(node string, counter uint32, by int64) {
	values := u.direct
	if values == nil {
		values = u.changes[node]
	}
	if values == nil {
		values = map[uint32]int64{}
		u.changes[node] = values
	}
	if values[counter] += by; values[counter] == 0 {
		delete(values, counter)
	}
}

// NodeChange is how counters of one node change.
type NodeChange struct {
	Node string
	// Counters are sorted by counter, none of them 0.
	Counters []*pb.CounterValue
}

// TakeChanges returns how counters have changed otherwise than by PodAdded and
// PodRemoved: by objects that were set or deleted, and by counters that UseCounter
// brought into use. It is called before any class that was compiled is evaluated.
func (c *Cache) TakeChanges() []NodeChange {
	if len(c.usage.changes) == 0 {
		return nil
	}
	out := make([]NodeChange, 0, len(c.usage.changes))
	for node, values := range c.usage.changes {
		if len(values) > 0 {
			out = append(out, NodeChange{Node: node, Counters: inOrder(values)})
		}
	}
	clear(c.usage.changes)
	slices.SortFunc(out, func(a, b NodeChange) int { return strings.Compare(a.Node, b.Node) })
	return out
}

// AttachedCounter is part of compile.Volumes.
func (c *Cache) AttachedCounter(driver string) uint32 { return c.usage.drivers[driver] }

// UseCounter is part of compile.Volumes. The first to ask for a volume brings its counter
// into use.
func (c *Cache) UseCounter(as compile.Attachment) uint32 {
	a := c.usage.attached[as]
	if a == nil || a.pods == 0 {
		return 0
	}
	if a.counter == 0 {
		a.counter = c.usage.useCounter()
		for node, h := range a.on {
			if n := len(h.users); n != 0 {
				c.usage.change(node, a.counter, int64(n))
				c.usage.retell(h)
			}
		}
	}
	return a.counter
}

// useCounter is a counter that is 0 on every row. A class that was compiled while another
// volume had it is compiled anew: the version has moved.
func (u *usage) useCounter() uint32 {
	if n := len(u.free); n > 0 {
		id := u.free[n-1]
		u.free = u.free[:n-1]
		return id
	}
	u.uses++
	return u.counters.Reserve("uses of volume " + strconv.Itoa(u.uses))
}

// link files an entry under a name; the zero value is no name.
func link[K, T comparable](index map[K]set[T], name K, x T) {
	if name == *new(K) {
		return
	}
	s := index[name]
	if s == nil {
		s = set[T]{}
		index[name] = s
	}
	s[x] = struct{}{}
}

func unlink[K, T comparable](index map[K]set[T], name K, x T) {
	s := index[name]
	delete(s, x)
	if s != nil && len(s) == 0 {
		delete(index, name)
	}
}
