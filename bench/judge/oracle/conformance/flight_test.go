package conformance

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/shardsched/shardsched/bench/judge/oracle"
	"github.com/shardsched/shardsched/coordinator"
	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/coordinator/observe"
	"github.com/shardsched/shardsched/coordinator/record"
	"github.com/shardsched/shardsched/internal/testkit/build"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// cluster is an API server, beside a scheduler that binds to it while it changes. Some binds
// and writes fail, some are late, and what was written comes back as changes.
type cluster struct {
	t         *testing.T
	scheduler *coordinator.Scheduler

	mu  sync.Mutex
	api *apiServer
	rnd *rand.Rand
	// kind: nothing fails any more.
	kind bool
	// patience is how long it waits in the end for the scheduler to be idle. With rests it waits
	// for a moment after so many changes too.
	patience time.Duration
	rests    int
	// dying are victims that take their time to leave, and behind are evictions under way.
	dying  []*v1.Pod
	behind sync.WaitGroup
}

// deliver tells the scheduler of changes. The lock is held, so that they come in order.
func (c *cluster) deliver(r Round) {
	events, err := storeEvents(r)
	if err != nil {
		c.t.Error(err)
	}
	c.scheduler.Deliver(events)
}

func (c *cluster) chance(percent int) bool { return !c.kind && c.rnd.IntN(100) < percent }

// change lets a round happen.
func (c *cluster) change(r Round) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.chance(70) {
		c.bury()
	}
	c.deliver(c.api.round(r))
}

// bury lets the victims go that took their time.
func (c *cluster) bury() {
	for _, pod := range c.dying {
		c.deliver(c.api.remove(pod))
	}
	c.dying = nil
}

// Evict is the scheduler's Evictor.
func (c *cluster) Evict(_ context.Context, e objects.Eviction, done func(error)) {
	c.behind.Go(func() { done(c.evict(e)) })
}

func (c *cluster) evict(e objects.Eviction) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, pod := range e.Lower {
		c.api.nominate(pod, "")
	}
	for _, victim := range e.Victims {
		pod, _ := c.api.objects[keyOf(victim)].(*v1.Pod)
		switch {
		case pod == nil:
		case c.chance(10):
			return objects.ErrConflict
		case c.chance(40):
			pod = pod.DeepCopy()
			pod.DeletionTimestamp = &metav1.Time{Time: time.Unix(epoch+200, 0)}
			pod.Status.Conditions = append(pod.Status.Conditions, v1.PodCondition{
				Type: v1.DisruptionTarget, Status: v1.ConditionTrue, Reason: v1.PodReasonPreemptionByScheduler,
			})
			c.dying = append(c.dying, pod)
			c.deliver(Round{c.api.put(pod)})
		default:
			c.deliver(c.api.remove(pod))
		}
	}
	return nil
}

// Unscheduled writes what becomes of a pod's nominated node, some time.
func (c *cluster) Unscheduled(pod *v1.Pod, reason, _ string, nominating *objects.Nominating) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case nominating != nil:
		c.api.nominate(pod, nominating.Node)
	case reason == coordinator.ReasonSchedulerError:
		c.api.nominate(pod, "")
	}
}

func (c *cluster) Unnominated(p *v1.Pod)                { c.api.nominate(p, "") }
func (c *cluster) Preempted(*v1.Pod, *objects.Eviction) {}
func (c *cluster) Skipped(*v1.Pod)                      {}
func (c *cluster) Abandoned(*v1.Pod, string)            {}
func (c *cluster) Expected(*v1.Pod, string)             {}
func (c *cluster) AwaitsDevices(*v1.Pod, string)        {}
func (c *cluster) Scheduled(*v1.Pod, string)            {}

// Bind is the scheduler's binder.
func (c *cluster) Bind(_ context.Context, bindings []objects.Binding, done func(int, error)) {
	for i, b := range bindings {
		done(i, c.bind(b))
	}
}

