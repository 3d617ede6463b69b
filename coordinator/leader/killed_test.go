package leader

import (
	"bytes"
	"compress/flate"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"

	"github.com/shardsched/shardsched/coordinator"
	"github.com/shardsched/shardsched/coordinator/devices"
	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/coordinator/standalone/store"
	"github.com/shardsched/shardsched/internal/testkit/build"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

var errKilled = status.Error(codes.Unavailable, "the process is killed")

// mortal is the etcd of a process that is killed when etcd has committed a write of a pod or a claim, before the process hears of it.
// From then on nothing of the process reaches etcd.
type mortal struct {
	clientv3.KV
	killed chan struct{} // closed when it is

	mu     sync.Mutex // guards what is below
	of     string     // the pod whose writes count, its claims' among them
	left   int        // how many writes are left until then, the last among them; 0: it lives on
	writes []string   // those since the kill was planned
	dead   bool
}

// killAfter plans to kill the process after so many writes of a pod from now on; 0: after none.
func (k *mortal) killAfter(writes int, of string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.of, k.left, k.writes = of, writes, nil
}

// counts tells whether a key is that of the pod, of a claim that was made for it, or of a commit of its pod group. Others may be written at any time, as by what was
// left undone.
func (k *mortal) counts(key string) bool {
	for _, kind := range []string{"/objects/pods/default/", "/objects/resourceclaims/default/", "/gangs/default/"} {
		if _, name, ok := strings.Cut(key, kind); ok {
			return name == k.of || strings.HasPrefix(name, k.of+"-") || strings.HasPrefix(name, k.of+"/")
		}
	}
	return false
}

func (k *mortal) isDead() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.dead
}

// wrote takes in a transaction that is committed. It is an error where that was the last one.
func (k *mortal) wrote(ops []clientv3.Op) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	var keys []string
	for _, op := range ops {
		if key := string(op.KeyBytes()); !op.IsGet() && k.counts(key) {
			keys = append(keys, strings.TrimPrefix(key, "/shardsched/test"))
		}
	}
	if len(keys) == 0 || k.dead {
		return nil
	}
	k.writes = append(k.writes, strings.Join(keys, " "))
	if k.left == 0 {
		return nil
	}
	if k.left--; k.left > 0 {
		return nil
	}
	k.dead = true
	close(k.killed)
	return errKilled
}

// Get is part of clientv3.KV.
func (k *mortal) Get(ctx context.Context, key string, opts ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	if k.isDead() {
		return nil, errKilled
	}
	return k.KV.Get(ctx, key, opts...)
}

// Put is part of clientv3.KV.
func (k *mortal) Put(ctx context.Context, key, value string, opts ...clientv3.OpOption) (*clientv3.PutResponse, error) {
	if k.isDead() {
		return nil, errKilled
	}
	return k.KV.Put(ctx, key, value, opts...)
}

// Delete is part of clientv3.KV.
func (k *mortal) Delete(ctx context.Context, key string, opts ...clientv3.OpOption) (*clientv3.DeleteResponse, error) {
	if k.isDead() {
		return nil, errKilled
	}
	return k.KV.Delete(ctx, key, opts...)
}

// Txn is part of clientv3.KV.
func (k *mortal) Txn(ctx context.Context) clientv3.Txn { return &mortalTxn{Txn: k.KV.Txn(ctx), of: k} }

type mortalTxn struct {
	clientv3.Txn
	of   *mortal
	then []clientv3.Op
}

// If is part of clientv3.Txn.
func (t *mortalTxn) If(cs ...clientv3.Cmp) clientv3.Txn { t.Txn = t.Txn.If(cs...); return t }

// Then is part of clientv3.Txn.
func (t *mortalTxn) Then(ops ...clientv3.Op) clientv3.Txn {
	t.Txn, t.then = t.Txn.Then(ops...), ops
	return t
}

// Else is part of clientv3.Txn.
func (t *mortalTxn) Else(ops ...clientv3.Op) clientv3.Txn { t.Txn = t.Txn.Else(ops...); return t }

// Commit is part of clientv3.Txn.
func (t *mortalTxn) Commit() (*clientv3.TxnResponse, error) {
	if t.of.isDead() {
		return nil, errKilled
	}
	resp, err := t.Txn.Commit()
	if err == nil && resp.Succeeded {
		err = t.of.wrote(t.then)
	}
	if err != nil {
		return nil, err
	}
	return resp, nil
}

// mortalMember is a coordinator that may be killed.
type mortalMember struct {
	*member
	*mortal
}

// start has a coordinator lead that is killed after so many writes of a pod; 0: it is not.
func (f *fleet) start(name string, writes int, of string, change ...func(*coordinator.SchedulerConfig)) mortalMember {
	f.t.Helper()
	etcd := f.client()
	k := &mortal{KV: etcd.KV, killed: make(chan struct{}), of: of, left: writes}
	etcd.KV = k
	m := f.joinWith(name, etcd, change...)
	select {
	case <-m.terms:
	case <-k.killed: // before it has begun its term, by what it found undone
	case <-f.ctx.Done():
		f.t.Fatalf("coordinator %s does not come to lead", name)
	}
	return mortalMember{m, k}
}

