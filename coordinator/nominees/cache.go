package nominees

import (
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/shardsched/shardsched/coordinator/cache"
	"github.com/shardsched/shardsched/coordinator/compile"
	"github.com/shardsched/shardsched/coordinator/queue"
	"github.com/shardsched/shardsched/coordinator/volumes"
)

// Cache finds nominees, and keeps them by viewer. It belongs to the loop.
type Cache struct {
	queue   *queue.Queue // who is nominated where
	nodes   *cache.Cache
	volumes *volumes.Cache

	viewers map[viewer]*found
	batch   uint64
}

// New makes a Cache of the queue's nominations.
func New(q *queue.Queue, nodes *cache.Cache, v *volumes.Cache) *Cache {
	return &Cache{queue: q, nodes: nodes, volumes: v, viewers: map[viewer]*found{}}
}

// NextBatch tells that a batch begins: in one batch, volumes change only with a placement, which compiles pods with volumes
// anew.
func (c *Cache) NextBatch() { c.batch++ }

// Forget drops all that is kept: what pods count as may have changed.
func (c *Cache) Forget() { clear(c.viewers) }

// maxViewers bounds of how many viewers nominees are kept. A batch has few classes and priorities that matter at once; with
// more, all are found anew.
const maxViewers = 64

// viewer is what nominees depend on, of the pod at hand.
type viewer struct {
	class     uint64
	priority  int32
	namespace string
	// required tells that the pod has required terms, and repelled that pods which are there repel it.
	required, repelled bool
	// backfills is the pod group whose nominated pods are not in its way; nil: none.
	backfills *queue.Group
}

// found is the nominees that one viewer finds.
type found struct {
	nodes map[string]foundAt
	// list is all of them, as of so many changes of nominations and a batch, for pods with no nomination of their own.
	// attaches: a nominated pod may attach volumes, so that pods with volumes may find other nominees.
	list             List
	nominations      uint64
	batch            uint64
	listed, attaches bool
}

// foundAt is what was found at one node, as of its change of nominations and a batch.
type foundAt struct {
	change   uint64
	attaches bool // one of the nominated pods may attach volumes
	found    bool // nominee is set
	batch    uint64
	nominee  *Nominee // nil: nobody comes before the pod
}

// Of lists the nominees that a pod finds, without those of the pod group whose held room it may use; nil: of none. The same pointer stands
// for the same pods.
func (c *Cache) Of(p *v1.Pod, class *compile.Class, backfills *queue.Group) List {
	if class.Query == nil || len(c.queue.NominatedNodes()) == 0 {
		return nil
	}
	kept, own := c.foundBy(p, class, backfills), ""
	mounts := volumes.StorageMatters(p) || class.Query.GetVolumeRestrictions() != nil
	if pending := c.queue.Get(p.UID); pending != nil {
		own = pending.NominatedNode
	}
	if kept.listed && own == "" && kept.nominations == c.queue.Nominations() && kept.batch == c.batch && !(mounts && kept.attaches) {
		return kept.list
	}
	var out List
	attaching := false
	if len(kept.nodes) > 2*len(c.queue.NominatedNodes())+maxViewers {
		clear(kept.nodes) // most of them have no nominated pod any more
	}
	for _, node := range c.queue.NominatedNodes() {
		change := c.queue.NominationsOf(node)
		at := kept.nodes[node]
		if at.change != change {
			at = foundAt{change: change, attaches: c.mayAttach(node)}
		}
		attaching = attaching || at.attaches
		alone := node == own || mounts && at.attaches // what is found is for this pod alone
		if alone || !c.lasts(&at, node) {
			at.nominee, at.batch, at.found = c.at(node, p, class, backfills), c.batch, true
		}
		if at.nominee != nil {
			out = append(out, at.nominee)
		}
		if alone {
			at.nominee, at.found = nil, false
		}
		kept.nodes[node] = at
	}
	if own == "" && !(mounts && attaching) {
		kept.list, kept.nominations, kept.listed, kept.batch, kept.attaches = out, c.queue.Nominations(), true, c.batch, attaching
	}
	return out
}

// lasts tells whether what was found at a node in an earlier batch still holds: volumes that its nominated pods attach may
// be others by now.
func (c *Cache) lasts(at *foundAt, node string) bool {
	if !at.found || at.batch == c.batch {
		return at.found
	}
	row, ok := c.nodes.RowOf(node)
	return ok && at.nominee != nil && at.nominee.Row == row && !at.attaches
}

// mayAttach tells whether pods that are nominated to a node may attach volumes.
func (c *Cache) mayAttach(node string) bool {
	return slices.ContainsFunc(c.queue.Nominated(node), func(p *queue.Pod) bool { return volumes.StorageMatters(p.Obj) })
}

// at is the nominee of one node; nil: no nominated pod comes before the pod.
func (c *Cache) at(node string, p *v1.Pod, class *compile.Class, backfills *queue.Group) *Nominee {
	row, ok := c.nodes.RowOf(node)
	if !ok {
		return nil
	}
	var pods []*v1.Pod
	for _, other := range c.queue.Nominated(node) {
		if other.Obj.UID != p.UID && compile.Priority(other.Obj) >= compile.Priority(p) && (backfills == nil || other.Group != backfills) {
			pods = append(pods, other.Obj)
		}
	}
	if len(pods) == 0 {
		return nil
	}
	return c.With(row, node, pods, p, class)
}

// foundBy is what is kept for a pod. Pods with volumes find different nominees at one node: for them what is kept holds only
// where nominated pods attach no volume.
func (c *Cache) foundBy(p *v1.Pod, class *compile.Class, backfills *queue.Group) *found {
	key := viewer{class: class.ID(), priority: compile.Priority(p), namespace: p.Namespace, backfills: backfills}
	if len(class.Scorer.Repellers()) > 0 {
		key.required, key.repelled = hasRequiredTerms(p), c.repelled(class.Scorer)
	}
	kept := c.viewers[key]
	if kept == nil {
		if len(c.viewers) >= maxViewers {
			clear(c.viewers)
		}
		kept = &found{nodes: map[string]foundAt{}}
		c.viewers[key] = kept
	}
	return kept
}