func (c *cluster) bind(b objects.Binding) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	pod, _ := c.api.objects[keyOf(b.Pod)].(*v1.Pod)
	switch {
	case pod == nil:
		return objects.ErrNotFound
	case c.chance(10):
		return objects.ErrConflict
	case pod.Spec.NodeName != "":
		return objects.ErrAlreadyBound
	}
	c.api.nodes[pod.UID] = b.Node
	c.deliver(Round{c.api.put(pod)})
	return nil
}

// Write is the scheduler's writer of volumes. What the controllers of volumes do comes at once.
func (c *cluster) Write(_ context.Context, objs []objects.Object) (versions []string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, obj := range objs {
		obj := obj.DeepCopyObject().(oracle.Object)
		now := c.api.objects[keyOf(obj)]
		if now == nil {
			return versions, objects.ErrNotFound
		}
		if now.GetResourceVersion() != obj.GetResourceVersion() || c.chance(10) {
			return versions, objects.ErrConflict
		}
		e := c.api.put(obj)
		c.deliver(Round{e})
		versions = append(versions, e.Object.GetResourceVersion())
		switch obj := e.Object.DeepCopyObject().(type) {
		case *v1.PersistentVolume:
			if c.api.objects[key{"*v1.PersistentVolumeClaim", obj.Spec.ClaimRef.Namespace + "/" + obj.Spec.ClaimRef.Name}] != nil {
				c.deliver(c.api.bind(obj))
			}
		case *v1.PersistentVolumeClaim:
			c.deliver(c.api.provision(obj, c.chance(20)))
		}
	}
	return versions, nil
}

// fly has a scenario happen while our scheduler decides, without waiting for it between the
// rounds, and returns the record.
func fly(t *testing.T, seed uint64, s *Scenario, patience time.Duration, rests int) (config, flight []byte) {
	t.Helper()
	split := SplitOf(seed)
	config, err := s.Config.file()
	if err != nil {
		t.Fatal(err)
	}
	ours, err := ourConfig(config, s.PodGroups)
	if err != nil {
		t.Fatal(err)
	}
	profiles, err := ours.Profiles()
	if err != nil {
		t.Fatal(err)
	}
	var out buffer
	w := record.NewWriter(&out, record.Config{})
	ctx, stop := context.WithCancel(klog.NewContext(t.Context(), klog.Logger{}))
	go w.Run(ctx)
	c := &cluster{t: t, patience: patience, rests: rests, api: newAPIServer(), rnd: rand.New(rand.NewPCG(seed, 4))}
	clock, claims := newClock(), claimWriter{cluster: c, whole: seed%4 == 0}
	cfg := coordinator.SchedulerConfig{
		Cluster: "flight", Term: 1, Shards: split.Shards, BatchSize: min(split.Batch, 7), Profiles: profiles, QueueNow: clock.now,
		Binder: c, VolumeWriter: c, ClaimWriter: claims, VolumeController: true, DisruptionController: true, Recorder: w,
		Evictor: c, Reporter: c,
	}
	if !claims.whole {
		cfg.ClaimStatus = claims
	}
	if c.scheduler, err = coordinator.NewScheduler(cfg); err != nil {
		t.Fatal(err)
	}
	c.scheduler.Load(c.start(s.Rounds[0]), map[types.UID]*pb.QueueEntry{})
	ended := make(chan error)
	go func() { ended <- c.scheduler.Run(ctx) }()
	pauses := rand.New(rand.NewPCG(seed, 5))
	for _, r := range s.Rounds[1:] {
		for i := range r { // one by one, so that decisions come between them
			c.change(r[i : i+1])
			if c.rests > 0 && i%c.rests == 0 {
				c.idle(ctx, 5*time.Millisecond)
			}
			breathe(pauses)
		}
		clock.unix.Add(12)
	}
	c.calm(ctx, clock)
	c.behind.Wait()
	stop()
	if err := <-ended; err != nil {
		t.Errorf("seed %d: %v", seed, err)
	}
	if err := w.Close(); err != nil {
		t.Error(err)
	}
	return config, out.Bytes()
}

