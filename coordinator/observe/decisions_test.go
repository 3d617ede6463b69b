package observe

import (
	stdcmp "cmp"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/durationpb"
	"pgregory.net/rapid"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/shardsched/shardsched/coordinator/cluster"
	"github.com/shardsched/shardsched/internal/testkit/build"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

var termBegan = time.Unix(1000, 0)

// decisionsPage reads a page to its end, and tells in how many steps.
func decisionsPage(t testing.TB, h *History, req *pb.ListDecisionsRequest) (page *pb.ListDecisionsResponse, steps int) {
	t.Helper()
	x, err := NewDecisions(req, h, termBegan)
	if err != nil {
		t.Fatal(err)
	}
	for steps = 1; !x.Read().Step(); steps++ {
	}
	return x.Page(), steps
}

// seqs are the numbers of decisions, those of earlier leaders negative.
func seqs(list []*pb.PastDecision) (out []int) {
	for _, d := range list {
		n := int(d.Decision.Seq)
		if d.DecidedBy != "" {
			n = -n
		}
		out = append(out, n)
	}
	return out
}

// remember has a history remember a decision for pod-N in namespace nsM of a Deployment.
func remember(h *History, seq int, change func(d *pb.Decision, c *Circumstances)) {
	p := build.Pod(fmt.Sprint("pod-", seq)).Namespace(fmt.Sprint("ns", seq%2)).Obj()
	d := &pb.Decision{Seq: uint64(seq), Pod: p.Namespace + "/" + p.Name, Uid: string(p.UID), Profile: "default-scheduler", Node: "n1"}
	c := Circumstances{Took: time.Duration(seq) * time.Millisecond, Waited: time.Second}
	if change != nil {
		change(d, &c)
	}
	h.Remember(d, time.Unix(int64(seq), 0), 1, c)
}

// earlierLeaders is the history of so many decisions of leaders before.
func earlierLeaders(n int) *History {
	h := NewHistory(nil)
	var list []*pb.PastDecision
	for seq := 1; seq <= n; seq++ {
		list = append(list, &pb.PastDecision{Decision: &pb.Decision{Seq: uint64(seq), Pod: "ns1/old", Uid: "old", Node: "n1"}})
	}
	h.Take(&pb.HistoryChunk{Leader: "before", Decisions: list})
	return h
}

// Pages, in whatever sizes and while more is decided and forgotten, have each decision that stays once, newest first, over the terms.
func TestDecisionsArePaged(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h, n := NewHistory(nil), rapid.IntRange(0, 40).Draw(t, "decisions")
		old := rapid.IntRange(0, 10).Draw(t, "of leaders before")
		if old > 0 {
			h.Recall(earlierLeaders(old))
		}
		for seq := 1; seq <= n; seq++ {
			remember(h, seq, nil)
		}
		for range rapid.IntRange(0, n).Draw(t, "dropped") {
			h.evict()
		}
		var want []int
		for seq := n; seq > h.dropped; seq-- {
			want = append(want, seq)
		}
		for seq := old; seq > 0; seq-- {
			want = append(want, -seq)
		}
		var got []int
		req := &pb.ListDecisionsRequest{Limit: uint32(rapid.IntRange(1, 7).Draw(t, "limit"))}
		for {
			x, err := NewDecisions(req, h, termBegan)
			if err != nil {
				t.Fatal(err)
			}
			for !x.Read().Step() {
			}
			page := x.Page()
			got = append(got, seqs(page.Decisions)...)
			if len(page.Decisions) > int(req.Limit) || page.ContinueToken != "" && len(page.Decisions) != int(req.Limit) {
				t.Fatalf("got a page of %d, want %d", len(page.Decisions), req.Limit)
			}
			if req.ContinueToken = page.ContinueToken; req.ContinueToken == "" {
				break
			}
			n++
			remember(h, n, nil) // is not seen by pages behind the first
		}
		if !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
	})
}

