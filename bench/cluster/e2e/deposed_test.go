package e2e

import (
	"context"
	"errors"
	"fmt"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/shardsched/shardsched/coordinator/lease"
	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/coordinator/standalone/store"
	"github.com/shardsched/shardsched/internal/testkit/build"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// unaware is a leader that was stopped between Check and its write.
type unaware struct{ *lease.Leadership }

func (unaware) Check() error { return nil }

// Two leaderships, the first of which is over: whatever it writes is refused, whether
// or not it knows.
func TestDeposedLeadersBindIsRefused(t *testing.T) {
	r := newRig(t)
	st := store.New(r.etcd.client, clusterName)
	first := r.campaign("first")
	objs := []runtime.Object{build.Node("n1").CPU("8").Memory("8Gi").Obj()}
	for i := range 3 {
		objs = append(objs, build.Pod(fmt.Sprintf("p%d", i)).CPU("1").Obj())
	}
	if _, _, err := st.Apply(r.ctx, first, objs, false); err != nil {
		t.Fatal(err)
	}
	pending := r.load(st)
	if errs := st.Bind(r.ctx, first, bindings(pending[:1], "n1")); errs[0] != nil {
		t.Fatalf("the leader's own bind: %v", errs[0])
	}

	r.revokeLeader()
	second := r.campaign("second")
	if second.Term() <= first.Term() {
		t.Errorf("terms: got %d after %d, want a higher one", second.Term(), first.Term())
	}
	before := r.revision()
	<-first.Done()
	fences := []struct {
		name string
		lease.Fence
	}{{"a leader that checks", first}, {"a leader that does not know", unaware{first}}}
	for _, fence := range fences {
		name := fence.name
		for _, err := range st.Bind(r.ctx, fence, bindings(pending[1:], "n1")) {
			if !errors.Is(err, lease.ErrDeposed) {
				t.Errorf("bind by %s: got %v, want %v", name, err, lease.ErrDeposed)
			}
		}
		if _, _, err := st.Apply(r.ctx, fence, []runtime.Object{build.Pod("late").Obj()}, false); !errors.Is(err, lease.ErrDeposed) {
			t.Errorf("apply by %s: got %v, want %v", name, err, lease.ErrDeposed)
		}
		if _, _, err := st.Delete(r.ctx, fence, []objects.Ref{objects.RefOf(pending[1])}); !errors.Is(err, lease.ErrDeposed) {
			t.Errorf("delete by %s: got %v, want %v", name, err, lease.ErrDeposed)
		}
		entry := map[types.UID]*pb.QueueEntry{pending[1].UID: {Pod: "default/p1", Message: "late"}}
		if err := st.SaveEntries(r.ctx, fence, entry, nil); !errors.Is(err, lease.ErrDeposed) {
			t.Errorf("journal by %s: got %v, want %v", name, err, lease.ErrDeposed)
		}
	}
	if after := r.revision(); after != before {
		t.Errorf("etcd's revision: got %d, want %d: nothing is written", after, before)
	}

	for _, err := range st.Bind(r.ctx, second, bindings(pending[1:], "n1")) {
		if err != nil {
			t.Errorf("bind by the second leader: %v", err)
		}
	}
	reigns := r.judge()
	if len(reigns) != 2 || reigns[0].Refused == 0 {
		t.Errorf("reigns: got %d, want 2, the first with refused writes", len(reigns))
	}
}

// campaign wins the election.
func (r *rig) campaign(id string) *lease.Leadership {
	r.t.Helper()
	e, err := lease.New(lease.Config{Client: r.etcd.client, Cluster: clusterName, Record: &pb.LeaderRecord{Id: id}, TTL: wholeTest})
	if err != nil {
		r.t.Fatal(err)
	}
	l, err := e.Campaign(r.ctx)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { l.Resign(context.WithoutCancel(r.ctx)) })
	return l
}

// revokeLeader takes the leader's lease away.
func (r *rig) revokeLeader() {
	r.t.Helper()
	resp, err := r.etcd.client.Get(r.ctx, lease.Prefix(clusterName), clientv3.WithFirstCreate()...)
	if err != nil || len(resp.Kvs) == 0 {
		r.t.Fatalf("the leader's key: %v, %v", resp, err)
	}
	if _, err := r.etcd.client.Revoke(r.ctx, clientv3.LeaseID(resp.Kvs[0].Lease)); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) revision() int64 {
	r.t.Helper()
	resp, err := r.etcd.client.Get(r.ctx, "none")
	if err != nil {
		r.t.Fatal(err)
	}
	return resp.Header.Revision
}

func (r *rig) load(st *store.Store) []*v1.Pod {
	r.t.Helper()
	objs, err := st.Load(r.ctx)
	if err != nil {
		r.t.Fatal(err)
	}
	return objs.Pods
}

func bindings(pods []*v1.Pod, node string) []objects.Binding {
	var out []objects.Binding
	for _, p := range pods {
		out = append(out, objects.Binding{Pod: p, Node: node})
	}
	return out
}