// start is what the scheduler is given before it runs.
func (c *cluster) start(r Round) *objects.Snapshot {
	all := &objects.Snapshot{}
	for _, e := range c.api.round(r) {
		switch obj := e.Object.(type) {
		case *v1.Node:
			all.Nodes = append(all.Nodes, obj)
		case *v1.Pod:
			all.Pods = append(all.Pods, obj)
		default:
			all.Cluster = append(all.Cluster, obj.(objects.Object))
		}
	}
	return all
}

// breathe lets the scheduler get on a little, or not, however fast the machine is: else it would
// see all the changes of a round at once.
func breathe(rnd *rand.Rand) {
	pause := time.NewTimer(time.Duration(rnd.IntN(600)) * time.Microsecond)
	defer pause.Stop()
	<-pause.C
}

// calm lets everything come to rest: nothing fails any more, and all backoffs go by.
func (c *cluster) calm(ctx context.Context, clock *clock) {
	c.mu.Lock()
	c.kind = true
	c.mu.Unlock()
	for range 4 { // a victim's end, and a nomination that is written then, are news again
		clock.unix.Add(12) // past every backoff, and no flush
		c.change(nil)
		c.idle(ctx, c.patience)
	}
}

// idle waits until nothing is left to do. What waits for volumes goes on waiting.
func (c *cluster) idle(ctx context.Context, patience time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	_ = c.scheduler.Idle(ctx)
}

type buffer struct{ bytes.Buffer }

func (*buffer) Close() error { return nil }

// TestFlights holds what was decided while everything changes: nodes, pods, volumes and devices come,
// change and go, binds and writes fail.
func TestFlights(t *testing.T) {
	const seeds, most = 40, 400 // how much comes between two changes is the machine's affair
	flights(t, seeds, most, Evaluated(), "2000 decisions, 50 taken back and 40 preemptions", func(r *FlightResult) bool {
		return r.Decisions >= 2000 && r.TakenBack >= 50 && r.Preemptions >= 40
	})
}

// TestFlightsOfClaims holds what was decided while devices, their classes and claims come, change and go, and claims are given
// devices or lose them.
func TestFlightsOfClaims(t *testing.T) {
	const seeds, most = 60, 400
	flights(t, seeds, most, []Family{Devices}, "1000 claims given devices, 100 of them not bound then, and 20 pods whose claim was in flight",
		func(r *FlightResult) bool { return r.Claims >= 1000 && r.ClaimsTakenBack >= 100 && r.InFlight >= 20 })
}

// flights holds flights of so many seeds, and of more until there is enough in them.
func flights(t *testing.T, seeds, most uint64, families []Family, want string, enough func(*FlightResult) bool) {
	var total FlightResult
	for seed := uint64(1); (seed <= seeds || seed <= most && !enough(&total)) && !t.Failed(); seed++ {
		config, flight := fly(t, seed, Random(seed, 25, families), 50*time.Millisecond, 0)
		r, err := (&Flight{Config: config, Record: bytes.NewReader(flight)}).Replay(klog.NewContext(t.Context(), klog.Logger{}))
		if err != nil {
			t.Errorf("seed %d: %v", seed, err)
		} else {
			for _, d := range r.Differences {
				t.Errorf("seed %d: %s", seed, d)
			}
			total.Add(r)
		}
		if t.Failed() {
			keep(t, seed, config, flight)
		}
	}
	if !t.Failed() && !enough(&total) {
		t.Errorf("got %v: want %s", &total, want)
	}
	t.Log(&total)
}

