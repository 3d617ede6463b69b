package framework

import (
	"iter"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
)

// source is nodes and their pods, for a snapshot.
type source struct {
	nodes []*v1.Node
	pods  map[string][]*v1.Pod
}

func newSource(nodes []*v1.Node, pods []*v1.Pod) *source {
	s := &source{nodes, map[string][]*v1.Pod{}}
	for _, p := range pods {
		s.pods[p.Spec.NodeName] = append(s.pods[p.Spec.NodeName], p)
	}
	return s
}

func (s *source) Nodes() iter.Seq[*v1.Node] { return slices.Values(s.nodes) }

func (s *source) Node(name string) *v1.Node {
	for _, n := range s.nodes {
		if n.Name == name {
			return n
		}
	}
	return nil
}

func (s *source) PodsOn(node string) iter.Seq[*v1.Pod] { return slices.Values(s.pods[node]) }

func (s *source) Spread(image string) (sizeBytes int64, nodes int, ok bool) {
	on := sets.New[string]()
	for _, n := range s.nodes {
		for _, i := range n.Status.Images {
			if slices.Contains(i.Names, image) {
				if !ok {
					sizeBytes, ok = i.SizeBytes, true
				}
				on.Insert(n.Name)
			}
		}
	}
	return sizeBytes, on.Len(), ok
}
