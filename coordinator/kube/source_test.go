package kube_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1alpha2 "k8s.io/api/scheduling/v1alpha2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/shardsched/shardsched/coordinator/kube"
	"github.com/shardsched/shardsched/coordinator/objects"
)

// told gathers what a subscription delivers.
type told struct {
	mu     sync.Mutex
	events []objects.Event
}

func (r *told) deliver(events []objects.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, events...)
}

// of lists the events of one object: "ADDED uid@node".
func (r *told) of(kind objects.Kind, name string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []string
	for i := range r.events {
		e := &r.events[i]
		switch {
		case e.Kind != kind:
		case e.Pod != nil && e.Pod.Name == name:
			out = append(out, fmt.Sprintf("%s %s@%s", e.Type, e.Pod.UID, e.Pod.Spec.NodeName))
		case e.Node != nil && e.Node.Name == name:
			out = append(out, fmt.Sprintf("%s %s", e.Type, e.Node.UID))
		case e.Object != nil && e.Object.GetName() == name:
			out = append(out, fmt.Sprintf("%s %s", e.Type, e.Object.GetUID()))
		}
	}
	return strings.Join(out, ", ")
}

// expect waits until the events of an object are these.
func (r *told) expect(t *testing.T, kind objects.Kind, name, want string) {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for r.of(kind, name) != want {
		if time.Now().After(deadline) {
			t.Fatalf("events of %s %s: got %q, want %q", kind, name, r.of(kind, name), want)
		}
		<-time.After(time.Millisecond)
	}
}

func named(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Name: name} }

func subscribe(t *testing.T, s *kube.Source) (*objects.Snapshot, *told) {
	t.Helper()
	events := &told{}
	all, stop, err := s.Subscribe(events.deliver)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	return all, events
}

func TestASubscriberGetsWhatThereIsAndThenWhatChanges(t *testing.T) {
	server := newListServer(t)
	server.put(&v1.Node{ObjectMeta: named("n1")})
	server.put(&v1.Namespace{ObjectMeta: named("default")})
	server.put(pod("old", on("n1"), withUID("1")))
	server.put(pod("done", on("n1"), withUID("2"), func(p *v1.Pod) { p.Status.Phase = v1.PodSucceeded }))
	source := server.source(t.Context())
	all, events := subscribe(t, source)
	if len(all.Nodes) != 1 || len(all.Pods) != 1 || len(all.Cluster) != 1 || all.Pods[0].Name != "old" || all.Revision == 0 {
		t.Fatalf("snapshot: got %d nodes, %d pods, %d others at %d; want 1, 1 and 1", len(all.Nodes), len(all.Pods), len(all.Cluster), all.Revision)
	}
	server.put(pod("new", withUID("3")))
	server.put(pod("new", withUID("3"), on("n1")))
	server.put(pod("old", on("n1"), withUID("1"), func(p *v1.Pod) { p.Status.Phase = v1.PodFailed }))
	server.put(&v1.Namespace{ObjectMeta: named("team")})
	server.put(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n2", UID: "n"}})
	server.remove(&v1.Node{ObjectMeta: named("n2")})
	server.remove(pod("new"))
	events.expect(t, objects.KindPod, "new", "ADDED 3@, MODIFIED 3@n1, DELETED 3@n1")
	events.expect(t, objects.KindPod, "old", "DELETED 1@n1")
	events.expect(t, objects.KindNode, "n2", "ADDED n, DELETED n")
	if got := source.Pod(pod("new", withUID("3"))); got != nil {
		t.Errorf("pod 3: got %s, want none", got.Name)
	}
	if _, _, err := source.Subscribe(events.deliver); err == nil {
		t.Error("a second subscription: got none, want an error")
	}
}

func TestAPodThatIsToldOfCanBeLookedUp(t *testing.T) {
	server := newListServer(t)
	source := server.source(t.Context())
	const pods = 200
	got := make(chan string, pods)
	_, stop, err := source.Subscribe(func(events []objects.Event) {
		for _, e := range events {
			if now := source.Pod(e.Pod); now == nil || now.ResourceVersion != e.Pod.ResourceVersion {
				got <- fmt.Sprintf("%s was told of at %s and is %v", e.Pod.Name, e.Pod.ResourceVersion, now)
				continue
			}
			got <- ""
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	for i := range pods {
		server.put(pod(fmt.Sprint("p", i), withUID(types.UID(fmt.Sprint(i)))))
	}
	for range pods {
		if wrong := <-got; wrong != "" {
			t.Errorf("got %s, want the same version", wrong)
		}
	}
}

func TestAPodReplacedUnseenIsDeletedFirst(t *testing.T) {
	server := newListServer(t)
	server.put(pod("a", on("n1"), withUID("1")))
	server.put(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "x"}})
	source := server.source(t.Context())
	_, events := subscribe(t, source)
	for _, k := range []objects.Kind{objects.KindPod, objects.KindNode} {
		server.hold(k)
	}
	server.remove(pod("a"))
	server.put(pod("a", withUID("2")))
	server.remove(&v1.Node{ObjectMeta: named("n1")})
	server.put(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "y"}})
	for _, k := range []objects.Kind{objects.KindPod, objects.KindNode} {
		server.compact(k)
	}
	events.expect(t, objects.KindPod, "a", "DELETED 1@n1, ADDED 2@")
	events.expect(t, objects.KindNode, "n1", "DELETED x, ADDED y")
	if source.Pod(pod("a", withUID("1"))) != nil || source.Pod(pod("a", withUID("2"))) == nil || source.PodNamed("default", "a").UID != "2" {
		t.Errorf("got pods %v and %v, want only the new one", source.Pod(pod("a", withUID("1"))), source.Pod(pod("a", withUID("2"))))
	}
}

