package coordinator

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/shardsched/shardsched/coordinator/groups"
	"github.com/shardsched/shardsched/coordinator/lease"
	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/internal/testkit/build"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// gangShelf keeps commits of pod groups in memory.
type gangShelf struct {
	mu     sync.Mutex
	kept   map[string]*pb.GangCommit
	writes int
	answer func() error // nil: all is kept
}

func (s *gangShelf) SaveGangs(_ context.Context, put map[string]*pb.GangCommit, del []string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writes++
	if s.answer != nil {
		return s.answer()
	}
	if s.kept == nil {
		s.kept = map[string]*pb.GangCommit{}
	}
	maps.Copy(s.kept, put)
	for _, key := range del {
		delete(s.kept, key)
	}
	return nil
}

// members are those that are kept, as "pod on node", sorted.
func (s *gangShelf) members() (out []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, part := range s.kept {
		for _, m := range part.GetMembers() {
			out = append(out, m.GetUid()+" on "+m.GetNode())
		}
	}
	slices.Sort(out)
	return out
}

func (s *gangShelf) want(t *testing.T, when string, want ...string) {
	t.Helper()
	if got := s.members(); !slices.Equal(got, want) {
		t.Errorf("%s: got commits %q, want %q", when, got, want)
	}
}

// withGangs has a scheduler know gangs, and keep their commits.
func withGangs(shelf *gangShelf) func(*SchedulerConfig) {
	return func(cfg *SchedulerConfig) {
		cfg.Groups, cfg.Gangs = groups.Gates{Workload: true, Gang: true}, shelf
	}
}

// gangCluster is nodes, a gang of so many and its members.
func gangCluster(nodes []*v1.Node, minCount int, pods ...*v1.Pod) *objects.Snapshot {
	all := clusterOf(nodes, pods...)
	all.Cluster = append(all.Cluster, build.Gang("g", int32(minCount)).Obj())
	return all
}

func TestACommitIsKeptWhileAGangIsBound(t *testing.T) {
	shelf := &gangShelf{}
	all := gangCluster(nodesOf("1100m", "n1", "n2"), 2, members("a", "b")...)
	runScenarioWith(t, withGangs(shelf), clusterOf(all.Nodes), nil, func(x *scenario) {
		x.deliver(objects.Added, build.Pod("single").UID("single").CPU("1m").Obj())
		if shelf.writes > 0 {
			t.Errorf("%d commits are written for a pod alone, want none", shelf.writes)
		}
		atBind := make(chan []string, 2)
		release := x.binder.hold()
		x.Deliver([]objects.Event{
			{Type: objects.Added, Kind: objects.KindPodGroup, Object: all.Cluster[0]},
			{Type: objects.Added, Kind: objects.KindPod, Pod: all.Pods[0]}, {Type: objects.Added, Kind: objects.KindPod, Pod: all.Pods[1]},
		})
		synctest.Wait()
		shelf.want(t, "while pods are bound", "a on n2", "b on n1")
		release(func(b objects.Binding) error {
			atBind <- shelf.members()
			if b.Pod.Name == "b" {
				return errors.New("odd")
			}
			return nil
		})
		for range 2 {
			if got := <-atBind; len(got) != 2 {
				t.Errorf("a pod is bound while %q are kept, want both", got)
			}
		}
		time.Sleep(journalEvery)
		synctest.Wait()
		shelf.want(t, "once all binds have an outcome")
	})
}

func TestACommitThatIsNotKeptHoldsNoGangBack(t *testing.T) {
	shelf := &gangShelf{answer: func() error { return errors.New("etcd is full") }}
	runScenarioWith(t, withGangs(shelf), gangCluster(nodesOf("1", "n1", "n2"), 2, members("a", "b")...), nil, func(x *scenario) {
		x.wantPods("without a commit", "a promised n1", "b promised n2")
		if len(x.binder.seen) != 2 {
			t.Errorf("got binds %q, want two", x.binder.seen)
		}
	})
}

