package observe

import (
	"fmt"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	"k8s.io/api/scheduling/v1alpha2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/shardsched/shardsched/coordinator/groups"
	"github.com/shardsched/shardsched/coordinator/queue"
	"github.com/shardsched/shardsched/internal/testkit/build"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

func gang(namespace, name string, minCount int32) *v1alpha2.PodGroup {
	return &v1alpha2.PodGroup{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"team": namespace}},
		Spec: v1alpha2.PodGroupSpec{
			SchedulingPolicy: v1alpha2.PodGroupSchedulingPolicy{Gang: &v1alpha2.GangSchedulingPolicy{MinCount: minCount}},
			SchedulingConstraints: &v1alpha2.PodGroupSchedulingConstraints{
				Topology: []v1alpha2.TopologyConstraint{{Key: "rack"}},
			},
		},
	}
}

func memberOf(group, name string) *v1.Pod {
	p := build.Pod(name).Obj()
	p.UID = types.UID(p.Namespace + "/" + name)
	p.Spec.SchedulingGroup = &v1.PodSchedulingGroup{PodGroupName: &group}
	return p
}

// readAll takes all steps of a read, and tells how many there were.
func readAll(r Read) (steps int) {
	for steps = 1; !r.Step(); steps++ {
	}
	if r.End != nil {
		r.End()
	}
	return steps
}

// However many pod groups there are, a page is as long as it may be, each step looks at some, and all pages together have each once.
func TestPodGroupsComeInPages(t *testing.T) {
	all := groups.New(groups.All())
	const n = 3*podGroupsAtOnce + 7
	for i := range n {
		all.Set(gang(fmt.Sprint("ns", i%3), fmt.Sprint("g", i), 2))
	}
	seen, last, token := 0, [2]string{}, ""
	for pages := 1; ; pages++ {
		x, err := NewPodGroups(&pb.ListPodGroupsRequest{Limit: 700, ContinueToken: token}, all)
		if err != nil {
			t.Fatal(err)
		}
		if steps := readAll(x.Read()); steps < 4 || steps > 8 {
			t.Errorf("a page took %d steps", steps)
		}
		page := x.Page()
		for _, g := range page.PodGroups {
			at := [2]string{g.Namespace, g.Name}
			if compareNames(at, last) <= 0 {
				t.Fatalf("%v comes after %v", at, last)
			}
			last = at
		}
		if seen += len(page.PodGroups); len(page.PodGroups) > 700 || len(page.States) != 1 || page.States[0].PodGroups != n {
			t.Fatalf("a page has %d, and the counts %v", len(page.PodGroups), page.States)
		}
		if token = page.ContinueToken; token == "" {
			if seen != n || pages != 3 {
				t.Errorf("%d pages have %d of %d", pages, seen, n)
			}
			return
		}
	}
}

func TestPodGroupsAreChosen(t *testing.T) {
	all := groups.New(groups.All())
	all.Set(gang("a", "few", 2))
	all.Set(gang("b", "enough", 1))
	p := memberOf("enough", "p")
	p.Namespace = "b"
	all.PodSet(p, true)
	all.PodSet(memberOf("none", "lonely"), true)
	for name, c := range map[string]struct {
		req  *pb.ListPodGroupsRequest
		want string
	}{
		"all":            {&pb.ListPodGroupsRequest{}, "a/few b/enough default/none"},
		"by namespace":   {&pb.ListPodGroupsRequest{Namespace: "b"}, "b/enough"},
		"by state":       {&pb.ListPodGroupsRequest{State: "gated"}, "a/few default/none"},
		"by labels":      {&pb.ListPodGroupsRequest{LabelSelector: "team=a"}, "a/few"},
		"by what is not": {&pb.ListPodGroupsRequest{LabelSelector: "team!=a"}, "b/enough default/none"},
	} {
		x, err := NewPodGroups(c.req, all)
		if err != nil {
			t.Fatal(err)
		}
		readAll(x.Read())
		var got []string
		for _, g := range x.Page().PodGroups {
			got = append(got, g.Namespace+"/"+g.Name)
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: got %v, want %s", name, got, c.want)
		}
	}
	for _, req := range []*pb.ListPodGroupsRequest{{LabelSelector: "a in"}, {ContinueToken: "x"}} {
		if _, err := NewPodGroups(req, all); status.Code(err) != codes.InvalidArgument {
			t.Errorf("%v: got %v, want an invalid argument", req, err)
		}
	}
}

