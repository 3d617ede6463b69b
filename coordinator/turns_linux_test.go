package coordinator

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/internal/testkit/build"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// The cluster of BenchmarkLongestTurn.
const (
	turnNodes, turnPods = 20_000, 300_000
	turnApps            = 300
)

// BenchmarkLongestTurn tells how long the longest turn of the loop takes, by what goes on: pods that arrive, that fit nowhere, that
// change and leave, nodes that change, and what people ask. It is told by the clock, and in time of the loop's thread, which
// other processes and the garbage collector's threads have no part in. Run it with -benchtime=1x.
func BenchmarkLongestTurn(b *testing.B) {
	for _, shards := range []int{16, 1} {
		b.Run(fmt.Sprint("shards=", shards), func(b *testing.B) { longestTurns(b, shards) })
	}
}

func longestTurns(b *testing.B, shards int) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	s, err := NewScheduler(SchedulerConfig{Cluster: "turns", Term: 1, Shards: shards})
	if err != nil {
		b.Fatal(err)
	}
	defer s.fanout.Close()
	ctx, cancel := context.WithCancel(quiet())
	var binds sync.WaitGroup
	binds.Go(func() { s.cycles.Run(ctx) })
	defer binds.Wait()
	defer cancel()
	nodes, pods := turnCluster()
	s.Load(&objects.Snapshot{Nodes: nodes, Pods: pods}, nil)
	for range b.N {
		for _, phase := range []struct {
			name   string
			events []objects.Event
			asks   bool
		}{
			{"arrivals", arrivals("new", 20_000, "10m"), false},
			{"hopeless", arrivals("huge", 20_000, "1000"), false},
			{"counted", wides(20), false},
			{"reads", nil, true},
			{"budget-comes", budgetOf("app"), false},
			{"budget-narrows", budgetOf("team=0"), false},
			{"budget-goes", budgetOf(""), false},
			{"keys", keyed(nodes), false},
			{"nodes", crowdedNode(), false},
			{"changes", changes(nodes, pods[:100_000]), true},
			{"deletions", departures(pods[100_000:]), true},
		} {
			longest, busiest, turns := s.longestTurn(b, ctx, phase.events, phase.asks)
			b.Logf("%s: %d turns, the longest of %s, %s at most of the thread's time", phase.name, turns,
				longest.Round(10*time.Microsecond), busiest.Round(10*time.Microsecond))
			b.ReportMetric(float64(busiest.Microseconds())/1000, "thread-ms:"+phase.name)
		}
	}
}

// longestTurn delivers events, asks for explanations, summaries and dumps meanwhile, and turns until nothing is left to do.
func (s *Scheduler) longestTurn(b *testing.B, ctx context.Context, events []objects.Event, asks bool) (longest, busiest time.Duration, turns int) {
	s.Deliver(events)
	var asked sync.WaitGroup
	if asks {
		for i := range 4 {
			asked.Go(func() {
				for _, name := range []string{fmt.Sprintf("app-%d", turnPods-1-i), "huge-7", "nobody"} {
					_, _ = s.Explain(ctx, &pb.ExplainRequest{Namespace: "default", Name: name, AllNodes: true})
				}
				if _, err := s.Summary(ctx); err != nil {
					b.Error(err)
				}
				if _, err := s.Pending(ctx, &pb.ListPendingRequest{}); err != nil {
					b.Error(err)
				}
			})
		}
		asked.Go(func() {
			if err := s.Dump(klog.NewContext(ctx, klog.Logger{})); err != nil {
				b.Error(err)
			}
		})
	}
	answered := make(chan struct{})
	go func() { asked.Wait(); close(answered) }()
	for rested := false; ; {
		begun, used := time.Now(), threadTime(b)
		decided, ended := s.turn(ctx, begun)
		if ended {
			b.Fatalf("the loop has ended: %v", s.err)
		}
		longest, busiest, turns = max(longest, time.Since(begun)), max(busiest, threadTime(b)-used), turns+1
		if decided || s.reads.Pending() || !s.inbox.empty() || len(s.binds.pending) > 0 {
			continue
		}
		if rests, any := s.aside.Until(); any {
			time.Sleep(rests) // as the loop does
			continue
		}
		select {
		case <-answered:
			if rested {
				return longest, busiest, turns
			}
			rested = true // what was asked last may have come just now
		case <-s.inbox.ready:
		}
	}
}