func TestADeposedLeaderBindsNoGang(t *testing.T) {
	shelf := &gangShelf{answer: func() error { return fmt.Errorf("etcd: %w", lease.ErrDeposed) }}
	runScenarioWith(t, withGangs(shelf), gangCluster(nodesOf("1", "n1", "n2"), 2, members("a", "b")...), nil, func(x *scenario) {
		<-x.Scheduler.ended
		if err := <-x.ended; !errors.Is(err, lease.ErrDeposed) {
			t.Errorf("the term ends with %v, want that it is deposed", err)
		}
		if len(x.binder.seen) > 0 {
			t.Errorf("got binds %q, want none", x.binder.seen)
		}
	})
}

// commitOf is the commit of a leader before, of "pod node" each.
func commitOf(term uint64, members ...string) map[string]*pb.GangCommit {
	c := &pb.GangCommit{PodGroup: "default/g", Term: term, Seq: 1, Parts: 1}
	for _, m := range members {
		uid, node, _ := strings.Cut(m, " ")
		c.Members = append(c.Members, &pb.GangMember{Uid: uid, Node: node})
	}
	return map[string]*pb.GangCommit{fmt.Sprintf("default/g/%016x-%016x-0000", term, 1): c}
}

// A leader that takes over has the pods that are not bound bound to the nodes that the one before had chosen, however many are bound by
// then, though other nodes are better by now, and though a pod of higher priority and one of the same wait for the room.
func TestTheNextLeaderBindsTheRestOfAGang(t *testing.T) {
	for bound := range 5 {
		t.Run(fmt.Sprint(bound, " of 4 are bound"), func(t *testing.T) {
			pods := members("a", "b", "c", "d")
			nodes := append(nodesOf("1", "n1", "n2", "n3", "n4"), nodesOf("8", "empty")...)
			nodes[4].Labels = map[string]string{"better": "yes"}
			where := []string{"a n1", "b n2", "c n3", "d n4"}
			var want, binds []string
			for i, p := range pods {
				name, node, _ := strings.Cut(where[i], " ")
				if i < bound {
					p.Spec.NodeName = node
					continue
				}
				want, binds = append(want, name+" promised "+node), append(binds, fmt.Sprintf("%s@%d %s", name, i+1, node))
			}
			only := func(name string, priority int32) *v1.Pod {
				p := build.Pod(name).UID(name).CPU("1").Priority(priority).Obj()
				p.Spec.NodeSelector = map[string]string{"better": "no"}
				return p
			}
			for i := range 4 {
				nodes[i].Labels = map[string]string{"better": "no"}
			}
			want = append(want, "high unschedulable", "same unschedulable")
			shelf := &gangShelf{kept: commitOf(7, where...)}
			all := gangCluster(nodes, 4, append([]*v1.Pod{only("high", 9), only("same", 0)}, pods...)...)
			for i, p := range pods {
				p.ResourceVersion = fmt.Sprint(i + 1)
			}
			runScenarioAfter(t, withGangs(shelf), all, nil, shelf.kept, func(x *scenario) {
				x.wantPods("after the takeover", want...)
				slices.Sort(x.binder.seen)
				if !slices.Equal(x.binder.seen, binds) {
					t.Errorf("got binds %q, want %q", x.binder.seen, binds)
				}
				time.Sleep(journalEvery)
				synctest.Wait()
				shelf.want(t, "once all are bound")
			})
		})
	}
}

// A node is gone where a member was to go: the members that are left are decided anew, in the rack of those that are bound, though
// another one has more room.
func TestMembersWhoseNodeIsGoneStayInTheDomainOfTheGang(t *testing.T) {
	for what, c := range map[string]struct {
		bound int
		want  string
	}{
		"two are bound":      {2, "a1:2 a2:2"},
		"nobody is bound":    {0, "a1:2 a2:2"}, // the fuller rack that takes all
		"all but one, there": {3, "a1:2 a2:2"},
	} {
		t.Run(what, func(t *testing.T) {
			r := (&racked{group: build.Gang("g", 4).Within("rack").Obj()}).rackedNodes("- a a1 2 0\n- a a2 2 0\n- b b1 8 0").members("1", numbered(4)...)
			where := []string{"m00 a1", "m01 a1", "m02 a2", "m03 a3"}
			for i := range c.bound {
				_, r.pods[i].Spec.NodeName, _ = strings.Cut(where[i], " ")
			}
			shelf := &gangShelf{kept: commitOf(7, where...)}
			cfg := topologyConfig(2, false)
			cfg.Gangs, cfg.Binder = shelf, &script{}
			x := newTrial(t, cfg, 0)
			t.Cleanup(x.fanout.Close)
			all := clusterOf(r.nodes, r.pods...)
			all.Cluster = append(all.Cluster, r.group)
			x.Load(all, nil)
			x.LoadCommits(shelf.kept)
			for range 2 {
				if x.batch.popped = x.popPromised(x.batch.popped[:0]); len(x.batch.popped) > 0 {
					x.schedule(quiet(), x.batch.popped)
				}
			}
			x.turn(t)
			if got := x.where(r); got != c.want {
				t.Errorf("got members on %s, want %s", got, c.want)
			}
			if len(x.promises.of)+len(x.promises.first) > 0 {
				t.Errorf("got promises %v, want that they have ended", x.promises)
			}
		})
	}
}

