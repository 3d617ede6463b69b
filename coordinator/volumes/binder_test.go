package volumes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/coordinator/storage"
)

// api is a writer that keeps what is written for the scheduling goroutine, numbered from 101.
type api struct {
	mu      sync.Mutex
	calls   []string
	written []objects.Object
	version int
	// fails is the place of the object whose write fails, counted from 1; 0: none.
	fails int
	err   error
}

func (a *api) Write(_ context.Context, objs []objects.Object) ([]string, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	var names, versions []string
	for i, obj := range objs {
		names = append(names, obj.GetName())
		if i+1 == a.fails {
			return versions, a.err
		}
		a.version++
		versions = append(versions, fmt.Sprint(100+a.version))
		obj = obj.DeepCopyObject().(objects.Object)
		obj.SetResourceVersion(versions[i])
		a.written = append(a.written, obj)
	}
	a.calls = append(a.calls, strings.Join(names, " "))
	return versions, nil
}

// take returns what was written since the last call.
func (a *api) take() []objects.Object {
	a.mu.Lock()
	defer a.mu.Unlock()
	out := a.written
	a.written = nil
	return out
}

// binderFixture is a cluster with a volume for claim a, and a class that makes one for claim b.
type binderFixture struct {
	t    *testing.T
	c    *Cache
	api  *api
	node *v1.Node
	pod  *v1.Pod
	work *Work
	done chan error
}

func newBinderFixture(t *testing.T, completes bool, claims ...string) *binderFixture {
	t.Helper()
	s := &binderFixture{t: t, c: New(&registry{}), api: &api{}, pod: podOf("p", claims), done: make(chan error, 1)}
	s.node = words{"zone": "z1"}.object("node", "n1").(*v1.Node)
	s.c.Set(words{"provisioner": "drv", "wait": ""}.class("fast"))
	s.c.Set(words{"class": "fast", "size": "9Gi", "node": "n1", "version": "1"}.volume("v"))
	s.c.Set(words{"class": "fast", "size": "5Gi", "version": "2"}.claim("a"))
	s.c.Set(words{"class": "fast", "size": "99Gi", "version": "3"}.claim("b"))
	work, err := s.c.Reserve(s.pod, s.node)
	if err != nil {
		t.Fatal(err)
	}
	s.work = work
	binder := s.c.Binder(BinderConfig{Writer: s.api, Completes: completes})
	go func() { s.done <- binder.PreBind(t.Context(), work, time.Minute) }()
	synctest.Wait()
	return s
}

// pending fails the test where PreBind is done.
func (s *binderFixture) pending() {
	s.t.Helper()
	synctest.Wait()
	select {
	case err := <-s.done:
		s.t.Fatalf("PreBind is done with error %v, want it to wait", err)
	default:
	}
}

// ends waits for PreBind without letting time pass, and wants it to end in a text; "" is
// success.
func (s *binderFixture) ends(text string) {
	s.t.Helper()
	synctest.Wait()
	select {
	case err := <-s.done:
		got := ""
		if err != nil {
			got = err.Error()
		}
		if got != text {
			s.t.Fatalf("PreBind ended in %q, want %q", got, text)
		}
	default:
		s.t.Fatalf("PreBind still waits, want it to end in %q", text)
	}
	if b := s.c.view; len(b.nodes)+len(b.waiting)+len(b.pods) > 0 {
		s.t.Fatalf("the view of the API lists a work that has ended")
	}
}

// feed lets the scheduling goroutine see what was written.
func (s *binderFixture) feed() {
	for _, obj := range s.api.take() {
		s.c.Set(obj)
	}
}

// claim sets a claim as its newest object, changed by f.
func (s *binderFixture) claim(name, version string, f func(*v1.PersistentVolumeClaim)) {
	pvc := s.c.Claim("default", name).DeepCopy()
	pvc.ResourceVersion = version
	f(pvc)
	s.c.Set(pvc)
}

func bindClaim(to string) func(*v1.PersistentVolumeClaim) {
	return func(pvc *v1.PersistentVolumeClaim) {
		pvc.Spec.VolumeName = to
		metav1.SetMetaDataAnnotation(&pvc.ObjectMeta, storage.AnnBindCompleted, "yes")
	}
}

func TestPreBindCompletesPairsItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newBinderFixture(t, true, "a")
		if want := []string{"v a"}; !slices.Equal(s.api.calls, want) {
			t.Fatalf("writes %q, want %q: one for both", s.api.calls, want)
		}
		pv, pvc := s.api.written[0].(*v1.PersistentVolume), s.api.written[1].(*v1.PersistentVolumeClaim)
		got := []string{
			pv.Spec.ClaimRef.Name, string(pv.Spec.ClaimRef.UID), pv.Spec.ClaimRef.Kind, string(pv.Status.Phase), pv.Annotations[storage.AnnBoundByController],
			pvc.Spec.VolumeName, string(pvc.Status.Phase), pvc.Annotations[storage.AnnBindCompleted], pvc.Annotations[storage.AnnBoundByController], pvc.Status.Capacity.Storage().String(),
		}
		want := []string{"a", "uid-a", "PersistentVolumeClaim", "Bound", "yes", "v", "Bound", "yes", "yes", "9Gi"}
		if !slices.Equal(got, want) {
			t.Fatalf("wrote %q, want %q", got, want)
		}
		s.pending()
		s.feed()
		s.ends("")
		if w, err := s.c.Reserve(s.pod, s.node); w != nil || err != nil {
			t.Fatalf("the claim is bound: Reserve gives %v, %v, want nothing", w, err)
		}
	})
}

func TestPreBindLeavesPairsToTheController(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newBinderFixture(t, false, "a")
		if want := []string{"v"}; !slices.Equal(s.api.calls, want) {
			t.Fatalf("writes %q, want %q", s.api.calls, want)
		}
		s.feed()
		s.pending()
		s.claim("a", "150", bindClaim("v"))
		s.ends("")
	})
}

func TestPreBindWaitsForTheProvisioner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newBinderFixture(t, true, "b")
		if got := s.api.written[0].GetAnnotations()[storage.AnnSelectedNode]; got != "n1" {
			t.Fatalf("selected node %q is written, want n1", got)
		}
		s.feed()
		s.pending()
		s.claim("b", "150", bindClaim("made"))
		s.pending() // its volume is not known yet
		s.c.Set(words{"class": "fast", "size": "99Gi", "zone": "z1", "ref": "b", "phase": "Bound"}.volume("made"))
		s.ends("")
	})
}

// elapse lets a bubble's clock go on.
func elapse(d time.Duration) { <-time.After(d) }

