package observe

import (
	"math"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

const (
	// decisionsAtOnce is at how many decisions one step looks, of up to a microsecond each: they are spread over memory.
	decisionsAtOnce = 2048
	// defaultDecisions is how many decisions a page has where no number is asked for.
	defaultDecisions = 100
)

// Decisions is a page of the decisions that are remembered, on its way. The loop looks for those that are asked for; the page is made of
// them without the loop, for nobody changes a decision that is remembered.
//
// Each has a position, the larger the newer, which it keeps for the whole term:
//
//	earlier leaders' -n … -2 -1      the present leader's 1 2 … n
//	                                      <── a page goes this way
type Decisions struct {
	req   *pb.ListDecisionsRequest
	h     *History
	term  string
	slow  time.Duration
	most  int
	begun bool
	// next is the position to look at, and after the one at which to end; newest is of the newest of all.
	next, after, newest int64
	list                []placedDecision
}

// placedDecision is a decision at a position.
type placedDecision struct {
	*pb.PastDecision
	at int64
}

// NewDecisions makes a page that is to be read. since is when the leader began to lead. The error is that of a token that is none, or of
// another leader.
func NewDecisions(req *pb.ListDecisionsRequest, h *History, since time.Time) (*Decisions, error) {
	x := &Decisions{
		req: req, h: h, term: strconv.FormatInt(since.UnixNano(), 36), slow: req.GetSlow().AsDuration(), most: int(req.GetLimit()),
		next: math.MaxInt64, after: math.MinInt64,
	}
	if x.most == 0 {
		x.most = defaultDecisions
	}
	if token := req.GetAfter(); token != "" {
		at, ours, err := x.parse("after", token)
		if err != nil {
			return nil, err
		}
		if x.after = at; !ours {
			x.after = 0
		}
	}
	if token := req.GetContinueToken(); token != "" {
		at, ours, err := x.parse("continue_token", token)
		switch {
		case err != nil:
			return nil, err
		case !ours:
			return nil, status.Error(codes.Aborted, "continue_token: another coordinator leads since: begin with the first page")
		}
		x.next = at - 1
	}
	return x, nil
}

// token stands for a position in this term.
func (x *Decisions) token(at int64) string { return x.term + "." + strconv.FormatInt(at, 36) }

// parse reads a token; not ours: it is of another term.
func (x *Decisions) parse(field, token string) (at int64, ours bool, err error) {
	term, number, _ := strings.Cut(token, ".")
	at, err = strconv.ParseInt(number, 36, 64)
	if err != nil || at == math.MinInt64 {
		return 0, false, status.Errorf(codes.InvalidArgument, "%s: expected what an answer before had, got %q", field, token)
	}
	return at, term == x.term, nil
}

// Read is how the page is read.
func (x *Decisions) Read() Read { return Read{Step: x.step} }

func (x *Decisions) step() (last bool) {
	if !x.begun {
		x.begun, x.newest = true, x.h.newestAt()
		x.next = min(x.next, x.newest)
	}
	for range decisionsAtOnce {
		if x.next == 0 {
			x.next--
		}
		d, there := x.h.at(x.next)
		if !there && x.next > 0 { // what is older has made room: earlier leaders' is left
			x.next = 0
			continue
		}
		if !there || x.next <= x.after {
			return true
		}
		if d != nil && x.wants(d) {
			if len(x.list) == x.most { // there is one more
				x.list = append(x.list, placedDecision{nil, x.next})
				return true
			}
			x.list = append(x.list, placedDecision{d, x.next})
		}
		x.next--
	}
	return false
}

// wants tells whether a decision is asked for.
func (x *Decisions) wants(p *pb.PastDecision) bool {
	d, q := p.Decision, x.req
	namespace, name, _ := strings.Cut(d.Pod, "/")
	switch {
	case q.GetNamespace() != "" && q.GetNamespace() != namespace,
		!strings.HasPrefix(name, q.GetNamePrefix()),
		q.GetWorkload() != "" && q.GetWorkload() != p.Workload,
		q.GetKind() != "" && q.GetKind() != p.Kind,
		q.GetNode() != "" && q.GetNode() != d.Node && q.GetNode() != d.Nominated,
		q.GetProfile() != "" && q.GetProfile() != d.Profile,
		q.GetOutcome() != "" && q.GetOutcome() != OutcomeOf(d),
		x.slow > 0 && p.Took.AsDuration() < x.slow:
		return false
	}
	return true
}

// OutcomeOf is what a decision came to, by the names of ListDecisionsRequest.outcome.
func OutcomeOf(d *pb.Decision) string {
	switch {
	case d.GetNode() != "":
		return pb.OutcomePlaced
	case len(d.GetVictims()) > 0:
		return pb.OutcomePreempting
	}
	return pb.OutcomeNowhere
}

// Page is the page, after the last step. It needs no loop.
func (x *Decisions) Page() *pb.ListDecisionsResponse {
	out, size := &pb.ListDecisionsResponse{Newest: x.token(x.newest)}, 0
	for i, d := range x.list {
		if d.PastDecision == nil {
			out.ContinueToken = x.token(x.list[i-1].at)
			break
		}
		m := shallow(d.PastDecision)
		m.Top, m.Reviews = nil, nil
		if size += proto.Size(m) + 8; size > maxPageBytes && i > 0 {
			out.ContinueToken = x.token(x.list[i-1].at)
			break
		}
		out.Decisions = append(out.Decisions, m)
	}
	return out
}

// newestAt is the position of the newest decision.
func (h *History) newestAt() int64 {
	if n := h.ever(); n > 0 || h.earlier == nil || h.earlier.ever() == 0 {
		return n
	}
	return -1
}

// ever is how many decisions it was told of.
func (h *History) ever() int64 { return int64(h.dropped + len(h.ring) - h.head) }

// at is the decision at a position; nil: it is forgotten. It is not there where it has made room, or never was.
func (h *History) at(position int64) (d *pb.PastDecision, there bool) {
	number := position // from 1
	if position < 0 {
		if h = h.earlier; h == nil {
			return nil, false
		}
		number = h.ever() + position + 1
	}
	i := number - 1 - int64(h.dropped)
	if i < 0 || i >= int64(len(h.ring)-h.head) {
		return nil, false
	}
	return h.ring[h.head+int(i)].PastDecision, true
}
