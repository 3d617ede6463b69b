package coordinator

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/internal/testkit/build"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// claimStore is where claims and volumes are written: it numbers what it keeps from 101, and
// tells the scheduler of it when the test lets it.
type claimStore struct {
	mu      sync.Mutex
	err     error
	version int
	written []objects.Object
	// held keeps writes under way until it is closed; nil: they are not held.
	held chan struct{}
}

func (s *claimStore) Write(_ context.Context, objs []objects.Object) (versions []string, err error) {
	if s.held != nil {
		<-s.held
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return nil, s.err
	}
	for _, obj := range objs {
		s.version++
		obj = obj.DeepCopyObject().(objects.Object)
		obj.SetResourceVersion(fmt.Sprint(100 + s.version))
		s.written = append(s.written, obj)
		versions = append(versions, obj.GetResourceVersion())
	}
	return versions, nil
}

func (s *claimStore) say(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
}

// names of what was written, in order.
func (s *claimStore) names() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []string
	for _, obj := range s.written {
		out = append(out, obj.GetName())
	}
	return strings.Join(out, " ")
}

// tell delivers what was written.
func (s *claimStore) tell(x *scenario) {
	x.t.Helper()
	s.mu.Lock()
	var events []objects.Event
	for _, obj := range s.written {
		events = append(events, objects.Event{Type: objects.Modified, Kind: objects.KindOf(obj), Object: obj})
	}
	s.written = nil
	s.mu.Unlock()
	x.Deliver(events)
	synctest.Wait()
}

// localClaims is node n with one local volume, and claims that may have it.
func localClaims(claims ...string) *objects.Snapshot {
	all := clusterOf(nodesOf("4", "n"))
	all.Cluster = []objects.Object{build.WaitingClass("local", ""), build.Volume("pv", "local").Obj()}
	for _, name := range claims {
		all.Cluster = append(all.Cluster, build.Claim(name, "local").Obj())
	}
	return all
}

// runScenarioWithClaims is runScenario with claims and volumes that are written somewhere.
func runScenarioWithClaims(t *testing.T, all *objects.Snapshot, play func(*scenario, *claimStore)) {
	t.Helper()
	writes := &claimStore{}
	runScenarioWith(t, func(cfg *SchedulerConfig) { cfg.VolumeWriter = writes }, all, nil, func(x *scenario) { play(x, writes) })
}

func TestAClaimIsBoundBeforeItsPod(t *testing.T) {
	runScenarioWithClaims(t, localClaims("a"), func(x *scenario, writes *claimStore) {
		p := build.Pod("p").UID("p").Claim("a").Obj()
		x.deliver(objects.Added, p)
		x.wantPods("while its claim is bound", "p promised n")
		x.wantBinds("not yet")
		if got, want := writes.names(), "pv a"; got != want {
			t.Errorf("written: got %q, want %q", got, want)
		}
		writes.tell(x)
		x.wantBinds("once the claim is", "p@ n")
		x.confirm(p, "n")
		x.wantPods("at the end", "p on n")
	})
}

func TestAClaimThatCanNotBeBound(t *testing.T) {
	runScenarioWithClaims(t, localClaims("a", "b"), func(x *scenario, writes *claimStore) {
		writes.say(objects.ErrConflict)
		p, q := build.Pod("p").UID("p").Claim("a").Obj(), build.Pod("q").UID("q").Claim("b").Obj()
		x.deliver(objects.Added, p)
		x.wantPods("the write is refused", "p backoff")
		x.wantMessage("p", `running PreBind plugin "VolumeBinding": changed meanwhile`)
		x.wantBinds("so nothing is bound")

		writes.say(nil)
		x.deliver(objects.Added, q)
		x.wantPods("the volume is another's now", "p backoff", "q promised n")
		writes.tell(x)
		x.wantBinds("who is bound", "q@ n")
		elapse(3 * time.Second)
		x.wantPods("and there is none for the first", "p unschedulable", "q promised n")
		x.wantMessage("p", "1 node(s) didn't find available persistent volumes to bind")
		sum, err := x.Summary(x.ctx)
		if err != nil || sum.BindFailures != 1 {
			t.Errorf("summary: got %d failures, %v; want 1", sum.BindFailures, err)
		}
	})
}

