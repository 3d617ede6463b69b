package framework

import (
	"maps"
	"slices"

	fwk "k8s.io/kube-scheduler/framework"
)

// NodeStatuses tells PostFilter plugins what nodes were turned away with. It must not be changed
// while they run.
type NodeStatuses struct {
	nodes map[string]*fwk.Status
	// absent is that of all other nodes.
	absent *fwk.Status
}

var _ fwk.NodeToStatusReader = (*NodeStatuses)(nil)

// NewNodeStatuses has no node by itself; all are absent, which is UnschedulableAndUnresolvable
// without a reason.
func NewNodeStatuses() *NodeStatuses {
	return &NodeStatuses{nodes: map[string]*fwk.Status{}, absent: fwk.NewStatus(fwk.UnschedulableAndUnresolvable)}
}

// Set gives a node a status of its own.
func (n *NodeStatuses) Set(node string, s *fwk.Status) { n.nodes[node] = s }

// SetAbsent gives all nodes a status that have none of their own.
func (n *NodeStatuses) SetAbsent(s *fwk.Status) { n.absent = s }

// Len is how many nodes have a status of their own.
func (n *NodeStatuses) Len() int { return len(n.nodes) }

// Absent is the status of nodes that have none of their own.
func (n *NodeStatuses) Absent() *fwk.Status { return n.absent }

// Get is part of fwk.NodeToStatusReader.
func (n *NodeStatuses) Get(node string) *fwk.Status {
	if s, ok := n.nodes[node]; ok {
		return s
	}
	return n.absent
}

// NodesForStatusCode is part of fwk.NodeToStatusReader: in the lister's order where absent nodes
// are among them, else by name.
func (n *NodeStatuses) NodesForStatusCode(lister fwk.NodeInfoLister, code fwk.Code) ([]fwk.NodeInfo, error) {
	var out []fwk.NodeInfo
	if n.absent.Code() == code {
		all, err := lister.List()
		if err != nil {
			return nil, err
		}
		if len(n.nodes) == 0 {
			return all, nil
		}
		for _, node := range all {
			if n.Get(node.Node().Name).Code() == code {
				out = append(out, node)
			}
		}
		return out, nil
	}
	for _, name := range slices.Sorted(maps.Keys(n.nodes)) {
		if n.nodes[name].Code() != code {
			continue
		}
		if node, err := lister.Get(name); err == nil {
			out = append(out, node)
		}
	}
	return out, nil
}