// takeOver waits until a leader is killed, and has another lead, as start does.
func (f *fleet) takeOver(from mortalMember, name string, writes int, of string, change ...func(*coordinator.SchedulerConfig)) mortalMember {
	f.t.Helper()
	select {
	case <-from.killed:
	case <-f.ctx.Done():
		f.t.Fatalf("leader %s, before %s, lives on after the writes %q", from.id, name, from.writes)
	}
	f.lose(from.member)
	from.leave()
	return f.start(name, writes, of, change...)
}

// TestTheNextLeaderGoesOnWhereOneWasKilled kills leaders after each write to etcd of a binding with claims, from that of the pod on,
// and of a pod's deletion; and those that take over after some of their own.
func TestTheNextLeaderGoesOnWhereOneWasKilled(t *testing.T) {
	// The writes of a binding: the pod, the claim from its template; that claim's allocation; the claim for extended resources, its
	// allocation; bind.
	kills := [][]int{{1}, {2}, {3}, {4}, {5}, {6}, {1, 1}, {2, 2}, {3, 1}, {4, 1}, {4, 2}, {5, 1}, {5, 3}, {5, 1, 1, 1}}
	const resource = "example.com/gpu"
	f := newFleet(t)
	leader := f.start("first", 0, "")
	nodes := someNodes(2, "64")
	leader.apply(nodes...)
	all := gpuObjects(nodes, len(kills)) // none to spare: a device that leaks is missed
	extended := resource
	all[0].(*resourcev1.DeviceClass).Spec.ExtendedResourceName = &extended
	leader.apply(all...)
	for i, after := range kills {
		p := build.Pod(fmt.Sprint("p", i)).UID("").CPU("1").Request(resource, "1").Obj()
		template := "one"
		p.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "gpu", ResourceClaimTemplateName: &template}}
		leader.killAfter(after[0], p.Name)
		raw, err := objects.Encode(p)
		if err != nil {
			t.Fatal(err)
		}
		applied, of := make(chan error, 1), leader.api
		go func() {
			_, err := of.Apply(f.ctx, &pb.ApplyRequest{Objects: []*pb.Object{{Raw: raw}}})
			applied <- err
		}()
		for n, next := range append(after[1:], 0) {
			leader = f.takeOver(leader, fmt.Sprint(p.Name, "-", n), next, p.Name)
		}
		// A pod may be scheduled before the writer of its claim has heard from etcd: it then says that it does not know.
		switch err := <-applied; {
		case err == nil && after[0] <= 2:
			t.Errorf("%v: the apply was answered, want an error: the leader was killed before its last write was", after)
		case err != nil && status.Code(err) != codes.Unavailable:
			t.Errorf("%v: got %v from the apply, want it done or its outcome unknown", after, err)
		}
		f.waitBound(i + 1)
		f.wantClaims(i + 1)
	}
	f.wantSound(64)
	for i := range kills {
		// The writes of a deletion: the pod, its claims.
		kill := i < 2
		if kill {
			leader.killAfter(i+1, fmt.Sprint("p", i))
		}
		deleted, of := make(chan error, 1), leader.api
		go func() {
			_, err := of.Delete(f.ctx, &pb.DeleteRequest{Refs: []*pb.ObjectRef{{Kind: "Pod", Namespace: "default", Name: fmt.Sprint("p", i)}}})
			deleted <- err
		}()
		if kill {
			leader = f.takeOver(leader, fmt.Sprint("deletion-", i), 0, "")
		}
		if err := <-deleted; (err != nil) != kill {
			t.Errorf("deletion %d: got %v, want an error where the leader was killed meanwhile", i, err)
		}
		f.wantClaims(len(kills) - 1 - i)
	}
}

// loaded are the pods and claims that etcd has, by name.
func (f *fleet) loaded() (map[string]*v1.Pod, map[string]*resourcev1.ResourceClaim) {
	f.t.Helper()
	all, err := store.New(f.own, "test").Load(f.ctx)
	if err != nil {
		f.t.Fatal(err)
	}
	pods, claims := map[string]*v1.Pod{}, map[string]*resourcev1.ResourceClaim{}
	for _, p := range all.Pods {
		pods[p.Name] = p
	}
	for _, obj := range all.Cluster {
		if c, ok := obj.(*resourcev1.ResourceClaim); ok {
			claims[c.Name] = c
		}
	}
	return pods, claims
}