// TestNobodyIsForgotten holds that in the end no pod waits that has somewhere to go, where all that
// a pod can be refused for is a node's own: then no hint is vague, and what does not come back
// at an event never would.
func TestNobodyIsForgotten(t *testing.T) {
	const seeds = 40
	waiting := 0
	for seed := uint64(1); seed <= seeds && !t.Failed(); seed++ {
		config, flight := fly(t, seed, crowded(seed), 5*time.Second, 4)
		f := &Flight{Config: config, Record: bytes.NewReader(flight), Every: 1 << 30}
		f.atRest = func(ctx context.Context, r *replay) error {
			for pod := range r.upstream.AllPending() {
				if !r.upstream.Responsible(pod) || r.upstream.Gated(ctx, pod) != "" || pod.DeletionTimestamp != nil {
					continue
				}
				v, err := r.upstream.Judge(ctx, pod)
				if err != nil {
					return err
				}
				waiting++
				if v.Err == nil {
					t.Errorf("seed %d: pod %s waits, and has %d nodes to go to", seed, name(pod), len(v.Feasible))
				}
			}
			return nil
		}
		if _, err := f.Replay(klog.NewContext(t.Context(), klog.Logger{})); err != nil {
			t.Errorf("seed %d: %v", seed, err)
		}
		if t.Failed() {
			keep(t, seed, config, flight)
		}
	}
	if waiting < 100 && !t.Failed() {
		t.Errorf("got %d pods that wait, want 100", waiting)
	}
}

// crowded is a cluster with far more pods than room, of few kinds, where pods and nodes come, change
// and go.
func crowded(seed uint64) *Scenario {
	rnd := rand.New(rand.NewPCG(seed, 9))
	made := 0
	node := func(i int) oracle.Object {
		n := build.Node(fmt.Sprint("n", i)).CPU("4").Memory("8Gi").Pods(fmt.Sprint(6 + rnd.IntN(3)))
		if rnd.IntN(4) == 0 {
			n.Taint("a=b:NoSchedule")
		}
		return n.Obj()
	}
	var pods []*v1.Pod
	pod := func() oracle.Object {
		made++
		p := build.Pod(fmt.Sprint("p", made)).CPU([]string{"500m", "1", "3"}[rnd.IntN(3)]).Priority(int32(rnd.IntN(2)))
		if rnd.IntN(3) == 0 {
			p.Toleration("a=b:NoSchedule")
		}
		if rnd.IntN(8) == 0 {
			p.HostPort("", "", 80)
		}
		p.Obj().Status.StartTime = &metav1.Time{Time: time.Unix(epoch+int64(made), 0)}
		pods = append(pods, p.Obj())
		return pods[len(pods)-1]
	}
	var first Round
	for i := range 5 {
		first = append(first, set(node(i)))
	}
	for range 60 {
		first = append(first, set(pod()))
	}
	s := &Scenario{Rounds: []Round{first}}
	for range 6 {
		var r Round
		for range 15 {
			if len(pods) == 0 {
				r = append(r, set(pod()))
			}
			switch at := rnd.IntN(len(pods)); rnd.IntN(12) {
			case 0:
				r = append(r, set(node(rnd.IntN(7))))
			case 1:
				r = append(r, Event{Type: Removed, Object: node(rnd.IntN(7))})
			case 2, 3:
				r = append(r, set(pod()))
			case 4:
				changed := pods[at].DeepCopy()
				changed.Spec.Tolerations = []v1.Toleration{{Key: "a", Operator: v1.TolerationOpExists}}
				pods[at] = changed
				r = append(r, set(changed))
			default:
				r = append(r, Event{Type: Removed, Object: pods[at]})
				pods = slices.Delete(pods, at, at+1)
			}
		}
		s.Rounds = append(s.Rounds, r)
	}
	return s
}

