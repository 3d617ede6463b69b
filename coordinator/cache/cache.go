package cache

import (
	"cmp"
	"fmt"

	"github.com/cespare/xxhash/v2"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"google.golang.org/protobuf/proto"

	"github.com/shardsched/shardsched/coordinator/compile"
	"github.com/shardsched/shardsched/coordinator/count"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
	"github.com/shardsched/shardsched/scorer"
)

// Row is where a node is: its shard and the row in the shard's table.
type Row struct {
	Shard uint32
	Index uint32
}

// Cache holds nodes and the pods that take room on them.
type Cache struct {
	shards  []*shard
	nodes   map[string]*node
	pods    map[types.UID]*pod
	endings endings
	images  map[string]*image
	known   int // nodes that have a Node object
	// versions counts what has changed of nodes, beside pods.
	versions uint64
	// annotations are those of nodes that rows carry, sorted.
	annotations []string
	// assumed counts the assumed pods.
	assumed     int
	byNamespace map[string]*podList
	all         podList
	topologies  topologies
	counters    Counters
	// numbered finds pods by number; last is the last number given.
	numbered   map[uint64]*pod
	priorities priorities
	last       uint64
	kinds      kinds
	labelled   byLabel
	budgets    func(*v1.Pod) []uint32
	departures Departures
	usages     usages
	// adding is how many pods added to each counter when it was filled, added how long all pods' lists are.
	adding map[uint32]int
	added  int
	// devices are those of nodes, known or not; sharedSlices are the shared slices that tables have. Nil while there are none.
	devices      map[string]*deviceSet
	sharedSlices map[deviceName]struct{}
	// untold is told of what can not be told of a pod; nil: that is an error, or a panic.
	untold func(p *v1.Pod, what string, why error)
}

// node is a name that has a Node object, or pods, or both.
type node struct {
	name   string
	object *v1.Node // nil: only pods are known
	row    Row
	pods   podList
	// own are the counters that ChangeCounters gave it; limits those of its CSINode.
	own    map[uint32]int64
	limits Limits
}

// Limits is what a node's CSINode says.
type Limits struct {
	// Volumes are how many volumes its drivers can attach: sorted by driver.
	Volumes []*pb.VolumeLimit
	// Migrated are the in-tree plugins that CSI drivers stand in for: sorted.
	Migrated []string
}

type pod struct {
	object *v1.Pod
	node   *node
	usage  *pb.PodUsage
	// carried are its affinity terms; counters is what it adds to counters.
	carried  *count.Carried
	counters []*pb.CounterValue
	// charged is what the node's row was charged with, beside counters.
	charged *pb.PodUsage // nil: it was not
	assumed bool
	// number is the pod's as long as it is known; told is what the tables were told of it for
	// preemption.
	number uint64
	told   told
	kind   *kind
	// onNode, inNamespace, ofAll and ofKind are its places in the lists of its node, its namespace, all and its kind.
	onNode, inNamespace, ofAll, ofKind int32
}

// New makes an empty cache of the given number of shards.
func New(shards int) *Cache {
	c := &Cache{
		nodes:  map[string]*node{},
		pods:   map[types.UID]*pod{},
		images: map[string]*image{},

		byNamespace: map[string]*podList{},
		topologies:  topologies{byKey: map[string]*topology{}, version: 1},
		numbered:    map[uint64]*pod{},
		kinds:       kinds{byLooks: map[looks]*kind{}},
		labelled:    byLabel{},
		adding:      map[uint32]int{},
	}
	c.Cut(shards)
	return c
}

// Cut cuts the cluster into so many shards. It is called before there are nodes; who watches goes on.
func (c *Cache) Cut(shards int) {
	var watcher Watcher
	if len(c.shards) > 0 {
		watcher = c.shards[0].watcher
	}
	c.shards = make([]*shard, shards)
	for i := range c.shards {
		c.shards[i] = newShard(uint32(i), shards)
	}
	c.Watch(watcher)
}