// wantClaims checks that so many pods have a device of their node by a claim from their template, and another for their extended
// resource, and that there are no other claims.
func (f *fleet) wantClaims(n int) {
	f.t.Helper()
	pods, claims := f.loaded()
	if len(pods) != n || len(claims) != 2*n {
		f.t.Errorf("got %d pods and %d claims, want %d, and two for each", len(pods), len(claims), n)
	}
	taken := map[devices.Device]string{}
	for name, p := range pods {
		mine := objects.PodClaims(p)[0].Ref.Name
		if p.Status.ExtendedResourceClaimStatus == nil {
			f.t.Errorf("pod %s is bound without a claim for its extended resource", name)
			continue
		}
		for _, of := range []string{mine, p.Status.ExtendedResourceClaimStatus.ResourceClaimName} {
			c := claims[of]
			if c == nil || c.Status.Allocation == nil {
				f.t.Errorf("pod %s: claim %s is %v, want it allocated", name, of, c)
				continue
			}
			isMine := func(r resourcev1.ResourceClaimConsumerReference) bool { return r.UID == p.UID }
			if r := c.Status.ReservedFor; len(r) != 1 || !slices.ContainsFunc(r, isMine) {
				f.t.Errorf("pod %s: claim %s is reserved for %v, want the pod alone", name, of, r)
			}
			r := c.Status.Allocation.Devices.Results
			if len(r) != 1 || r[0].Pool != p.Spec.NodeName {
				f.t.Errorf("pod %s on %s: claim %s has %v, want one device of the node", name, p.Spec.NodeName, of, r)
				continue
			}
			at := devices.Device{Driver: r[0].Driver, Pool: r[0].Pool, Name: r[0].Device}
			if taken[at] != "" {
				f.t.Errorf("claims %s and %s have device %v", of, taken[at], at)
			}
			taken[at] = of
		}
	}
}

// kill kills the process now.
func (k *mortal) kill() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.dead = true
	close(k.killed)
}

// TestTheNextLeaderExplainsWhatAKilledOneDecided has pods placed, refused and deleted, kills the leader, and asks the next one.
func TestTheNextLeaderExplainsWhatAKilledOneDecided(t *testing.T) {
	f := newFleet(t)
	leader := f.start("first", 0, "")
	leader.apply(someNodes(2, "4")...)
	leader.apply(build.Pod("huge").UID("").CPU("64").Obj())
	for _, name := range []string{"stays", "deleted", "missed"} {
		leader.apply(build.Pod(name).UID("").CPU("1").Obj())
	}
	f.waitBound(3)
	if _, err := leader.api.Delete(f.ctx, &pb.DeleteRequest{Refs: []*pb.ObjectRef{{Kind: "Pod", Namespace: "default", Name: "deleted"}}}); err != nil {
		t.Fatal(err)
	}
	before := map[string]*pb.ExplainResponse{}
	for _, name := range []string{"stays", "deleted", "missed", "huge"} {
		before[name] = leader.explained(name)
	}
	f.waitKept(4, 1)
	leader.kill()
	if _, err := f.own.Delete(f.ctx, "/shardsched/test/objects/pods/default/missed"); err != nil { // while nobody leads
		t.Fatal(err)
	}
	next := f.takeOver(leader, "second", 0, "")
	for next.explained("stays").Decision == nil { // the history is read behind the loop
		pause(f.ctx, 50*time.Millisecond)
	}
	for name, was := range before {
		want, now := was.History[0], next.explained(name)
		i := slices.IndexFunc(now.History, func(p *pb.PastDecision) bool {
			return p.DecidedBy == "first" && p.Decision.Seq == want.Decision.Seq
		})
		if i < 0 {
			t.Errorf("%s: got %v, want decision %d of the first leader", name, now.History, want.Decision.Seq)
			continue
		}
		got := proto.CloneOf(now.History[i])
		if got.DecidedBy = ""; !proto.Equal(got, want) {
			t.Errorf("%s: the next leader tells %v, want %v", name, got, want)
		}
		if name != "huge" && len(got.Top) != 2 {
			t.Errorf("%s: got the scores of %d nodes, want of 2", name, len(got.Top))
		}
		if gone := name == "deleted" || name == "missed"; (now.Gone != nil) != gone {
			t.Errorf("%s: got gone at %v, want it so: %t", name, now.Gone, gone)
		}
	}
}

// waitKept waits until etcd has so many decisions and departures.
func (f *fleet) waitKept(decisions, departures int) {
	f.t.Helper()
	for f.ctx.Err() == nil {
		all, err := store.New(f.own, "test").LoadHistory(f.ctx)
		if err != nil {
			f.t.Fatal(err)
		}
		kept := &pb.HistoryChunk{}
		for _, part := range all {
			raw, err := io.ReadAll(flate.NewReader(bytes.NewReader(part)))
			if err == nil {
				err = proto.UnmarshalOptions{Merge: true}.Unmarshal(raw, kept)
			}
			if err != nil {
				f.t.Fatal(err)
			}
		}
		if len(kept.Decisions) >= decisions && len(kept.Departures) >= departures {
			return
		}
		pause(f.ctx, 100*time.Millisecond)
	}
	f.t.Fatalf("etcd has not got %d decisions and %d departures", decisions, departures)
}