func TestADeletionThatWasMissedIsTold(t *testing.T) {
	server := newListServer(t)
	server.put(pod("a", on("n1"), withUID("1")))
	source := server.source(t.Context())
	_, events := subscribe(t, source)
	server.hold(objects.KindPod)
	server.remove(pod("a"))
	server.compact(objects.KindPod)
	events.expect(t, objects.KindPod, "a", "DELETED 1@n1")
	eventually(t, "the pod is gone", func() bool { return source.Pod(pod("a", withUID("1"))) == nil })
}

func TestCatchUpWaitsForTheInformer(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*listServer)
		holds  func(*kube.Source) bool
	}{
		"a pod that is bound": {
			func(s *listServer) { s.put(pod("a", withUID("1"), on("n1"))) },
			func(s *kube.Source) bool { return s.PodNamed("default", "a").Spec.NodeName == "n1" },
		},
		"a pod that is new": {
			func(s *listServer) { s.put(pod("d", withUID("4"))) },
			func(s *kube.Source) bool { return s.PodNamed("default", "d") != nil },
		},
		"a pod that is gone": {
			func(s *listServer) { s.remove(pod("b")) },
			func(s *kube.Source) bool { return s.PodNamed("default", "b") == nil },
		},
		"a pod that is another": {
			func(s *listServer) { s.remove(pod("b")); s.put(pod("b", withUID("5"))) },
			func(s *kube.Source) bool { return s.PodNamed("default", "b").UID == "5" },
		},
	} {
		t.Run(name, func(t *testing.T) {
			server := newListServer(t)
			for i, name := range []string{"a", "b", "c"} {
				server.put(pod(name, withUID([]types.UID{"1", "2", "3"}[i])))
			}
			source := server.source(t.Context())
			if err := source.WaitSynced(t.Context()); err != nil {
				t.Fatal(err)
			}
			eventually(t, "pod 1 is indexed", func() bool { return source.Pod(pod("a", withUID("1"))) != nil })
			server.hold(objects.KindPod)
			tc.change(server)
			done := make(chan error, 1)
			go func() { done <- source.CatchUp(t.Context()) }()
			eventually(t, "every kind was read", func() bool {
				for _, k := range kube.Kinds(false) {
					if server.reads(k) == 0 {
						return false
					}
				}
				return true
			})
			select {
			case err := <-done:
				t.Fatalf("got %v before the informer knew, want it to wait", err)
			default:
			}
			server.release(objects.KindPod)
			if err := <-done; err != nil {
				t.Fatal(err)
			}
			eventually(t, "the change is known", func() bool { return tc.holds(source) })
		})
	}
}

func TestCatchUpIsNotHeldUpByWhatChangesMeanwhile(t *testing.T) {
	server := newListServer(t)
	server.put(pod("restless", withUID("1")))
	server.put(pod("short-lived", withUID("2")))
	source := server.source(t.Context())
	if err := source.WaitSynced(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var writing sync.WaitGroup
	writing.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			server.put(pod("restless", withUID("1")))
			if i%2 == 0 {
				server.remove(pod("short-lived"))
			} else {
				server.put(pod("short-lived"))
			}
			<-time.After(time.Millisecond)
		}
	})
	for range 5 {
		if err := source.CatchUp(t.Context()); err != nil {
			t.Error(err)
		}
	}
	cancel()
	writing.Wait()
}

