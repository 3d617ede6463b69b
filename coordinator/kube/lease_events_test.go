package kube_test

import (
	"context"
	"net/http"
	"slices"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/events"

	"github.com/shardsched/shardsched/coordinator/kube"
	"github.com/shardsched/shardsched/coordinator/lease"
)

func someLease() *coordinationv1.Lease {
	return &coordinationv1.Lease{
		TypeMeta:   metav1.TypeMeta{Kind: "Lease", APIVersion: "coordination.k8s.io/v1"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "kube-scheduler", UID: "lease-uid", ResourceVersion: "17"},
	}
}

// upstreamLeaseEvent is what upstream's scheduler sends when it becomes leader.
func upstreamLeaseEvent(t *testing.T) seen {
	a := newAPI(t, func(seen) reply { return reply{code: 201, object: &v1.Event{}} })
	cfg := a.config()
	cfg.ContentType = "application/json"
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	b := events.NewEventBroadcasterAdapterWithContext(t.Context(), client)
	defer b.Shutdown()
	b.StartRecordingToSink(t.Context().Done())
	b.DeprecatedNewLegacyRecorder("default-scheduler").Eventf(someLease(), v1.EventTypeNormal, "LeaderElection", "%s", "me became leader")
	var sent []seen
	eventually(t, "client-go's event", func() bool {
		sent = slices.DeleteFunc(a.all(), func(s seen) bool { return s.method != http.MethodPost })
		return len(sent) == 1
	})
	return sent[0]
}

func maskedLeaseEvent(t *testing.T, s seen) string {
	e := decode[v1.Event](t, s.body)
	e.Name, e.FirstTimestamp, e.LastTimestamp, e.CreationTimestamp = "", metav1.Time{}, metav1.Time{}, metav1.Time{}
	return s.method + " " + s.path + " " + e.String()
}

func TestTheEventOfANewLeaderIsUpstreams(t *testing.T) {
	// The first try finds the API server busy.
	a := newAPI(t, script(tooMany("1"), created()))
	w := kube.NewLeaseEvents(a.clients(), "default-scheduler", nil)
	w.Eventf(someLease(), v1.EventTypeNormal, "LeaderElection", "%s %s", "me", "became leader")
	ctx, cancel := context.WithCancel(quiet(t))
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	eventually(t, "our event", func() bool { return len(a.all()) == 2 })
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("run: got %v, want nil", err)
	}
	if got, want := maskedLeaseEvent(t, a.all()[1]), maskedLeaseEvent(t, upstreamLeaseEvent(t)); got != want {
		t.Errorf("\n got %s\nwant %s", got, want)
	}
}

func TestNoEventOfALeaderThatIsDeposed(t *testing.T) {
	a := newAPI(t, never)
	asked := make(chan struct{}, 10)
	w := kube.NewLeaseEvents(a.clients(func(c *kube.ClientConfig) {
		c.Fence = func() error {
			asked <- struct{}{}
			return lease.ErrDeposed
		}
	}), "default-scheduler", nil)
	w.Eventf(someLease(), v1.EventTypeNormal, "LeaderElection", "me became leader")
	ctx, cancel := context.WithCancel(quiet(t))
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	select {
	case <-asked:
	case <-time.After(patience):
		t.Fatal("nobody asks the fence")
	}
	cancel()
	<-ended
	if got := a.all(); len(got) != 0 {
		t.Errorf("got %v, want no request", got)
	}
}