// keep leaves a record behind, to be held again with conform -record.
func keep(t *testing.T, seed uint64, config, flight []byte) {
	name := filepath.Join(os.TempDir(), "flight-"+strconv.FormatUint(seed, 10))
	if err := errors.Join(os.WriteFile(name+".yaml", config, 0o600), os.WriteFile(name+".record", flight, 0o600)); err != nil {
		t.Error(err)
	}
	t.Logf("see it again: conform -record %[1]s.record -config %[1]s.yaml", name)
}

// After a takeover a gang goes where the leader before has placed it, though another node is better by now, and a pod of no priority finds
// no room that is held for a mate: what it has kept is in the record, and so is a nomination of the journal.
func TestARecordTellsWhatALeaderBeforeHasNominated(t *testing.T) {
	ours, err := ourConfig(nil, &PodGroups{})
	if err != nil {
		t.Fatal(err)
	}
	profiles, err := ours.Profiles()
	if err != nil {
		t.Fatal(err)
	}
	node := func(name, cpu string) *v1.Node { return build.Node(name).CPU(cpu).Memory("64Gi").Pods("20").Obj() }
	pod := func(name string) *build.PodBuilder { return build.Pod(name).UID(name).CPU("1") }
	all := &objects.Snapshot{
		Nodes:   []*v1.Node{node("full", "2"), node("small", "1"), node("empty", "8")},
		Cluster: []objects.Object{build.Gang("g", 2).Obj(), build.Gang("broken", 2).Obj()},
		Pods: []*v1.Pod{
			pod("there").Node("full").Obj(), pod("a").Member("g").Obj(), pod("b").Member("g").Obj(),
			pod("c").Member("broken").Obj(), pod("d").Member("broken").Obj(), pod("journalled").Priority(1).Obj(),
		},
	}
	commit := func(name string, members ...*pb.GangMember) *pb.GangCommit {
		return &pb.GangCommit{PodGroup: "default/" + name, Term: 1, Seq: 1, Parts: 1, Members: members}
	}
	var out buffer
	w := record.NewWriter(&out, record.Config{})
	ctx, stop := context.WithCancel(klog.NewContext(t.Context(), klog.Logger{}))
	defer stop()
	go w.Run(ctx)
	var log bytes.Buffer
	decisions := observe.NewDecisionLog(&log)
	s, err := coordinator.NewScheduler(coordinator.SchedulerConfig{
		Cluster: "takeover", Term: 2, Shards: 2, BatchSize: 16, Profiles: profiles, Decisions: decisions, Recorder: w,
		Groups: (&PodGroups{}).ours(), QueueNow: newClock().now, Frozen: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	s.Load(all, map[types.UID]*pb.QueueEntry{"journalled": {Attempts: 1, RejectedBy: []string{"NodeResourcesFit"}, NominatedNode: "small"}})
	s.LoadCommits(map[string]*pb.GangCommit{
		"default/g/0000000000000001-0000000000000001-0000": commit("g", &pb.GangMember{Uid: "a", Node: "full"}, &pb.GangMember{Uid: "b", Node: "empty"}),
		"default/broken/0000000000000001-0000000000000001-0000": commit("broken", &pb.GangMember{Uid: "c", Node: "gone"},
			&pb.GangMember{Uid: "d", Node: "full"}),
	})
	ended := make(chan error)
	go func() { ended <- s.Run(ctx) }()
	if err := s.Idle(ctx); err != nil {
		t.Fatal(err)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if err := errors.Join(w.Close(), decisions.Flush()); err != nil {
		t.Error(err)
	}
	made, err := parse(&log)
	if err != nil {
		t.Fatal(err)
	}
	if got := placed([][]Decision{made}); got["default/a"] != "full" || got["default/journalled"] != "small" || len(got) != 5 {
		t.Errorf("got %v, want a where the commit says, journalled where the journal says, and all placed", got)
	}
	result, err := (&Flight{Record: &out}).Replay(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range result.Differences {
		t.Error(d)
	}
	if result.Decisions != len(made) {
		t.Errorf("%d decisions are in the record, want %d", result.Decisions, len(made))
	}
}