func TestCatchUpSurvivesAnAPIServerThatRefuses(t *testing.T) {
	server := newListServer(t)
	source := server.source(t.Context())
	if err := source.WaitSynced(t.Context()); err != nil {
		t.Fatal(err)
	}
	server.refuse(objects.KindService, http.StatusInternalServerError)
	done := make(chan error, 1)
	go func() { done <- source.CatchUp(t.Context()) }()
	eventually(t, "the other kinds were read", func() bool { return server.reads(objects.KindPod) > 0 })
	server.refuse(objects.KindService, 0)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

func TestAKindThatIsForbiddenIsNamed(t *testing.T) {
	server := newListServer(t)
	server.refuse(objects.KindCSIStorageCapacity, http.StatusForbidden)
	source := server.source(t.Context())
	eventually(t, "the reason is known", func() bool {
		err := source.Ready()
		return err != nil && strings.Contains(err.Error(), "not synced: csistoragecapacities (csistoragecapacities is forbidden: no)")
	})
	ctx, cancel := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	cancel(enough)
	err := source.WaitSynced(ctx)
	if !errors.Is(err, enough) || !strings.Contains(err.Error(), "csistoragecapacities is forbidden") {
		t.Errorf("got %v, want an error that names the kind", err)
	}
	server.refuse(objects.KindCSIStorageCapacity, 0)
	if err := source.WaitSynced(t.Context()); err != nil || source.Ready() != nil || !source.Synced() {
		t.Errorf("got %v, %v, want all synced once it is allowed", err, source.Ready())
	}
}

func TestAnAPIServerWithoutDevicesIsNotWaitedFor(t *testing.T) {
	devices := []objects.Kind{objects.KindDeviceClass, objects.KindResourceSlice, objects.KindResourceClaim}
	for name, status := range map[string]int{"not found": http.StatusNotFound, "no role for it": http.StatusForbidden} {
		t.Run(name, func(t *testing.T) {
			server := newListServer(t)
			server.put(pod("a", withUID("1")))
			server.update(func() { server.discovery = http.StatusNotFound })
			for _, k := range devices {
				server.refuse(k, status)
			}
			source := server.source(t.Context())
			if err := source.WaitSynced(t.Context()); err != nil || source.Ready() != nil {
				t.Errorf("got %v, %v, want all synced", err, source.Ready())
			}
			if err := source.CatchUp(t.Context()); err != nil {
				t.Error(err)
			}
			if source.PodNamed("default", "a") == nil {
				t.Error("got no pod a, want it")
			}
			all, stop, err := source.Subscribe(func([]objects.Event) {})
			if err != nil {
				t.Fatal(err)
			}
			defer stop()
			if !all.NoDevices {
				t.Error("got a snapshot that may have devices, want none")
			}
		})
	}
}

// PodGroups are read where that is asked for, and are then waited for only where the API server has them.
func TestPodGroupsAreReadWhereTheyAreAskedFor(t *testing.T) {
	server := newListServer(t)
	g := &schedulingv1alpha2.PodGroup{ObjectMeta: metav1.ObjectMeta{Name: "train", Namespace: "ml", UID: "1"}}
	server.put(g)
	for _, asked := range []bool{false, true} {
		source := server.sourceOf(t.Context(), kube.SourceConfig{PodGroups: asked})
		if err := errors.Join(source.WaitSynced(t.Context()), source.CatchUp(t.Context())); err != nil {
			t.Fatal(err)
		}
		all, stop, err := source.Subscribe(func([]objects.Event) {})
		if err != nil {
			t.Fatal(err)
		}
		stop()
		if got := len(all.Cluster); got != map[bool]int{true: 1}[asked] {
			t.Errorf("asked for, %v: got %d objects", asked, got)
		}
	}
	for name, status := range map[string]int{"not found": http.StatusNotFound, "no role for it": http.StatusForbidden} {
		t.Run(name, func(t *testing.T) {
			server := newListServer(t)
			server.update(func() { server.discovery = http.StatusNotFound })
			server.refuse(objects.KindPodGroup, status)
			source := server.sourceOf(t.Context(), kube.SourceConfig{PodGroups: true})
			if err := source.WaitSynced(t.Context()); !errors.Is(err, kube.ErrNoPodGroups) {
				t.Errorf("got %v, want %v", err, kube.ErrNoPodGroups)
			}
		})
	}
}

func TestDevicesThatMayNotBeListedAreNamed(t *testing.T) {
	server := newListServer(t)
	server.refuse(objects.KindResourceClaim, http.StatusForbidden)
	source := server.source(t.Context())
	eventually(t, "the reason is known", func() bool {
		err := source.Ready()
		return err != nil && strings.Contains(err.Error(), "not synced: resourceclaims (resourceclaims is forbidden: no)")
	})
}

// An API server that is older than the others of its cluster must not make devices that are in use look free.
func TestDevicesThatWereThereAreNotForgotten(t *testing.T) {
	server := newListServer(t)
	claim := &resourcev1.ResourceClaim{}
	claim.Namespace, claim.Name = "default", "gpu"
	server.put(claim)
	source := server.source(t.Context())
	if err := source.CatchUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	server.update(func() { server.discovery = http.StatusNotFound })
	server.refuse(objects.KindResourceClaim, http.StatusNotFound)
	server.compact(objects.KindResourceClaim)
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error, 1)
	go func() { failed <- source.CatchUp(ctx) }()
	eventually(t, "it is asked for again", func() bool { return server.refused(objects.KindResourceClaim) > 2 })
	cancel()
	if err := <-failed; err == nil || !strings.Contains(err.Error(), "resourceclaims") {
		t.Errorf("got %v, want an error that names the claims", err)
	}
	all, stop, err := source.Subscribe(func([]objects.Event) {})
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	if len(all.Cluster) != 1 || all.Cluster[0].GetName() != "gpu" || all.NoDevices {
		t.Errorf("got %v, none: %t; want the claim", all.Cluster, all.NoDevices)
	}
}
