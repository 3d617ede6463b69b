package observe

import (
	"cmp"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/shardsched/shardsched/coordinator/groups"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

const (
	// defaultPodGroups is how many pod groups, or members of one, a page has where no number is asked for.
	defaultPodGroups = 500
	// podGroupsAtOnce is how many pod groups one step looks at, or words, of some 5 µs each.
	podGroupsAtOnce = 512
	// podGroupsOff is told where there are no pod groups.
	podGroupsOff = "PodGroups are not read: the feature gate GenericWorkload is off"
)

// PodGroups is a page of the pod groups, on its way: all are looked at in steps, those of the page are kept, and worded at last.
type PodGroups struct {
	req    *pb.ListPodGroupsRequest
	labels labels.Selector
	groups *groups.Groups
	most   int
	after  [2]string // namespace and name of the last one of the page before
	looked walk[*groups.Group]
	kept   first[*groups.Group] // one more than the page has
	counts [groups.States]uint64
	worded bool
	out    []*pb.PodGroupStatus
}

// NewPodGroups makes a page that is to be read. g is nil where there are no pod groups. The error is that of a selector or token that is
// none.
func NewPodGroups(req *pb.ListPodGroupsRequest, g *groups.Groups) (*PodGroups, error) {
	selector, err := labels.Parse(req.GetLabelSelector())
	if err != nil {
		return nil, status.Errorf(codes.InvalidArgument, "label_selector: %v", err)
	}
	x := &PodGroups{req: req, labels: selector, groups: g, most: cmp.Or(int(req.GetLimit()), defaultPodGroups)}
	x.kept = first[*groups.Group]{most: x.most + 1, compare: func(a, b *groups.Group) int { return compareNames(groupName(a), groupName(b)) }}
	if token := req.GetContinueToken(); token != "" {
		namespace, name, ok := strings.Cut(token, "/")
		if !ok {
			return nil, status.Errorf(codes.InvalidArgument, "continue_token: expected what an answer before had, got %q", token)
		}
		x.after = [2]string{namespace, name}
	}
	return x, nil
}

func groupName(g *groups.Group) [2]string { return [2]string{g.Name().Namespace, g.Name().Name} }

func compareNames(a, b [2]string) int {
	return cmp.Or(strings.Compare(a[0], b[0]), strings.Compare(a[1], b[1]))
}

// Read is how the page is read.
func (x *PodGroups) Read() Read { return Read{Step: x.step, End: x.looked.end} }

func (x *PodGroups) step() (last bool) {
	if !x.worded {
		x.worded = x.looked.some(x.groups.All(), podGroupsAtOnce, x.look)
		return false
	}
	list := x.kept.sorted()
	from := len(x.out)
	for _, g := range list[from:min(len(list), from+podGroupsAtOnce)] {
		x.out = append(x.out, podGroupStatus(g, g.Standing()))
	}
	return len(x.out) == len(list)
}

// look counts a pod group, and keeps one that is on the page.
func (x *PodGroups) look(g *groups.Group) {
	if x.req.GetNamespace() != "" && x.req.GetNamespace() != g.Name().Namespace {
		return
	}
	of := labels.Set(nil)
	if s := g.Spec(); s != nil {
		of = s.Object.Labels
	}
	if !x.labels.Matches(of) {
		return
	}
	state := g.Standing().State
	x.counts[state]++
	if s := x.req.GetState(); (s == "" || s == state.String()) && (x.req.GetContinueToken() == "" || compareNames(groupName(g), x.after) > 0) {
		x.kept.add(g)
	}
}

// Page is the page, after the last step. It needs no loop.
func (x *PodGroups) Page() *pb.ListPodGroupsResponse {
	out, size := &pb.ListPodGroupsResponse{}, 0
	if x.groups == nil {
		out.Note = podGroupsOff
	}
	for state, n := range x.counts {
		if n > 0 {
			out.States = append(out.States, &pb.PodGroupStateCount{State: groups.State(state).String(), PodGroups: n})
		}
	}
	for i, s := range x.out {
		if size += proto.Size(s) + 8; i == x.most || size > maxPageBytes && i > 0 {
			out.ContinueToken = x.out[i-1].Namespace + "/" + x.out[i-1].Name
			break
		}
		out.PodGroups = append(out.PodGroups, s)
	}
	return out
}

// podGroupStatus tells about a pod group in a few numbers and a line.
func podGroupStatus(g *groups.Group, v *groups.Verdict) *pb.PodGroupStatus {
	out := &pb.PodGroupStatus{
		Namespace: g.Name().Namespace, Name: g.Name().Name, State: v.State.String(), Verdict: v.Line(), Exist: uint32(v.Exist),
		Scheduled: uint32(v.Scheduled), Fit: uint32(v.Fit), Domain: v.Domain, DomainFits: uint32(v.DomainFits), Nodes: uint32(v.Nodes),
		Since: instant(v.Since),
	}
	if s := g.Spec(); s != nil {
		out.Policy, out.Priority, out.Created = "Basic", s.Priority, instant(s.Object.CreationTimestamp.Time)
		if s.Gang {
			out.Policy, out.MinCount = "Gang", int32(s.MinCount)
		}
	}
	return out
}

// first keeps those that come first of however many it is told of.
type first[T any] struct {
	most    int
	compare func(a, b T) int
	list    []T
}

func (f *first[T]) add(x T) {
	if f.list = append(f.list, x); len(f.list) >= 2*f.most {
		f.sorted()
	}
}

// sorted are those that it keeps, in order.
func (f *first[T]) sorted() []T {
	slices.SortFunc(f.list, f.compare)
	clear(f.list[min(len(f.list), f.most):])
	f.list = f.list[:min(len(f.list), f.most)]
	return f.list
}