func TestDecisionsAreFiltered(t *testing.T) {
	h := NewHistory(nil)
	h.Recall(earlierLeaders(1))
	remember(h, 1, nil)
	remember(h, 2, func(d *pb.Decision, _ *Circumstances) { d.Node, d.Profile = "n2", "batch" })
	remember(h, 3, func(d *pb.Decision, _ *Circumstances) { d.Node = "" })
	remember(h, 4, func(d *pb.Decision, _ *Circumstances) { d.Node, d.Nominated, d.Victims = "", "n2", []string{"a/b"} })
	web := build.Pod("web-x-1").Label("pod-template-hash", "x").Obj()
	yes := true
	web.OwnerReferences = []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "web-x", Controller: &yes}}
	kind, name := WorkloadOf(web)
	h.Remember(&pb.Decision{Seq: 5, Pod: "default/web-x-1", Uid: "web", Node: "n3"}, time.Unix(5, 0), 1,
		Circumstances{Took: -time.Second, Kind: kind, Workload: name})
	for _, c := range []struct {
		req  *pb.ListDecisionsRequest
		want []int
	}{
		{&pb.ListDecisionsRequest{}, []int{5, 4, 3, 2, 1, -1}},
		{&pb.ListDecisionsRequest{Namespace: "ns0"}, []int{4, 2}},
		{&pb.ListDecisionsRequest{NamePrefix: "pod-3"}, []int{3}},
		{&pb.ListDecisionsRequest{Node: "n2"}, []int{4, 2}},
		{&pb.ListDecisionsRequest{Profile: "batch"}, []int{2}},
		{&pb.ListDecisionsRequest{Outcome: pb.OutcomePlaced}, []int{5, 2, 1, -1}},
		{&pb.ListDecisionsRequest{Outcome: pb.OutcomeNowhere}, []int{3}},
		{&pb.ListDecisionsRequest{Outcome: pb.OutcomePreempting}, []int{4}},
		{&pb.ListDecisionsRequest{Slow: durationpb.New(3 * time.Millisecond)}, []int{4, 3}},
		{&pb.ListDecisionsRequest{Kind: "Deployment", Workload: "web"}, []int{5}},
		{&pb.ListDecisionsRequest{Kind: "Pod", Workload: "web"}, nil},
		{&pb.ListDecisionsRequest{Workload: "web"}, []int{5}},
	} {
		page, _ := decisionsPage(t, h, c.req)
		if d := cmp.Diff(c.want, seqs(page.Decisions)); d != "" {
			t.Errorf("%v (-want +got):\n%s", c.req, d)
		}
	}
	page, _ := decisionsPage(t, h, &pb.ListDecisionsRequest{Limit: 1})
	if got := page.Decisions[0].Took.AsDuration(); got != 0 {
		t.Errorf("a clock that was set back: took %v, want 0", got)
	}
	page, _ = decisionsPage(t, h, &pb.ListDecisionsRequest{NamePrefix: "pod-2"})
	if d := page.Decisions[0]; d.Took.AsDuration() != 2*time.Millisecond || d.Waited.AsDuration() != time.Second || d.Time.AsTime() != time.Unix(2, 0).UTC() {
		t.Errorf("got %v", d)
	}
}