// It runs in a synctest bubble, whose clock leaps: nothing here waits.
func TestPreBindEnds(t *testing.T) {
	for _, test := range []struct {
		name, claim, text string
		do                func(*binderFixture)
	}{
		{"at the deadline", "a", "binding volumes: context deadline exceeded", func(s *binderFixture) {
			elapse(time.Minute)
		}},
		{"when its pod is deleted", "a", `binding volumes: pod does not exist any more: pod "p" not found`, func(s *binderFixture) {
			s.c.Delete(s.pod)
		}},
		{"when its node is gone", "b", `binding volumes: failed to get node "n1": node "n1" not found`, func(s *binderFixture) {
			s.c.Delete(s.node)
			s.pending() // nobody wakes it
			elapse(checkPeriod)
		}},
		{"when the volume is gone", "a", `binding volumes: failed to check binding: persistentvolumes "v" not found`, func(s *binderFixture) {
			s.c.Delete(words{}.volume("v"))
		}},
		{"when the claim is gone", "a", `binding volumes: failed to check binding: persistentvolumeclaims "default/a" not found`, func(s *binderFixture) {
			s.c.Delete(words{}.claim("a"))
		}},
		{"when the claim to make a volume for is gone", "b", `binding volumes: failed to check provisioning pvc: persistentvolumeclaims "default/b" not found`, func(s *binderFixture) {
			s.c.Delete(words{}.claim("b"))
		}},
		{"when the volume is given to nobody", "a", `binding volumes: ClaimRef got reset for pv "v"`, func(s *binderFixture) {
			s.c.Set(words{"class": "fast", "size": "9Gi", "node": "n1", "version": "160"}.volume("v"))
		}},
		{"when the volume moves away", "a", `binding volumes: pv "v" node affinity doesn't match node "n1": no matching NodeSelectorTerms`, func(s *binderFixture) {
			s.c.Set(words{"class": "fast", "size": "9Gi", "node": "n2", "ref": "a", "version": "160"}.volume("v"))
		}},
		{"when the node's labels change", "a", `binding volumes: pv "v" node affinity doesn't match node "n1": no matching NodeSelectorTerms`, func(s *binderFixture) {
			n := s.node.DeepCopy()
			n.Labels = nil
			s.c.Set(n)
			elapse(checkPeriod)
		}},
		{"when the provisioner gives up", "b", `binding volumes: provisioning failed for PVC "b"`, func(s *binderFixture) {
			s.claim("b", "160", func(pvc *v1.PersistentVolumeClaim) { pvc.Annotations = map[string]string{"x": "y"} })
		}},
		{"when the annotations are gone", "b", `binding volumes: selectedNode annotation reset for PVC "b"`, func(s *binderFixture) {
			s.claim("b", "160", func(pvc *v1.PersistentVolumeClaim) { pvc.Annotations = nil })
		}},
		{"when the volume is made elsewhere", "b", `binding volumes: pv "made" node affinity doesn't match node "n1": no matching NodeSelectorTerms`, func(s *binderFixture) {
			s.c.Set(words{"class": "fast", "size": "99Gi", "zone": "z2", "ref": "b"}.volume("made"))
			s.claim("b", "160", bindClaim("made"))
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newBinderFixture(t, false, test.claim)
				s.feed()
				s.pending()
				test.do(s)
				s.ends(test.text)
				s.c.Unreserve(s.work)
				if got, want := contents(s.c), contents(fresh(s.c)); !cmp.Equal(got, want) {
					t.Fatalf("after Unreserve (-want +got):\n%s", cmp.Diff(want, got))
				}
			})
		})
	}
}

func TestPreBindIgnoresWhatIsOlderThanItsWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newBinderFixture(t, false, "a")
		s.c.Set(words{"class": "fast", "size": "9Gi", "node": "n1", "version": "50"}.volume("v"))
		s.pending() // its claimRef is on the way
		s.feed()
		s.claim("a", "150", bindClaim("v"))
		s.ends("")
	})
}

func TestPreBindOfAMigratedVolume(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newBinderFixture(t, false, "b")
		s.feed()
		s.c.Set(words{"ebs.csi.aws.com": "3", "migrated": "kubernetes.io/aws-ebs"}.csiNode("n1"))
		// The CSI driver's topology key takes the zone's place, and the node lacks it.
		s.c.Set(words{"class": "fast", "size": "99Gi", "ebs": "vol-1", "zone": "z1", "ref": "b"}.volume("made"))
		s.claim("b", "160", bindClaim("made"))
		s.ends(`binding volumes: pv "made" node affinity doesn't match node "n1": no matching NodeSelectorTerms`)
	})
}

// What was written stays assumed until the API tells of it; the rest is taken back.
func TestUnreserveAfterAFailedWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refused := errors.New("the object has been modified")
		s := &binderFixture{t: t, c: New(&registry{}), api: &api{fails: 2, err: refused}, pod: podOf("p", []string{"a", "b"})}
		s.node = words{}.object("node", "n1").(*v1.Node)
		s.c.Set(words{"provisioner": "drv", "wait": ""}.class("fast"))
		s.c.Set(words{"class": "fast", "size": "9Gi", "version": "1"}.volume("v"))
		s.c.Set(words{"class": "fast", "size": "5Gi", "version": "2"}.claim("a"))
		s.c.Set(words{"class": "fast", "size": "99Gi", "version": "3"}.claim("b"))
		work, err := s.c.Reserve(s.pod, s.node)
		if err != nil {
			t.Fatal(err)
		}
		err = s.c.Binder(BinderConfig{Writer: s.api}).PreBind(t.Context(), work, time.Minute)
		if !errors.Is(err, refused) || err.Error() != refused.Error() {
			t.Fatalf("PreBind: got error %v, want %v as it is", err, refused)
		}
		s.c.Unreserve(work)
		if s.c.Volume("v").Spec.ClaimRef == nil {
			t.Fatal("volume v is written and not assumed any more")
		}
		if at := s.c.Claim("default", "b").Annotations[storage.AnnSelectedNode]; at != "" {
			t.Fatalf("claim b has selected node %q assumed, want it taken back", at)
		}
		s.feed()
		if got, want := contents(s.c), contents(fresh(s.c)); !cmp.Equal(got, want) {
			t.Fatalf("after the API told (-want +got):\n%s", cmp.Diff(want, got))
		}
	})
}

func TestPreBindEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newBinderFixture(t, false, "b")
		s.feed()
		s.claim("b", "150", bindClaim("never"))
		s.pending()
		s.c.Unreserve(s.work) // off the view of the API, so that the fixture's own PreBind ends too
		ctx, cancel := context.WithCancel(t.Context())
		s.c.Set(words{"class": "fast", "size": "1Gi", "version": "3"}.claim("c"))
		work, err := s.c.Reserve(podOf("q", []string{"c"}), s.node)
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		go func() { done <- s.c.Binder(BinderConfig{Writer: s.api}).PreBind(ctx, work, time.Minute) }()
		synctest.Wait()
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Fatalf("PreBind: got %v, want %v", err, context.Canceled)
		}
		<-s.done
	})
}

// Many placements bind at once, while the scheduling goroutine places others and hears of
// everything: the race detector has no objection.
func TestPreBindOnManyGoroutines(t *testing.T) {
	const pods = 40
	c, a := New(&registry{}), &api{}
	node := words{}.object("node", "n1").(*v1.Node)
	c.Set(words{"provisioner": "drv", "wait": ""}.class("fast"))
	c.Set(words{"drv": "100"}.csiNode("n1"))
	binder := c.Binder(BinderConfig{Writer: a, Completes: true})
	results := make(chan error)
	running := 0
	feed := func() {
		for _, obj := range a.take() {
			c.Set(obj)
			if pvc, ok := obj.(*v1.PersistentVolumeClaim); ok && pvc.Spec.VolumeName == "" {
				// The provisioner does its part.
				made := words{"class": "fast", "size": "99Gi", "ref": pvc.Name, "phase": "Bound", "csi": "drv/" + pvc.Name, "version": "9000"}.volume("made-" + pvc.Name)
				pvc = pvc.DeepCopy()
				pvc.ResourceVersion = "9000"
				bindClaim(made.Name)(pvc)
				c.Set(made)
				c.Set(pvc)
			}
		}
	}
	for i := range pods {
		x, y := fmt.Sprint("x", i), fmt.Sprint("y", i)
		c.Set(words{"class": "fast", "size": "9Gi", "version": "1", "csi": "drv/v" + x}.volume("v" + x))
		c.Set(words{"class": "fast", "size": "5Gi", "version": "1"}.claim(x))
		c.Set(words{"class": "fast", "size": "99Gi", "version": "1"}.claim(y))
		pod := podOf(fmt.Sprint("p", i), []string{x, y})
		c.PodAdded("n1", pod)
		work, err := c.Reserve(pod, node)
		if err != nil {
			t.Fatal(err)
		}
		running++
		go func() { results <- binder.PreBind(t.Context(), work, time.Minute) }()
		c.Set(node)
		feed()
	}
	for running > 0 {
		select {
		case err := <-results:
			if err != nil {
				t.Fatal(err)
			}
			running--
		case <-time.After(time.Millisecond):
			feed()
		}
	}
	sum := int64(0)
	for _, change := range c.TakeChanges() {
		for _, v := range change.Counters {
			sum += v.Value
		}
	}
	// PodAdded has told of all of them already, under the claims' names.
	if sum != 0 {
		t.Fatalf("the node's counters change by %d as claims are bound, want 0", sum)
	}
	for i := range pods {
		for _, name := range []string{fmt.Sprint("x", i), fmt.Sprint("y", i)} {
			if !storage.IsBound(c.Claim("default", name)) {
				t.Fatalf("claim %s is not bound", name)
			}
		}
	}
}