// Without the feature gate there are no pod groups, and the answer says why.
func TestNoPodGroupsAreToldWithTheGateOff(t *testing.T) {
	x, err := NewPodGroups(&pb.ListPodGroupsRequest{}, groups.New(groups.Gates{}))
	if err != nil {
		t.Fatal(err)
	}
	readAll(x.Read())
	if page := x.Page(); len(page.PodGroups) > 0 || !strings.Contains(page.Note, "GenericWorkload is off") {
		t.Errorf("got %v", page)
	}
}

func explainPodGroup(t *testing.T, r PodGroupReader, req *pb.ExplainPodGroupRequest) (*pb.ExplainPodGroupResponse, error) {
	t.Helper()
	x, err := NewPodGroup(req, r)
	if err != nil {
		return nil, err
	}
	readAll(x.Read())
	return x.Answer()
}

// nowhere has no nodes.
type nowhere struct{ Placed }

func (nowhere) Node(string) *v1.Node { return nil }

// Members come in pages, those first that do not fit, however many there are; and each step looks at some of them.
func TestMembersComeInPages(t *testing.T) {
	all := groups.New(groups.All())
	all.Set(gang("default", "g", 5))
	const n = 3*membersAtOnce + 5
	v := &groups.Verdict{State: groups.Unschedulable, Exist: n, Need: 5, Fit: 3, Members: map[types.UID]groups.MemberState{}}
	states := []groups.MemberState{groups.HeldBack, groups.DoesNotFit, groups.NotTried}
	for i := range n {
		p := memberOf("g", fmt.Sprintf("p%05d", i))
		if i == 7 {
			p.Spec.NodeName = "n1"
		}
		all.PodSet(p, true)
		v.Members[p.UID] = states[i%3]
	}
	all.Get(types.NamespacedName{Namespace: "default", Name: "g"}).SetVerdict(v)
	r := PodGroupReader{Groups: all, Queue: queue.New(queue.Config{}), Placed: nowhere{}}
	seen, token, order := map[string]bool{}, "", ""
	for {
		e, err := explainPodGroup(t, r, &pb.ExplainPodGroupRequest{Namespace: "default", Name: "g", Limit: 1000, ContinueToken: token})
		if err != nil {
			t.Fatal(err)
		}
		if e.DoNotFit+e.NotTried+e.HeldBack+e.Fit != n || e.Fit != 1 || e.TopologyKey != "rack" || len(e.Members) > 1000 {
			t.Fatalf("got %d, %d, %d and %d of %d, %d on a page", e.DoNotFit, e.NotTried, e.HeldBack, e.Fit, n, len(e.Members))
		}
		for _, m := range e.Members {
			if seen[m.Name] {
				t.Fatalf("%s comes twice", m.Name)
			}
			seen[m.Name] = true
			if !strings.HasSuffix(order, m.State+",") {
				order += m.State + ","
			}
		}
		if token = e.ContinueToken; token == "" {
			break
		}
	}
	if want := "does not fit,not tried,held back by mates,fits,"; len(seen) != n || order != want {
		t.Errorf("got %d of %d members, in the order %s, want %s", len(seen), n, order, want)
	}
	if e, err := explainPodGroup(t, r, &pb.ExplainPodGroupRequest{Namespace: "default", Name: "none"}); status.Code(err) != codes.NotFound {
		t.Errorf("of a pod group that there is not: got %v, %v", e, err)
	}
	if _, err := explainPodGroup(t, r, &pb.ExplainPodGroupRequest{ContinueToken: "x"}); status.Code(err) != codes.InvalidArgument {
		t.Errorf("got %v, want an invalid argument", err)
	}
}

// A page ends before a message would be too long, whatever the members' messages are.
func TestAPageOfMembersIsBounded(t *testing.T) {
	all := groups.New(groups.All())
	all.Set(gang("default", "g", 5))
	q := queue.New(queue.Config{})
	for i := range 1000 {
		p := memberOf("g", fmt.Sprintf("p%05d", i))
		all.PodSet(p, true)
		q.Add(p)
		q.Get(p.UID).Message = strings.Repeat("é", 1<<20)
	}
	e, err := explainPodGroup(t, PodGroupReader{Groups: all, Queue: q, Placed: nowhere{}},
		&pb.ExplainPodGroupRequest{Namespace: "default", Name: "g", Limit: 1000})
	if err != nil || e.ContinueToken == "" || len(e.Members) < 100 {
		t.Fatalf("got %d members, %v", len(e.GetMembers()), err)
	}
}
