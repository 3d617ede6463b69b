package coordinator

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"google.golang.org/grpc"
	v1 "k8s.io/api/core/v1"

	"github.com/shardsched/shardsched/coordinator/fanout"
	"github.com/shardsched/shardsched/coordinator/groups"
	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/coordinator/tune"
	"github.com/shardsched/shardsched/internal/testkit/build"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// gangEvents are a gang of all of these pods.
func gangEvents(pods ...*v1.Pod) []objects.Event {
	events := []objects.Event{{Type: objects.Added, Kind: objects.KindPodGroup, Object: build.Gang("g", int32(len(pods))).Obj()}}
	for _, p := range pods {
		events = append(events, added(mate(p)))
	}
	return events
}

// mate makes a pod one of the gang.
func mate(p *v1.Pod) *v1.Pod {
	group := "g"
	p.Spec.SchedulingGroup = &v1.PodSchedulingGroup{PodGroupName: &group}
	return p
}

// A plugin compiled in refuses a member at Reserve or Permit: nobody is placed, and what it holds for mates is taken back.
func TestAPluginThatRefusesAMemberStopsTheGang(t *testing.T) {
	for point, calls := range map[string][]string{
		"Reserve": {"Reserve a", "Permit a", "Reserve b", "Unreserve b", "Unreserve a"},
		"Permit":  {"Reserve a", "Permit a", "Reserve b", "Permit b", "Unreserve b", "Unreserve a"},
	} {
		t.Run(point, func(t *testing.T) {
			g := newTestPlugin()
			g.says[point+" b"] = no("not you")
			plugged := withPlugins(t, "{multiPoint: {enabled: [{name: GangScheduling}, {name: Guest}]}}", g)
			runScenarioWith(t, func(cfg *SchedulerConfig) {
				plugged(cfg)
				cfg.Groups = groups.Gates{Workload: true, Gang: true}
			}, clusterOf(nodesOf("4", "n")), nil, func(x *scenario) {
				x.Deliver(gangEvents(cores("a", "1"), cores("b", "1")))
				synctest.Wait()
				var got []string
				for _, call := range g.take() {
					if what := strings.TrimSuffix(call, " n"); strings.Contains(what, "eserve") || strings.HasPrefix(what, "Permit") {
						got = append(got, what)
					}
				}
				if !slices.Equal(got, calls) {
					t.Errorf("got calls %q, want %q", got, calls)
				}
				x.wantBinds("nothing is bound")
				x.wantMessage("a", quorumMissed)
				x.wantMessage("b", "0/1 nodes are available: 1 not you.")
				if all, assumed := x.state.Pods(); all != 0 || assumed != 0 {
					t.Errorf("got %d pods, %d assumed, want none", all, assumed)
				}
				g.tell(point+" b", nil)
				elapse(time.Minute)
				x.deliver(objects.Modified, build.Node("n").CPU("8").Memory("64Gi").Obj())
				elapse(time.Minute)
				x.wantPods("once the plugin takes it", "a promised n", "b promised n")
			})
		})
	}
}

// Not all devices of a member are found in one slice: the whole gang waits, others go on, and then all members are placed.
func TestAGangWaitsForTheDevicesOfAMember(t *testing.T) {
	all := hardCluster("hard-0", "hard-1")
	runScenarioWith(t, func(cfg *SchedulerConfig) {
		cfg.Registerer, cfg.Profiles, cfg.Groups = prometheus.NewPedanticRegistry(), withPreemption(), groups.Gates{Workload: true, Gang: true}
	}, all, nil, func(x *scenario) {
		x.Deliver(gangEvents(cores("easy", "1"), using(cores("hard-0", "1"), "hard-0"), using(cores("hard-1", "1"), "hard-1")))
		x.Deliver([]objects.Event{added(cores("plain", "1"))})
		elapse(time.Minute)
		var bound []string
		for _, b := range x.binder.seen {
			name, _, _ := strings.Cut(b, "@")
			bound = append(bound, name)
		}
		if len(bound) != 4 || bound[0] != "plain" {
			t.Errorf("got binds %q, want the plain pod before the three of the gang", bound)
		}
		if n := testutil.ToFloat64(x.metrics.Set().Counter("shardsched_unfinished_searches_total")); n == 0 {
			t.Error("the gang was never set aside")
		}
	})
}

// A member meets a bug: its gang fails, for mates are tried with it, and others go on.
func TestAMemberThatMeetsABugStopsItsGangAlone(t *testing.T) {
	for _, where := range []string{"compile", "workers", "loop"} {
		t.Run(where, func(t *testing.T) {
			x := newPoisoned(t, where)
			x.groups.Set(build.Gang("g", 3).Obj())
			x.groups.Set(build.Gang("sound", 2).Obj())
			for _, p := range []*build.PodBuilder{
				build.Pod("a").CPU("2").Member("g"), build.Pod("p").CPU("3").Label("poison", "yes").Member("g"), build.Pod("c").CPU("2").Member("g"),
				build.Pod("s1").CPU("2").Member("sound"), build.Pod("s2").CPU("2").Member("sound"), build.Pod("single").CPU("2"),
			} {
				x.event(&objects.Event{Type: objects.Added, Kind: objects.KindPod, Pod: p.Obj()})
			}
			x.turn(t)
			x.wantDecided(t, "at first", 0, "default/a failed", "default/p failed", "default/c failed",
				"default/s1 placed", "default/s2 placed", "default/single placed")
			if all, _ := x.state.Pods(); all != 3 || x.met == 0 {
				t.Errorf("%d pods have room after %d bugs, want three", all, x.met)
			}
			x.wantOneQuarantine(t)
		})
	}
}

