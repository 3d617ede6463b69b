package leader

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	v1 "k8s.io/api/core/v1"

	"github.com/shardsched/shardsched/coordinator"
	"github.com/shardsched/shardsched/coordinator/groups"
	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/coordinator/standalone/store"
	"github.com/shardsched/shardsched/internal/testkit/build"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// gangOneByOne has gangs known, and their pods bound one after the other.
func gangOneByOne(sc *coordinator.SchedulerConfig) {
	sc.Groups = groups.Gates{Workload: true, Gang: true}
	sc.BindGroup, sc.BindCalls = 1, 1
}

// committed are the nodes of the pods of the commits that etcd has, by uid.
func committed(t *testing.T, etcd *clientv3.Client) map[string]string {
	t.Helper()
	parts, err := store.New(etcd, "test").LoadGangs(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, part := range parts {
		for _, m := range part.GetMembers() {
			out[m.GetUid()] = m.GetNode()
		}
	}
	return out
}

// waitNoCommits waits until no commit is kept.
func waitNoCommits(t *testing.T, etcd *clientv3.Client) {
	t.Helper()
	for begun := time.Now(); len(committed(t, etcd)) > 0; time.Sleep(20 * time.Millisecond) { // they are deleted behind the loop
		if time.Since(begun) > patience {
			t.Fatal("commits are kept of pod groups whose pods are bound")
		}
	}
}

// A leader without Kubernetes is killed once it has written the commit of a gang, and so many of its 4 pods; and the one that takes over
// after one bind more.
func TestTheNextLeaderBindsTheRestOfAGang(t *testing.T) {
	for _, kills := range [][]int{{0}, {1}, {2}, {3}, {4}, {0, 1}, {1, 1, 1}} {
		t.Run(fmt.Sprint("killed after binds ", kills), func(t *testing.T) {
			f := newFleet(t)
			leader := f.start("first", 0, "", gangOneByOne)
			leader.apply(someNodes(4, "4")...)
			gang := build.Gang("g", 4).Obj()
			gang.UID = ""
			leader.apply(gang)
			for i := range 4 {
				p := build.Pod(fmt.Sprint("g-", i)).UID("").CPU("1").Member("g").Obj()
				if i == 3 {
					leader.killAfter(2+kills[0], "g") // it is written, and the commit
					raw, err := objects.Encode(p)
					if err != nil {
						t.Fatal(err)
					}
					of := leader.api
					go of.Apply(f.ctx, applyOf(raw)) // answered or not
					break
				}
				leader.apply(p)
			}
			var promised map[string]string
			for n, next := range append(kills[1:], 0) {
				select {
				case <-leader.killed:
				case <-f.ctx.Done():
					t.Fatalf("the leader lives on after the writes %q", leader.writes)
				}
				if promised == nil {
					promised = committed(t, f.own)
				}
				leader = f.takeOver(leader, fmt.Sprint("next-", n), next, "g", gangOneByOne)
			}
			f.waitBound(4)
			if len(promised) != 4 {
				t.Errorf("got a commit of %v, want one of 4 pods", promised)
			}
			pods, _ := f.loaded()
			for name, p := range pods {
				if p.Spec.NodeName != promised[string(p.UID)] {
					t.Errorf("pod %s is on %s, want it on %s as the first leader had it", name, p.Spec.NodeName, promised[string(p.UID)])
				}
			}
			waitNoCommits(t, f.own)
			f.wantSound(4)
		})
	}
}

// A leader in kube-scheduler's place is deposed while it binds a gang: the next one binds the rest to the same nodes, though better ones
// have come, and another pod does not get the room.
func TestTheNextLeaderBindsTheRestOfAGangOfTheAPIServer(t *testing.T) {
	for bound := range 4 {
		t.Run(fmt.Sprint(bound, " of 4 are bound"), func(t *testing.T) {
			nodes := nodesOf("1", "n1", "n2", "n3", "n4")
			for _, n := range nodes {
				n.Labels = map[string]string{"small": "yes"}
			}
			l := newLand(t, nodes...)
			l.others = []objects.Object{build.Gang("g", 4).Obj()}
			gangs := func(c *Config) { c.Scheduler.Groups = groups.Gates{Workload: true, Gang: true} }
			a := l.start("a", gangs)
			a.waitLeading()
			b := l.start("b", gangs)
			l.waitContenders(2)
			release := func() {}
			if l.bindable = bound; bound == 0 {
				release = l.hold()
			}
			var pods []*v1.Pod
			for i := range 4 {
				pods = append(pods, build.Pod(fmt.Sprint("g-", i)).CPU("1").Member("g").Obj())
			}
			l.create(pods...)
			l.waitBound(bound)
			for range 4 - bound {
				<-l.waiting
			}
			promised := committed(t, l.own)
			l.mu.Lock()
			l.nodes = append(l.nodes, nodesOf("64", "better")...)
			l.mu.Unlock()
			only := build.Pod("only").CPU("1").Obj()
			only.Spec.NodeSelector = map[string]string{"small": "yes"}
			l.create(only)
			l.depose()
			_ = a.waitEnd()
			l.mu.Lock()
			l.held = nil
			l.mu.Unlock()
			release()
			b.waitLeading()
			l.waitBound(4)
			waitNoCommits(t, l.own)
			l.mu.Lock()
			defer l.mu.Unlock()
			got := map[string]string{}
			for _, p := range l.pods {
				if p.Name != "only" {
					got[string(p.UID)] = p.Spec.NodeName
				} else if p.Spec.NodeName != "" {
					t.Error("another pod has got the room of a member")
				}
			}
			if !maps.Equal(got, promised) {
				t.Errorf("got pods on %v, want them on %v as the first leader had them", got, promised)
			}
			if nodes := slices.Sorted(maps.Values(got)); strings.Join(nodes, " ") != "n1 n2 n3 n4" {
				t.Errorf("got pods on %v, want one on each of the first nodes", nodes)
			}
		})
	}
}

func applyOf(raw []byte) *pb.ApplyRequest { return &pb.ApplyRequest{Objects: []*pb.Object{{Raw: raw}}} }