// UseAnnotations names the annotations of nodes that rows carry, sorted. It is called before there
// are nodes.
func (c *Cache) UseAnnotations(keys []string) { c.annotations = keys }

// ShardOf gives the shard that a node belongs to.
func ShardOf(name string, shards int) int {
	return int(xxhash.Sum64String(name) % uint64(shards))
}

// SetNode adds or replaces a node. It returns the object that it replaces, nil
// where the node is new.
func (c *Cache) SetNode(object *v1.Node) (*v1.Node, error) {
	wire := c.wire(object, c.limitsOf(object.Name)) // before anything changes: what is wrong with the object shows here
	n := c.node(object.Name)
	old := n.object
	c.countImages(old, object)
	c.topologies.replace(old, object)
	n.object = object
	// An object that comes again may have been changed in place.
	if old != nil && old != object && proto.Equal(c.wire(old, &n.limits), wire) {
		return old, nil
	}
	return old, c.setRow(n, wire, old == nil)
}

// limitsOf are a node's, whether it is known or not.
func (c *Cache) limitsOf(name string) *Limits {
	if n := c.nodes[name]; n != nil {
		return &n.limits
	}
	return &Limits{}
}

// Redo gives a node's row anew what its object and its pods say, whatever became of the row. A node that is not
// known is left alone. After an error the node has no row, or one that lacks pods: RemoveNode is to follow.
func (c *Cache) Redo(name string) error {
	n := c.nodes[name]
	if n == nil || n.object == nil {
		return nil
	}
	object := n.object
	if _, err := c.RemoveNode(name); err != nil {
		return err
	}
	_, err := c.SetNode(object)
	return err
}

// wire is a node as the tables know it. It is made anew from the object whenever it is asked for:
// to keep it would be to keep each node twice.
func (c *Cache) wire(object *v1.Node, limits *Limits) *pb.Node {
	out := compile.Node(object)
	out.Annotations = compile.Annotations(object, c.annotations)
	out.VolumeLimits, out.MigratedPlugins = limits.Volumes, limits.Migrated
	return out
}

// setRow writes a node's row, or begins it.
func (c *Cache) setRow(n *node, wire *pb.Node, begin bool) error {
	s := c.shards[n.row.Shard]
	c.versions++
	if begin {
		c.known++
		n.row.Index = s.take()
	}
	if err := s.apply(&pb.Delta{Row: n.row.Index, Change: &pb.Delta_SetNode{SetNode: wire}}); err != nil {
		return fmt.Errorf("set node %s: %w", n.name, err)
	}
	if !begin {
		return nil
	}
	for _, p := range n.pods {
		c.renew(p)
		if err := c.add(n, p, 0); err != nil {
			return err
		}
	}
	if err := c.restoreOwn(n); err != nil {
		return err
	}
	return c.restoreDevices(n)
}

// SetLimits takes over what a node's CSINode says. It is kept for a node that is not known
// yet.
func (c *Cache) SetLimits(nodeName string, limits Limits) error {
	n := c.node(nodeName)
	old := n.limits
	n.limits = limits
	defer c.dropIfEmpty(n)
	if n.object == nil {
		return nil
	}
	wire := c.wire(n.object, &limits)
	if proto.Equal(c.wire(n.object, &old), wire) {
		return nil
	}
	return c.setRow(n, wire, false)
}

// RemoveNode drops a node and returns its object, nil where it was not known.
// Its pods stay until they are removed themselves. After an error it is still there.
func (c *Cache) RemoveNode(name string) (*v1.Node, error) {
	n := c.nodes[name]
	if n == nil || n.object == nil {
		return nil, nil
	}
	old := n.object
	s := c.shards[n.row.Shard]
	if s.table.HasNode(n.row.Index) { // the tables may have refused it
		if err := s.apply(&pb.Delta{Row: n.row.Index, Change: &pb.Delta_RemoveNode{RemoveNode: &pb.RemoveNode{}}}); err != nil {
			return old, fmt.Errorf("remove node %s: %w", name, err)
		}
	}
	s.release(n.row.Index)
	c.countImages(old, nil)
	c.topologies.replace(old, nil)
	n.object = nil
	c.known--
	c.versions++
	c.dropIfEmpty(n)
	return old, nil
}

