package queue

import (
	"slices"
	"sort"
)

// nominator knows which pods are nominated to which node. Each pod of the queue is nominated
// to one node at the most, its NominatedNode; pods that leave the queue are not nominated
// any more.
type nominator struct {
	pods  map[string][]*Pod // by node, in the order in which they were nominated
	nodes []string          // the keys of pods, sorted
	// changes counts them, and changed says which was the last of each node.
	changes uint64
	changed map[string]uint64
}

// change notes that the pods of a node are not what they were.
func (n *nominator) change(node string) {
	if n.changed == nil {
		n.changed = map[string]uint64{}
	}
	n.changes++
	n.changed[node] = n.changes
	if len(n.pods[node]) == 0 {
		delete(n.changed, node)
	}
}

// set nominates a pod to a node, behind those that are; "": to none. A pod that was
// nominated to the node goes to the end too, as upstream has it.
func (n *nominator) set(p *Pod, node string) {
	n.drop(p)
	if node == "" {
		return
	}
	if n.pods == nil {
		n.pods = map[string][]*Pod{}
	}
	if len(n.pods[node]) == 0 {
		n.nodes = slices.Insert(n.nodes, sort.SearchStrings(n.nodes, node), node)
	}
	n.pods[node] = append(n.pods[node], p)
	p.NominatedNode = node
	n.change(node)
}

// drop takes a pod's nomination away.
func (n *nominator) drop(p *Pod) {
	node := p.NominatedNode
	if node == "" {
		return
	}
	p.NominatedNode = ""
	list := n.pods[node]
	i := slices.Index(list, p)
	if list = slices.Delete(list, i, i+1); len(list) > 0 {
		n.pods[node] = list
		n.change(node)
		return
	}
	delete(n.pods, node)
	n.change(node)
	i = sort.SearchStrings(n.nodes, node)
	n.nodes = slices.Delete(n.nodes, i, i+1)
}

// update follows a pod's new object. Where its status is as it was, a nomination that was made here
// stays: the status that says it is still on its way.
func (n *nominator) update(p *Pod) {
	n.set(p, p.Nomination())
}

// Nominated are the pods that are nominated to a node, in the order in which they were. A
// pod in flight is among them until its attempt is over: one pod at a time, it would still be
// waiting. The caller leaves out the pod that it decides, and must not change the list.
func (q *Queue) Nominated(node string) []*Pod { return q.nominations.pods[node] }

// NominatedNodes are the nodes that a pod is nominated to, sorted. The caller must not change
// the list, which holds until the queue changes.
func (q *Queue) NominatedNodes() []string { return q.nominations.nodes }

// Nominations counts the changes of nominations; NominationsOf tells which of them was the last of a
// node that pods are nominated to. What was made of a node's nominated pods holds as long as that.
func (q *Queue) Nominations() uint64 { return q.nominations.changes }

// NominationsOf is described at Nominations.
func (q *Queue) NominationsOf(node string) uint64 { return q.nominations.changed[node] }

// Unnominate ends what Nominate has said: a pod's nomination goes by its status.
func (q *Queue) Unnominate(p *Pod) {
	if p.place != Gone && !p.deleted {
		p.nominated = nil
		q.nominations.update(p)
	}
}

// Nominate nominates a pod of the queue to a node, "": to none, whatever its status says. It
// is to be called after Unschedulable, which itself goes by what the pod's status says, or Nominate
// said before, and Error, which takes any nomination away.
func (q *Queue) Nominate(p *Pod, node string) {
	if p.place != Gone && !p.deleted {
		p.nominated = &node
		q.nominations.set(p, node)
	}
}