// wantTold checks what keeps a pod, the only one that waits, as its explanation's note and
// the summary tell it.
func (x *scenario) wantTold(name, want string) {
	x.t.Helper()
	out, err := x.Explain(x.ctx, &pb.ExplainRequest{Namespace: "default", Name: name})
	if err != nil || out.Note != want {
		x.t.Errorf("explanation of %s: got note %q, %v; want %q", name, out.GetNote(), err, want)
	}
	sum, err := x.Summary(x.ctx)
	if err != nil || sum.PodsPending != 1 || len(sum.PendingReasons) != 1 || sum.PendingReasons[0].Reason != want || sum.PendingReasons[0].Example != "default/"+name {
		x.t.Errorf("summary: got %d pending, %v, %v; want 1, %q", sum.GetPodsPending(), sum.GetPendingReasons(), err, want)
	}
}

// A volume that is given back is had by the next at once.
func TestAVolumeThatIsGivenBack(t *testing.T) {
	runScenarioWithClaims(t, localClaims("a", "b"), func(x *scenario, writes *claimStore) {
		writes.held = make(chan struct{})
		writes.say(objects.ErrConflict)
		p, q := build.Pod("p").UID("p").Claim("a").Obj(), build.Pod("q").UID("q").Claim("b").Obj()
		x.deliver(objects.Added, p)
		x.deliver(objects.Added, q)
		x.wantPods("the first has it", "p promised n", "q unschedulable")
		elapse(5 * time.Second)
		close(writes.held)
		x.wantPods("and gives it back", "p backoff", "q backoff")
	})
}

func TestAVolumeThatIsWaitedForTooLong(t *testing.T) {
	all := clusterOf(nodesOf("4", "n"))
	all.Cluster = []objects.Object{build.WaitingClass("made", "csi.test"), build.Claim("a", "made").Obj()}
	runScenarioWithClaims(t, all, func(x *scenario, writes *claimStore) {
		p := build.Pod("p").UID("p").Claim("a").Obj()
		x.deliver(objects.Added, p)
		writes.tell(x)
		elapse(9 * time.Minute)
		x.wantPods("nobody makes it", "p promised n")
		x.wantTold("p", beingBound)
		elapse(time.Minute)
		x.wantPods("until patience ends", "p backoff")
		x.wantMessage("p", `running PreBind plugin "VolumeBinding": binding volumes: context deadline exceeded`)
		x.wantTold("p", `running PreBind plugin "VolumeBinding": binding volumes: context deadline exceeded`)
		elapse(3 * time.Second)
		x.wantPods("and it is tried again", "p promised n")
		x.wantBinds("without a bind")
	})
}

func TestAPodThatGoesWhileItsClaimIsBound(t *testing.T) {
	runScenarioWithClaims(t, localClaims("a", "b"), func(x *scenario, writes *claimStore) {
		p := build.Pod("p").UID("p").Claim("a").Obj()
		x.deliver(objects.Added, p)
		x.deliver(objects.Deleted, p)
		elapse(3 * time.Second)
		x.wantPods("it is gone")
		x.wantBinds("and not bound")
		x.wantNothingOf("p")
		if err := x.Idle(x.ctx); err != nil {
			t.Errorf("Idle: %v", err)
		}
	})
}

func TestATermThatEndsWhileAClaimIsBound(t *testing.T) {
	runScenarioWithClaims(t, localClaims("a"), func(x *scenario, writes *claimStore) {
		x.deliver(objects.Added, build.Pod("p").UID("p").Claim("a").Obj())
		x.wantPods("it waits", "p promised n")
		x.cancel()
		x.wantEnd(nil)
		x.wantBinds("nothing is bound after the end")
	})
}