// SetPod adds or replaces a pod that is on a node: one that was assumed is
// thereby confirmed. It returns the object that it replaces where that was seen
// on its node before, else nil. After an error of the tables the pod is known, and the rows of its nodes
// are not what their pods are: Redo is to follow.
func (c *Cache) SetPod(object *v1.Pod) (*v1.Pod, error) {
	p := c.pods[object.UID]
	carried := c.carry(object)
	usage, counters := c.usageOf(object, p), c.contributions(object)
	if p != nil && p.node.name == object.Spec.NodeName && proto.Equal(p.usage, usage) && equalCounters(p.counters, counters) {
		old := p.object
		wasAssumed := p.assumed
		c.release(p.carried)
		c.leave(p)
		c.endings.remove(p)
		p.object, p.carried, p.assumed = object, carried, false
		c.join(p)
		c.endings.add(p)
		if wasAssumed {
			c.assumed--
			old = nil
		}
		return old, c.tell(p)
	}
	var old *v1.Pod
	var left error
	number := uint64(0)
	if p != nil {
		number = p.number
		if !p.assumed {
			old = p.object
		}
		delete(c.pods, object.UID)
		left = c.remove(p)
	}
	put := c.put(&pod{object: object, usage: usage, carried: carried, counters: counters, number: number}, object.Spec.NodeName, 0)
	return old, cmp.Or(left, put)
}

// Assume reserves a pod's room on a node before the pod is bound, under the number of its decision. The
// pod's own object is left alone.
func (c *Cache) Assume(object *v1.Pod, nodeName string, usage *pb.PodUsage, decision uint64) error {
	if p := c.pods[object.UID]; p != nil {
		return fmt.Errorf("assume pod %s/%s: it is on node %s already", object.Namespace, object.Name, p.node.name)
	}
	carried := c.carry(object)
	return c.put(&pod{object: object, usage: usage, carried: carried, counters: c.contributions(object), assumed: true}, nodeName, decision)
}

// Forget gives the room of an assumed pod back; a pod that is not assumed is left alone. It
// reports whether the pod was assumed.
func (c *Cache) Forget(uid types.UID) (bool, error) {
	p := c.pods[uid]
	if p == nil || !p.assumed {
		return false, nil
	}
	delete(c.pods, uid)
	return true, c.remove(p)
}

// LastDecision is the number of the last decision that gave a row a pod.
func (c *Cache) LastDecision(row Row) uint64 { return c.Candidate(row, 0).LastDecision }

// Undo takes an Assume back as if it had never been: its row had been chosen last by the decision before, and the next pod gets the
// same number. Assumes are undone in the reverse of their order, and a pod that is not assumed is left alone. It reports whether
// the pod was assumed.
func (c *Cache) Undo(uid types.UID, before uint64) (bool, error) {
	p := c.pods[uid]
	if p == nil || !p.assumed {
		return false, nil
	}
	delete(c.pods, uid)
	if p.number == c.last {
		c.last--
	}
	return true, c.removeBy(p, &pb.Delta{LastDecision: &before})
}

// RemovePod drops a pod, assumed or not, and returns its object and node; nil where
// it was not known.
func (c *Cache) RemovePod(uid types.UID) (*v1.Pod, string, error) {
	p := c.pods[uid]
	if p == nil {
		return nil, "", nil
	}
	delete(c.pods, uid)
	return p.object, p.node.name, c.remove(p)
}

