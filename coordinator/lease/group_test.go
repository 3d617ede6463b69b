package lease_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/shardsched/shardsched/coordinator/lease"
	"github.com/shardsched/shardsched/coordinator/standalone/embedetcd"
)

// Embedded members are set up alike, so etcd gives them one id.
func TestAGroupIsOfOneEtcdAndCluster(t *testing.T) {
	here, there := newEtcd(t), startEtcd(t, embedetcd.Config{DataDir: t.TempDir()})
	groups := map[string]string{}
	for _, x := range []struct {
		name, cluster, id string
		on                *etcd
	}{{"first", "a", "1", here}, {"another process", "a", "2", here}, {"another cluster", "b", "1", here}, {"another etcd", "a", "3", there}} {
		g, err := lease.Group(t.Context(), x.on.client(t), x.cluster, x.id)
		if err != nil || !strings.HasSuffix(g, "-"+x.cluster) {
			t.Fatalf("%s: got %q, %v, want one that ends with the cluster's name", x.name, g, err)
		}
		groups[x.name] = g
	}
	if groups["first"] != groups["another process"] {
		t.Errorf("two processes: got groups %q and %q, want one", groups["first"], groups["another process"])
	}
	for _, other := range []string{"another cluster", "another etcd"} {
		if groups[other] == groups["first"] {
			t.Errorf("%s: got group %q too", other, groups[other])
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := lease.Group(ctx, here.client(t), "a", "1"); !errors.Is(err, context.Canceled) {
		t.Errorf("when its context has ended: got %v, want %v", err, context.Canceled)
	}
}
