package observe

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"k8s.io/apimachinery/pkg/types"

	"github.com/shardsched/shardsched/coordinator/groups"
	"github.com/shardsched/shardsched/coordinator/queue"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

const (
	// membersAtOnce is how many members one step looks at, of some microseconds each.
	membersAtOnce = 1024
	// maxToldReasons is how many reasons an explanation tells, and maxTold how much of each text, in bytes.
	maxToldReasons, maxTold = 64, 4096
)

// PodGroupReader is what explanations of pod groups read. It belongs to the loop.
type PodGroupReader struct {
	Groups *groups.Groups // nil: there are no pod groups
	Queue  *queue.Queue
	Placed Placed
	Held   func() *HeldRoom // nil: none is
	// NotHeld is why no room is held for a pod group; "": others go before it, or it asks for none.
	NotHeld func(types.NamespacedName) string
}

// PodGroup is an explanation of a pod group, on its way: its members are looked at in steps, and those of the page are kept.
type PodGroup struct {
	PodGroupReader
	req    *pb.ExplainPodGroupRequest
	name   types.NamespacedName
	most   int
	after  memberKey // of the last one of the page before
	found  *groups.Group
	stands *groups.Verdict
	looked walk[groups.Member]
	kept   first[toldMember] // one more than the page has
	counts [groups.MemberStates]uint32
	out    *pb.ExplainPodGroupResponse
	err    error
}

// memberKey is by what members are sorted: those first of which there is most to be said, then by name.
type memberKey struct {
	rank int
	name string
}

func (k memberKey) compare(o memberKey) int {
	return cmp.Or(cmp.Compare(k.rank, o.rank), strings.Compare(k.name, o.name))
}

// toldMember is a member with its key.
type toldMember struct {
	memberKey
	state groups.MemberState
	groups.Member
}

// memberRank is a state's place among the members that are told.
func memberRank(m groups.MemberState) int {
	return slices.Index([]groups.MemberState{groups.DoesNotFit, groups.NotTried, groups.HeldBack, groups.Fits}, m)
}

// NewPodGroup makes an explanation that is to be read. The error is that of a token that is none.
func NewPodGroup(req *pb.ExplainPodGroupRequest, r PodGroupReader) (*PodGroup, error) {
	x := &PodGroup{
		PodGroupReader: r, req: req, name: types.NamespacedName{Namespace: req.GetNamespace(), Name: req.GetName()},
		most: cmp.Or(int(req.GetLimit()), defaultPodGroups), after: memberKey{rank: -1},
	}
	x.kept = first[toldMember]{most: x.most + 1, compare: func(a, b toldMember) int { return a.compare(b.memberKey) }}
	if token := req.GetContinueToken(); token != "" {
		rank, name, _ := strings.Cut(token, "/")
		n, err := strconv.Atoi(rank)
		if err != nil {
			return nil, status.Errorf(codes.InvalidArgument, "continue_token: expected what an answer before had, got %q", token)
		}
		x.after = memberKey{n, name}
	}
	return x, nil
}

// Read is how it is read.
func (x *PodGroup) Read() Read { return Read{Step: x.step, End: x.looked.end} }

func (x *PodGroup) step() (last bool) {
	if x.found == nil {
		return x.begin()
	}
	if !x.looked.some(x.found.EachMember(), membersAtOnce, x.look) {
		return false
	}
	size := 0
	for i, m := range x.kept.sorted() {
		told := x.member(m)
		if size += proto.Size(told) + 8; i == x.most || size > maxPageBytes && i > 0 {
			x.out.ContinueToken = fmt.Sprintf("%d/%s", x.kept.list[i-1].rank, x.kept.list[i-1].name)
			break
		}
		x.out.Members = append(x.out.Members, told)
	}
	x.out.DoNotFit, x.out.NotTried = x.counts[groups.DoesNotFit], x.counts[groups.NotTried]
	x.out.HeldBack, x.out.Fit = x.counts[groups.HeldBack], x.counts[groups.Fits]
	return true
}

// begin finds the pod group, and tells what it asks and where it stands; true: there is none.
func (x *PodGroup) begin() (last bool) {
	if x.found = x.Groups.Get(x.name); x.found == nil {
		x.err = status.Errorf(codes.NotFound, "PodGroup %s is not known: there is none of that name, and no pod names it", x.name)
		if x.Groups == nil {
			x.err = status.Error(codes.FailedPrecondition, podGroupsOff)
		}
		return true
	}
	x.stands = x.found.Standing()
	x.out = &pb.ExplainPodGroupResponse{Status: podGroupStatus(x.found, x.stands)}
	if s := x.found.Spec(); s != nil {
		x.out.TopologyKey, x.out.PreferredTopology = s.TopologyKey, s.Asks.Preferred
		x.out.SliceTopology, x.out.SliceSize = s.Asks.SliceKey, uint32(s.Asks.SliceSize)
	}
	if err := x.found.Err(); err != nil {
		x.out.Notes = append(x.out.Notes, err.Error())
	}
	if x.stands.State != groups.Scheduled && x.Held != nil {
		if held := x.Held(); held != nil {
			x.out.Notes = append(x.out.Notes, held.text(x.name))
		}
	}
	if x.stands.State != groups.Scheduled && x.NotHeld != nil {
		if why := x.NotHeld(x.name); why != "" {
			x.out.Notes = append(x.out.Notes, "no room is held for this pod group: "+why)
		}
	}
	order := slices.SortedFunc(maps.Keys(x.stands.Reasons), func(a, b string) int {
		return cmp.Or(cmp.Compare(x.stands.Reasons[b], x.stands.Reasons[a]), strings.Compare(a, b))
	})
	for _, r := range order[:min(len(order), maxToldReasons)] {
		x.out.Status.Reasons = append(x.out.Status.Reasons, &pb.ReasonCount{Reason: cutText(r), Nodes: uint32(x.stands.Reasons[r])})
	}
	return false
}

// look counts a member, and keeps one that is on the page.
func (x *PodGroup) look(m groups.Member) {
	state := x.stands.StateOf(m)
	x.counts[state]++
	if key := (memberKey{memberRank(state), m.Pod.Name}); key.compare(x.after) > 0 {
		x.kept.add(toldMember{key, state, m})
	}
}

// member tells about a member.
func (x *PodGroup) member(m toldMember) *pb.PodGroupMember {
	out := &pb.PodGroupMember{Name: m.name, Node: m.Node, State: m.state.String(), Created: instant(m.Pod.CreationTimestamp.Time)}
	if key := x.out.TopologyKey; key != "" && m.Node != "" {
		if n := x.Placed.Node(m.Node); n != nil {
			out.Domain = n.Labels[key]
		}
	}
	if p := x.Queue.Get(m.Pod.UID); p != nil {
		out.Queue, out.Attempts, out.Message, out.Nominated = p.Place().String(), uint32(p.Attempts), cutText(p.Message), p.Nomination()
	}
	return out
}

// cutText is s, cut to what is told of a text.
func cutText(s string) string {
	if len(s) <= maxTold {
		return s
	}
	return strings.ToValidUTF8(s[:maxTold], "") + "…"
}

// Answer is the explanation, after the last step. It needs no loop.
func (x *PodGroup) Answer() (*pb.ExplainPodGroupResponse, error) { return x.out, x.err }