// Pod returns a pod's object and the node that it is on, seen or assumed.
func (c *Cache) Pod(uid types.UID) (object *v1.Pod, nodeName string, assumed bool) {
	p := c.pods[uid]
	if p == nil {
		return nil, "", false
	}
	return p.object, p.node.name, p.assumed
}

// Node returns a node's object, nil where it is not known.
func (c *Cache) Node(name string) *v1.Node {
	if n := c.nodes[name]; n != nil {
		return n.object
	}
	return nil
}

// RowOf returns where a node is.
func (c *Cache) RowOf(name string) (Row, bool) {
	n := c.nodes[name]
	if n == nil || n.object == nil {
		return Row{}, false
	}
	return n.row, true
}

// Nodes tells how many nodes are known.
func (c *Cache) Nodes() int { return c.known }

// NodesVersion is another one once a node has come, has gone, or says something else.
func (c *Cache) NodesVersion() uint64 { return c.versions }

// Pods tells how many pods take room, and how many of them are assumed.
func (c *Cache) Pods() (all, assumed int) { return len(c.pods), c.assumed }

// NumShards is part of fanout.Shards.
func (c *Cache) NumShards() int { return len(c.shards) }

// Table is part of fanout.Shards: the coordinator's own copy of a shard.
func (c *Cache) Table(i int) *scorer.Table { return c.shards[i].table }

// Uses adds up every resource that the nodes of a shard have, into what of gives for it.
func (c *Cache) Uses(shard int, of func(resource string) func(allocatable, requested int64)) {
	c.shards[shard].table.Uses(of)
}

// Deltas is part of fanout.Shards: the deltas after a generation, false where they
// are no longer kept.
func (c *Cache) Deltas(i int, after uint64) ([]*pb.Delta, bool) { return c.shards[i].since(after) }

func (c *Cache) node(name string) *node {
	n := c.nodes[name]
	if n == nil {
		n = &node{name: name, row: Row{Shard: uint32(ShardOf(name, len(c.shards)))}}
		c.nodes[name] = n
	}
	return n
}

func (c *Cache) put(p *pod, nodeName string, decision uint64) error {
	n := c.node(nodeName)
	p.node = n
	p.told = c.describe(p)
	n.pods.add(p, onNode)
	c.pods[p.object.UID] = p
	c.added += len(p.counters)
	if p.number == 0 {
		c.last++
		p.number = c.last
	}
	c.numbered[p.number] = p
	c.priorities.add(p.told.priority)
	ns := c.byNamespace[p.object.Namespace]
	if ns == nil {
		ns = &podList{}
		c.byNamespace[p.object.Namespace] = ns
	}
	ns.add(p, inNamespace)
	c.all.add(p, ofAll)
	c.join(p)
	c.endings.add(p)
	if p.assumed {
		c.assumed++
	}
	return c.add(n, p, decision)
}

// add charges the node's row, where there is one, with the pod. What the row refuses is
// a sum of more than 64 bits, as of hundreds of pods that ask for petabytes: no node has
// that much, so the pod counts without its amounts, and the row is full all the same. A row that refuses
// the pod then is offered it without its counters.
func (c *Cache) add(n *node, p *pod, decision uint64) error {
	p.charged = nil
	if n.object == nil {
		return nil
	}
	err := c.charge(n, p, p.usage, decision)
	if err == nil || c.charge(n, p, &pb.PodUsage{HostPorts: p.usage.GetHostPorts()}, decision) == nil {
		return nil
	}
	if c.untold != nil && len(p.counters) > 0 {
		c.added -= len(p.counters)
		p.counters = nil
		if c.charge(n, p, p.usage, decision) == nil {
			c.untold(p.object, "what it counts for", err)
			return nil
		}
	}
	return fmt.Errorf("add pod %s/%s to node %s: %w", p.object.Namespace, p.object.Name, n.name, err)
}