// A commit whose pods are others by now, or gone, is deleted, and holds nothing.
func TestACommitOfOtherPodsHoldsNothing(t *testing.T) {
	for what, commits := range map[string]map[string]*pb.GangCommit{
		"other pods have the names": commitOf(7, "old-a n1", "old-b n2"),
		"a part is missing":         {"default/g/0000000000000007-0000000000000001-0000": {PodGroup: "default/g", Term: 7, Seq: 1, Parts: 2}},
		"it can't be read":          {"default/g/0000000000000007-0000000000000001-0000": nil},
	} {
		t.Run(what, func(t *testing.T) {
			shelf := &gangShelf{kept: maps.Clone(commits)}
			runScenarioAfter(t, withGangs(shelf), gangCluster(nodesOf("1", "n1", "n2"), 3, members("a", "b")...), nil, commits, func(x *scenario) {
				x.deliver(objects.Added, build.Pod("single").UID("single").CPU("1").Obj())
				x.wantPods("the gang lacks a member", "a gated", "b gated", "single promised n1")
				time.Sleep(journalEvery)
				synctest.Wait()
				shelf.want(t, "in the end")
			})
		})
	}
}

// Members that are gated by now, for a mate has been deleted, hold no room for their commit.
func TestACommitOfAGangThatLacksAMemberEnds(t *testing.T) {
	shelf := &gangShelf{kept: commitOf(7, "a n1", "b n1", "c n1")}
	runScenarioAfter(t, withGangs(shelf), gangCluster(nodesOf("2", "n1"), 3, members("a", "b")...), nil, shelf.kept, func(x *scenario) {
		single := build.Pod("single").UID("single").CPU("1").Obj()
		x.deliver(objects.Added, single)
		x.wantPods("two of three are left", "a gated", "b gated", "single promised n1")
		time.Sleep(journalEvery)
		synctest.Wait()
		shelf.want(t, "in the end")
	})
}

// A gang has 8,192 members and one more: so many are decided together, and all of them are in the commit; the other is decided after them.
func TestTheLargestGangIsCommittedWhole(t *testing.T) {
	var names []string
	for i := range groups.MaxMembers + 1 {
		names = append(names, fmt.Sprintf("m%04d", i))
	}
	pods := members(names...)
	for _, p := range pods {
		p.Spec.Containers[0].Resources = v1.ResourceRequirements{}
	}
	node := build.Node("n").CPU("4").Memory("64Gi").Pods("10000").Obj()
	shelf := &gangShelf{}
	runScenarioWith(t, withGangs(shelf), clusterOf([]*v1.Node{node}), nil, func(x *scenario) {
		release := x.binder.hold()
		events := []objects.Event{{Type: objects.Added, Kind: objects.KindPodGroup, Object: build.Gang("g", groups.MaxMembers).Obj()}}
		for _, p := range pods {
			events = append(events, objects.Event{Type: objects.Added, Kind: objects.KindPod, Pod: p})
		}
		x.Deliver(events)
		synctest.Wait()
		if got := len(shelf.members()); got != groups.MaxMembers {
			t.Errorf("got a commit of %d members, want %d", got, groups.MaxMembers)
		}
		release(nil)
		synctest.Wait()
		if got := len(x.binder.seen); got != len(pods) {
			t.Errorf("got %d binds, want %d", got, len(pods))
		}
	})
}