// Whoever asks for what came since gets just that; of another leader all that this one has decided.
func TestDecisionsAreFollowed(t *testing.T) {
	h := NewHistory(nil)
	first, _ := decisionsPage(t, h, &pb.ListDecisionsRequest{})
	h.Recall(earlierLeaders(3))
	for seq := 1; seq <= 3; seq++ {
		remember(h, seq, nil)
	}
	second, _ := decisionsPage(t, h, &pb.ListDecisionsRequest{After: first.Newest})
	if got := seqs(second.Decisions); !slices.Equal(got, []int{3, 2, 1}) {
		t.Errorf("after none: got %v", got)
	}
	third, _ := decisionsPage(t, h, &pb.ListDecisionsRequest{After: second.Newest, Outcome: pb.OutcomeNowhere})
	if len(third.Decisions) > 0 || third.Newest != second.Newest {
		t.Errorf("nothing came: got %v", third)
	}
	remember(h, 4, nil)
	fourth, _ := decisionsPage(t, h, &pb.ListDecisionsRequest{After: third.Newest})
	if got := seqs(fourth.Decisions); !slices.Equal(got, []int{4}) {
		t.Errorf("one came: got %v", got)
	}

	x, err := NewDecisions(&pb.ListDecisionsRequest{After: second.Newest}, h, termBegan.Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	for !x.Read().Step() {
	}
	if got := seqs(x.Page().Decisions); !slices.Equal(got, []int{4, 3, 2, 1}) {
		t.Errorf("of another leader: got %v", got)
	}
	if _, err := NewDecisions(&pb.ListDecisionsRequest{ContinueToken: second.Newest}, h, termBegan.Add(time.Hour)); status.Code(err) != codes.Aborted {
		t.Errorf("a page of another leader: got %v", err)
	}
	for _, bad := range []string{"x", "x.", ".-", "x.-1y2p0ij32e8e8", "a.b.c"} {
		if _, err := NewDecisions(&pb.ListDecisionsRequest{After: bad}, h, termBegan); status.Code(err) != codes.InvalidArgument {
			t.Errorf("%q: got %v", bad, err)
		}
	}
}

// Whatever a client sends as a token, it gets an answer or is refused, and nothing is looked at twice.
func FuzzDecisionTokens(f *testing.F) {
	f.Add("", "")
	f.Add(strconv.FormatInt(termBegan.UnixNano(), 36)+".2", strconv.FormatInt(termBegan.UnixNano(), 36)+".-1")
	f.Add("x.-zzzzzzzzzzzz", "x.7fffffff")
	f.Fuzz(func(t *testing.T, after, token string) {
		h := NewHistory(nil)
		h.Recall(earlierLeaders(3))
		for seq := 1; seq <= 3; seq++ {
			remember(h, seq, nil)
		}
		x, err := NewDecisions(&pb.ListDecisionsRequest{After: after, ContinueToken: token}, h, termBegan)
		if err != nil {
			if code := status.Code(err); code != codes.InvalidArgument && code != codes.Aborted {
				t.Errorf("got %v", err)
			}
			return
		}
		for !x.Read().Step() {
		}
		got := seqs(x.Page().Decisions)
		if len(got) > 6 || !slices.IsSortedFunc(got, func(a, b int) int { return -stdcmp.Compare(orderOf(a), orderOf(b)) }) {
			t.Errorf("got %v, want each of six at the most once, newest first", got)
		}
	})
}

// orderOf orders what seqs gives, the newest as the largest.
func orderOf(seq int) int {
	if seq < 0 {
		return -seq - 1000
	}
	return seq
}

// A step looks at so many decisions and no more, and a page takes no more than a message has.
func TestDecisionsAreReadInSteps(t *testing.T) {
	h := NewHistory(nil)
	for seq := range 2*decisionsAtOnce + 1 {
		remember(h, seq+1, nil)
	}
	if _, steps := decisionsPage(t, h, &pb.ListDecisionsRequest{NamePrefix: "none"}); steps != 3 {
		t.Errorf("got %d steps for %d decisions, want 3", steps, 2*decisionsAtOnce+1)
	}
	h = NewHistory(nil)
	for seq := range 10 {
		remember(h, seq+1, func(d *pb.Decision, c *Circumstances) {
			d.Message = strings.Repeat("m", maxPageBytes/3)
			c.Top = []*pb.ScoredNode{{Node: strings.Repeat("n", maxPageBytes/3)}}
		})
	}
	var got []int
	for req := (&pb.ListDecisionsRequest{}); ; {
		page, _ := decisionsPage(t, h, req)
		if len(page.Decisions) > 2 {
			t.Errorf("got a page of %d decisions, want 2 at the most", len(page.Decisions))
		}
		got = append(got, seqs(page.Decisions)...)
		if req.ContinueToken = page.ContinueToken; req.ContinueToken == "" {
			break
		}
	}
	if !slices.Equal(got, []int{10, 9, 8, 7, 6, 5, 4, 3, 2, 1}) {
		t.Errorf("got %v", got)
	}
}

// A preemption tells which budgets count its victims, and how many each allows.
func TestPreemptionsTellBudgets(t *testing.T) {
	budgets := cluster.NewBudgets(false, func(string) iter.Seq2[*v1.Pod, bool] { return func(func(*v1.Pod, bool) bool) {} })
	for name, allowed := range map[string]int32{"few": 1, "none": 0} {
		b := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
		b.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}}
		b.Status.DisruptionsAllowed = allowed
		budgets.Set("default", name, b)
	}
	victims := []*v1.Pod{
		build.Pod("a").Label("app", "few").Priority(5).Obj(), build.Pod("b").Label("app", "few").Obj(), build.Pod("c").Obj(),
	}
	for _, v := range victims {
		budgets.SetPod(v, true)
	}
	for budgets.Changing() {
		if _, err := budgets.Some(10, 1, func(_ types.UID) error { return nil }); err != nil {
			t.Fatal(err)
		}
	}
	want := &pb.Preemption{
		Priority: 100, Budgets: []*pb.BudgetUse{{Budget: "default/few", Allowed: 1, Victims: 2}},
		Victims: []*pb.PreemptedPod{
			{Pod: "default/a", Uid: string(victims[0].UID), Priority: 5}, {Pod: "default/b", Uid: string(victims[1].UID)},
			{Pod: "default/c", Uid: string(victims[2].UID)},
		},
	}
	got := Preempting(build.Pod("vip").Priority(100).Obj(), victims, budgets)
	if d := cmp.Diff(want, got, protocmp.Transform()); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if got := Preempting(victims[0], nil, budgets); got != nil {
		t.Errorf("nobody is pushed out: got %v", got)
	}
}