// charge charges a row with a usage, and with the pod's counters.
func (c *Cache) charge(n *node, p *pod, usage *pb.PodUsage, decision uint64) error {
	err := c.shards[n.row.Shard].apply(&pb.Delta{
		Row: n.row.Index, Change: &pb.Delta_AddPod{AddPod: withCounters(usage, p.counters)}, Decision: decision, Pod: p.placed(),
	})
	if err == nil {
		p.charged = usage
	}
	return err
}

// counted is what the pod's row counts of it; nil: nothing. It is made when it is asked for: to keep it would take a message for
// each pod, and another with each counter that comes.
func (p *pod) counted() *pb.PodUsage {
	if p.charged == nil {
		return nil
	}
	return withCounters(p.charged, p.counters)
}

func (c *Cache) remove(p *pod) error { return c.removeBy(p, &pb.Delta{}) }

// removeBy is remove by a delta that may say more of it.
func (c *Cache) removeBy(p *pod, d *pb.Delta) error {
	n := p.node
	n.pods.remove(p, onNode)
	c.added -= len(p.counters)
	delete(c.numbered, p.number)
	c.priorities.remove(p.told.priority)
	ns := c.byNamespace[p.object.Namespace]
	if ns.remove(p, inNamespace); len(*ns) == 0 {
		delete(c.byNamespace, p.object.Namespace)
	}
	c.all.remove(p, ofAll)
	c.leave(p)
	c.endings.remove(p)
	if p.assumed {
		c.assumed--
	}
	defer c.dropIfEmpty(n)
	defer c.release(p.carried)
	if n.object == nil || p.charged == nil {
		return nil
	}
	d.Row, d.Change, d.Pod = n.row.Index, &pb.Delta_RemovePod{RemovePod: p.counted()}, &pb.PlacedPod{Number: p.number}
	if err := c.shards[n.row.Shard].apply(d); err != nil {
		return fmt.Errorf("remove pod %s/%s from node %s: %w", p.object.Namespace, p.object.Name, n.name, err)
	}
	return nil
}

func (c *Cache) dropIfEmpty(n *node) {
	if n.object == nil && len(n.pods) == 0 && len(n.own) == 0 && len(n.limits.Volumes) == 0 && len(n.limits.Migrated) == 0 {
		delete(c.nodes, n.name)
	}
}

// Find looks for a pod by its name among the pods of a namespace, at so many of them at the most that are below a
// place in their list, and tells how many are left below those; "" where the pod is none of them. Places count from
// the end, so that a pod that goes has no other passed over: the last takes its place.
func (c *Cache) Find(namespace, name string, below, most int) (uid types.UID, left int) {
	var list podList
	if l := c.byNamespace[namespace]; l != nil {
		list = *l
	}
	below = min(below, len(list))
	left = max(below-most, 0)
	for _, p := range list[left:below] {
		if p.object.Name == name {
			return p.object.UID, left
		}
	}
	return "", left
}

// Without takes a pod's share off its node's row until put is called. What the
// workers are told in between adds up to nothing. put is to be called after an error, too.
func (c *Cache) Without(uid types.UID) (put func() error, err error) {
	p := c.pods[uid]
	if p == nil {
		return func() error { return nil }, nil
	}
	delete(c.pods, uid)
	err = c.remove(p)
	return func() error {
		// Counters may have come into use since.
		p.carried = c.carry(p.object)
		p.counters = c.contributions(p.object)
		return c.put(p, p.node.name, 0)
	}, err
}

// Tables yields the tables of all shards.
func (c *Cache) Tables(yield func(*scorer.Table) bool) {
	for i := range c.shards {
		if !yield(c.shards[i].table) {
			return
		}
	}
}

// Candidate gives a row with a score the columns of the tie rule.
func (c *Cache) Candidate(row Row, score int64) scorer.Candidate {
	return c.Table(int(row.Shard)).Candidate(row.Index, score)
}
