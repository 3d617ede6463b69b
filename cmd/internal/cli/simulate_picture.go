package cli

import (
	"fmt"
	"math"
	"os"

	v1 "k8s.io/api/core/v1"
	"k8s.io/api/scheduling/v1alpha2"
	"k8s.io/apimachinery/pkg/types"

	"github.com/shardsched/shardsched/cmd/internal/picture"
	"github.com/shardsched/shardsched/coordinator/compile"
	"github.com/shardsched/shardsched/coordinator/groups"
	"github.com/shardsched/shardsched/coordinator/objects"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// writePicture draws where the members of pod groups went in a simulation.
func writePicture(name string, in *Input, placed map[types.UID]string, outcomes []*pb.PodGroupOutcome) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return fmt.Errorf("picture: %w", err)
	}
	if err := pictureOf(in, placed, outcomes).Write(f); err != nil {
		f.Close()
		return fmt.Errorf("picture: %w", err)
	}
	return f.Close()
}

// pictureOf makes a picture of a simulation: placed are the nodes that pods were given.
func pictureOf(in *Input, placed map[types.UID]string, outcomes []*pb.PodGroupOutcome) *picture.Picture {
	p := &picture.Picture{Key: pictureKey(in)}
	at, gone := map[types.NamespacedName]int{}, map[string]bool{}
	for i, x := range outcomes {
		g, text := x.GetStatus(), "does not start"
		if g.GetState() == "scheduled" {
			text = "starts"
		}
		at[types.NamespacedName{Namespace: g.GetNamespace(), Name: g.GetName()}] = i
		for _, v := range x.GetVictims() {
			gone[v] = true
		}
		if n := len(x.GetVictims()); n > 0 {
			text += ", " + numbered(n, "pod") + " had to leave"
		}
		p.Gangs = append(p.Gangs, picture.Gang{Name: g.GetNamespace() + "/" + g.GetName(),
			Text: fmt.Sprintf("%s: %d of %d needed have nodes", text, g.GetScheduled(), max(g.GetMinCount(), 1))})
	}
	var size v1.ResourceList // of a square
	members, others := map[string]map[int]int{}, map[string][]v1.ResourceList{}
	for _, pod := range in.Pods {
		node := placed[pod.UID]
		if node == "" {
			node = pod.Spec.NodeName
		}
		name, member := groups.NameOf(pod)
		if member && size == nil {
			size = compile.Requests(pod)
		}
		if node == "" || gone[pod.Namespace+"/"+pod.Name] || objects.IsTerminal(pod) {
			continue
		}
		if i, told := at[name]; member && told {
			if members[node] == nil {
				members[node] = map[int]int{}
			}
			members[node][i]++
		}
		others[node] = append(others[node], compile.Requests(pod))
	}
	for _, n := range in.Nodes {
		x := picture.Node{Name: n.Name, Domain: n.Labels[p.Key], Members: members[n.Name]}
		x.Free = copiesOf(size, n.Status.Allocatable, others[n.Name])
		x.Others = copiesOf(size, n.Status.Allocatable, nil) - x.Free
		for _, m := range x.Members {
			x.Others -= m
		}
		p.Nodes = append(p.Nodes, x)
	}
	return p
}

// pictureKey is the label by which nodes are framed: what the first PodGroup wants its members close by, or the zone.
func pictureKey(in *Input) string {
	for _, obj := range in.Cluster {
		g, ok := obj.(*v1alpha2.PodGroup)
		if !ok {
			continue
		}
		switch s, _ := groups.SpecOf(g); {
		case s.TopologyKey != "":
			return s.TopologyKey
		case len(s.Asks.Preferred) > 0:
			return s.Asks.Preferred[0]
		}
	}
	return v1.LabelTopologyZone
}

// copiesOf is how many pods of a size fit beside others, by what they request.
func copiesOf(size, allocatable v1.ResourceList, beside []v1.ResourceList) int {
	copies := int64(math.MaxInt32)
	for name, q := range size {
		if q.IsZero() {
			continue
		}
		left := allocatable[name].DeepCopy()
		for _, r := range beside {
			left.Sub(r[name])
		}
		copies = min(copies, left.MilliValue()/max(q.MilliValue(), 1))
	}
	pods := allocatable[v1.ResourcePods]
	return int(max(min(copies, pods.Value()-int64(len(beside))), 0))
}