// wantOneQuarantine checks that one class is in quarantine.
func (x *poisoned) wantOneQuarantine(t *testing.T) {
	t.Helper()
	if n := x.guard.Len(); n != 1 {
		t.Errorf("%d classes are in quarantine, want that of the pod which met the bug", n)
	}
}

// questioned counts what a worker is asked.
type questioned struct {
	pb.WorkerServiceClient
	n *atomic.Int64
}

func (a questioned) Evaluate(ctx context.Context, req *pb.EvaluateRequest, opts ...grpc.CallOption) (*pb.EvaluateResponse, error) {
	a.n.Add(1)
	return a.WorkerServiceClient.Evaluate(ctx, req, opts...)
}

// A gang that does not fit is tried and undone while workers hold the rows: pods after it go where they go without it, though other
// classes are asked about and workers answer from what they were told of the try and of its end.
func TestAGangThatIsUndoneChangesNothingForWorkers(t *testing.T) {
	run := func(gang bool) (where []string, questions int64) {
		var n atomic.Int64
		liars, members, _ := newLiars(1, 0, 0)
		cfg := SchedulerConfig{Shards: 4, BatchSize: 8, Way: &tune.Way{Classes: 16}}
		cfg.Groups = groups.Gates{Workload: true, Gang: true}
		cfg.Fanout.AuditEvery = 1 // each answer is compared with the own tables
		cfg.Fanout.Dial = func(_ context.Context, m fanout.Member) (pb.WorkerServiceClient, io.Closer, error) {
			at := slices.IndexFunc(members, func(x fanout.Member) bool { return x.ID == m.ID })
			return questioned{liars[at], &n}, liars[at], nil
		}
		x := newTrial(t, cfg, 0)
		t.Cleanup(x.fanout.Close)
		x.SetMembers(members)
		var nodes []*v1.Node
		for i := range 24 {
			nodes = append(nodes, build.Node(fmt.Sprintf("n%02d", i)).CPU("4").Memory("64Gi").Obj())
		}
		x.Load(clusterOf(nodes), nil)
		for round := range 4 {
			if gang {
				x.groups.Set(build.Gang(fmt.Sprint("g", round), 30).Obj())
				for i := range 30 {
					name := fmt.Sprintf("g%d-%02d", round, i)
					x.event(&objects.Event{Type: objects.Added, Kind: objects.KindPod, Pod: build.Pod(name).UID(name).CPU("3").Member(fmt.Sprint("g", round)).Obj()})
				}
			}
			x.turn(t)
			for i := range 6 {
				name := fmt.Sprintf("single-%d-%d", round, i)
				x.event(&objects.Event{Type: objects.Added, Kind: objects.KindPod, Pod: build.Pod(name).UID(name).CPU([]string{"1", "500m", "2"}[i%3]).Obj()})
			}
			x.turn(t)
		}
		for _, d := range x.decided(t) {
			if strings.HasPrefix(d.Pod, "default/single") {
				where = append(where, d.Pod+" "+d.Node)
			} else if d.Node != "" {
				t.Errorf("member %s is placed on %s, want nobody of its gang placed", d.Pod, d.Node)
			}
		}
		return where, n.Load()
	}
	want, _ := run(false)
	got, questions := run(true)
	if !slices.Equal(got, want) {
		t.Errorf("after gangs that were undone: got %q, want %q", got, want)
	}
	if len(want) != 24 || questions == 0 {
		t.Errorf("got %d single pods placed after %d questions to workers, want 24 after some", len(want), questions)
	}
}

// A hundred members share one claim: its devices are allocated once, all go to the node that has them, and the claim is reserved for each.
func TestAHundredMembersShareAClaim(t *testing.T) {
	shared := gpuClaim("shared")
	api, g := newDeviceAPI(shared), &recordingReporter{}
	runScenarioWithDevicesAnd(t, func(cfg *SchedulerConfig) {
		cfg.Groups = groups.Gates{Workload: true, Gang: true, Claims: true}
	}, g, api, func(x *scenario) {
		var pods []*v1.Pod
		for i := range 100 {
			pods = append(pods, using(cores(fmt.Sprintf("m%02d", i), "100m"), "shared"))
		}
		x.Deliver(gangEvents(pods...))
		elapse(time.Minute)
		on := map[string]int{}
		for _, b := range x.binder.seen {
			on[b[strings.LastIndexByte(b, ' ')+1:]]++
		}
		if len(on) != 1 || len(x.binder.seen) != 100 {
			t.Errorf("got binds on nodes %v, want 100 on one", on)
		}
		c := api.claim("shared")
		users := map[string]bool{}
		for _, r := range c.Status.ReservedFor {
			users[string(r.UID)] = true
		}
		if len(users) != 100 || c.Status.Allocation == nil || len(c.Status.Allocation.Devices.Results) != 1 {
			t.Errorf("got the claim reserved for %d pods with allocation %v, want for 100, with one device", len(users), c.Status.Allocation)
		}
	})
}