// threadTime is how long the calling thread has run.
func threadTime(b *testing.B) time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		b.Fatal(err)
	}
	return time.Duration(t.Nano())
}

// turnCluster is nodes in three zones, and pods of many apps that are on them. Some pods keep apart from their like.
func turnCluster() (nodes []*v1.Node, pods []*v1.Pod) {
	for i := range turnNodes {
		name := fmt.Sprint("n", i)
		nodes = append(nodes, build.Node(name).CPU("64").Memory("256Gi").Pods("110").
			Label(v1.LabelHostname, name).Label(v1.LabelTopologyZone, fmt.Sprint("z", i%3)).Obj())
	}
	for i := range turnPods {
		pods = append(pods, turnPod("app", i, "100m").Node(nodes[i%turnNodes].Name).Obj())
	}
	return nodes, pods
}

func turnPod(kind string, i int, cpu string) *build.PodBuilder {
	name, app := fmt.Sprint(kind, "-", i), fmt.Sprint("a", i%turnApps)
	p := build.Pod(name).UID(name).CPU(cpu).Memory("64Mi").Label("app", app).Label("team", fmt.Sprint(i%3))
	if i%turnApps%10 == 0 {
		p.Apart(build.Around(v1.LabelHostname, "app="+app))
	}
	return p
}

func arrivals(kind string, n int, cpu string) (events []objects.Event) {
	for i := range n {
		events = append(events, podCame(turnPod(kind, i, cpu).Obj()))
	}
	return events
}

// changes are pods with another label, and nodes with another.
func changes(nodes []*v1.Node, pods []*v1.Pod) (events []objects.Event) {
	for _, p := range pods {
		now := p.DeepCopy()
		now.Labels["seen"] = "once"
		events = append(events, objects.Event{Type: objects.Modified, Kind: objects.KindPod, Pod: now})
	}
	for _, n := range nodes {
		now := n.DeepCopy()
		now.Labels["seen"] = "once"
		events = append(events, objects.Event{Type: objects.Modified, Kind: objects.KindNode, Node: now})
	}
	return events
}

// wides are pods with terms about all pods.
func wides(n int) (events []objects.Event) {
	for i := range n {
		events = append(events, podCame(build.Wide(i)))
	}
	return events
}

// budgetOf is that a budget selects such pods from now on; "": it goes.
func budgetOf(selects string) []objects.Event {
	b := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "budget"}, Spec: policyv1.PodDisruptionBudgetSpec{Selector: build.Selector(selects)},
	}
	e := objects.Event{Type: objects.Modified, Kind: objects.KindOf(b), Object: b}
	if selects == "" {
		e.Type = objects.Deleted
	}
	return []objects.Event{e}
}

// keyed is a pod with terms by a key that no node has, and then nodes get it.
func keyed(nodes []*v1.Node) (events []objects.Event) {
	p := turnPod("keyed", 1, "10m").PreferNear(1, build.Around("rack", "app=a1")).Node("n0").Obj()
	events = append(events, podCame(p))
	for i, n := range nodes {
		now := n.DeepCopy()
		now.Labels["rack"] = fmt.Sprint("r", i%100)
		events = append(events, objects.Event{Type: objects.Modified, Kind: objects.KindNode, Node: now})
	}
	return append(events, podCame(turnPod("behind", 1, "10m").Obj()))
}

// crowdedNode is a node with a thousand pods that goes and comes back.
func crowdedNode() (events []objects.Event) {
	node := build.Node("crowded").CPU("640").Memory("2560Gi").Pods("2000").Label(v1.LabelHostname, "crowded").Obj()
	events = append(events, objects.Event{Type: objects.Added, Kind: objects.KindNode, Node: node})
	for i := range 1000 {
		events = append(events, podCame(turnPod("crowd", i, "10m").Node("crowded").Obj()))
	}
	return append(events, objects.Event{Type: objects.Deleted, Kind: objects.KindNode, Node: node},
		objects.Event{Type: objects.Added, Kind: objects.KindNode, Node: node})
}

func departures(pods []*v1.Pod) (events []objects.Event) {
	for _, p := range pods {
		events = append(events, objects.Event{Type: objects.Deleted, Kind: objects.KindPod, Pod: p})
	}
	return events
}
