package framework

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	internalcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	upstream "k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/shardsched/shardsched/coordinator/framework"
)

// TestStatusesOfNodesAreUpstreams holds what PostFilter plugins are told of nodes.
func TestStatusesOfNodesAreUpstreams(t *testing.T) {
	codes := []fwk.Code{fwk.Unschedulable, fwk.UnschedulableAndUnresolvable, fwk.Pending}
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 5))
		var nodes []*v1.Node
		for i := range r.IntN(6) {
			nodes = append(nodes, drawNode(r, i))
		}
		ours, theirs := framework.NewNodeStatuses(), upstream.NewDefaultNodeToStatus()
		for i := range 7 { // some of nodes that there are not
			if r.IntN(2) == 0 {
				s := fwk.NewStatus(codes[r.IntN(3)], fmt.Sprint("reason ", i))
				ours.Set(fmt.Sprint("n", i), s)
				theirs.Set(fmt.Sprint("n", i), s)
			}
		}
		if r.IntN(2) == 0 {
			s := fwk.NewStatus(codes[r.IntN(3)])
			ours.SetAbsent(s)
			theirs.SetAbsentNodesStatus(s)
		}
		snapshot := framework.NewSnapshot(newSource(nodes, nil))
		snapshot.Begin()
		upstreams := internalcache.NewSnapshot(nil, nodes)
		for _, code := range codes {
			names := func(m fwk.NodeToStatusReader, l fwk.NodeInfoLister) []string {
				list, err := m.NodesForStatusCode(l, code)
				if err != nil {
					t.Fatal(err)
				}
				var out []string
				for _, n := range list {
					out = append(out, n.Node().Name)
				}
				slices.Sort(out)
				return out
			}
			if got, want := names(ours, snapshot), names(theirs, upstreams.NodeInfos()); !slices.Equal(got, want) {
				t.Fatalf("seed %d: %v: got %v, upstream %v", seed, code, got, want)
			}
		}
		for i := range 8 {
			if name := fmt.Sprint("n", i); text(ours.Get(name)) != text(theirs.Get(name)) {
				t.Fatalf("seed %d: %s: got %v, upstream %v", seed, name, ours.Get(name), theirs.Get(name))
			}
		}
		if ours.Len() != theirs.Len() || text(ours.Absent()) != text(theirs.AbsentNodesStatus()) {
			t.Fatalf("seed %d: %d nodes, upstream %d", seed, ours.Len(), theirs.Len())
		}
		snapshot.End()
	}
}
