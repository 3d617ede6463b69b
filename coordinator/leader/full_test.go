package leader

import (
	"errors"
	"strings"
	"testing"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/shardsched/shardsched/coordinator/lease"
	"github.com/shardsched/shardsched/coordinator/standalone/embedetcd"
)

// fill writes history until etcd takes no more.
func (l *land) fill() {
	l.t.Helper()
	for {
		_, err := l.own.Put(l.ctx, "/filler", strings.Repeat("x", 200_000))
		if errors.Is(err, rpctypes.ErrNoSpace) {
			return
		}
		if err != nil {
			l.t.Fatal(err)
		}
	}
}

// room is what docs/etcd.md has an operator do.
func (l *land) room() {
	l.t.Helper()
	now, err := l.own.Get(l.ctx, "/filler", clientv3.WithKeysOnly())
	if err == nil {
		_, err = l.own.Compact(l.ctx, now.Header.Revision, clientv3.WithCompactPhysical())
	}
	if err == nil {
		_, err = l.own.Defragment(l.ctx, l.own.Endpoints()[0])
	}
	if err == nil {
		_, err = l.own.AlarmDisarm(l.ctx, &clientv3.AlarmMember{})
	}
	if err != nil {
		l.t.Fatal(err)
	}
}

// TestAFullEtcdStopsNeitherALeaderNorAStandby has etcd full while one leads and one stands by. Who comes then has to wait for room.
func TestAFullEtcdStopsNeitherALeaderNorAStandby(t *testing.T) {
	l := newLandOn(t, embedetcd.Config{QuotaBytes: 8 << 20}, nodesOf("1000", "n1", "n2")...)
	a := l.start("a")
	a.waitLeading()
	b := l.start("b")
	l.waitContenders(2)
	l.fill()

	l.create(onePods("first", 50)...)
	l.waitBound(50)
	a.cancel()
	if err := a.waitEnd(); err != nil {
		t.Errorf("end of a: got %v, want nil", err)
	}
	b.waitLeading()
	l.wantHolder("b")
	l.create(onePods("second", 50)...)
	l.waitBound(100)

	c := l.start("c")
	for range 3 {
		if _, err := l.own.Grant(l.ctx, 60); !errors.Is(err, rpctypes.ErrNoSpace) {
			t.Fatalf("a lease of a full etcd: got %v, want %v", err, rpctypes.ErrNoSpace)
		}
	}
	if got, err := l.own.Get(l.ctx, lease.Prefix("test"), clientv3.WithPrefix(), clientv3.WithCountOnly()); err != nil || got.Count != 1 {
		t.Errorf("contenders while etcd is full: got %v, %v, want b alone", got.Count, err)
	}
	l.room()
	l.waitContenders(2)
	b.cancel()
	if err := b.waitEnd(); err != nil {
		t.Errorf("end of b: got %v, want nil", err)
	}
	c.waitLeading()
	l.create(onePods("third", 50)...)
	l.waitBound(150)
	if l.rejected != 0 {
		t.Errorf("got %d binds of pods that are bound, want none", l.rejected)
	}
}
