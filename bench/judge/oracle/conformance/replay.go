package conformance

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/shardsched/shardsched/bench/judge/oracle"
	"github.com/shardsched/shardsched/scorer/devices"
)

// Difference is a place where we and upstream disagree.
type Difference struct {
	Round    int
	Decision Decision
	// Node is empty where it is not one node's.
	Node string
	// What differs, such as "score" or "NodeResourcesFit raw".
	What      string
	Got, Want string
}

func (d *Difference) String() string {
	at := ""
	if d.Node != "" {
		at = " on " + d.Node
	}
	return fmt.Sprintf("round %d, decision %d, pod %s%s: %s\n got %s\nwant %s", d.Round, d.Decision.Seq, d.Decision.Pod, at, d.What, d.Got,
		d.Want)
}

// Result is what a scenario came to.
type Result struct {
	Decisions, Refusals, Errors int
	// NodeVerdicts is how many verdicts on a node were compared.
	NodeVerdicts int
	// Preemptions is how many pods preempted others, and Candidates how many nodes they
	// had to choose from.
	Preemptions, Candidates int
	// Claims is how many claims of devices were allocated.
	Claims int
	// Exhausted is how many decisions end at the bound of a search for devices: upstream has none in steps, and nothing is compared.
	Exhausted int
	// Gangs is how many attempts at pod groups were held, Started those after which members were placed, Waiting those after which pods have
	// to leave, and Held how many members would have got a node and did not. Ties is how many domains upstream could take
	// with ties broken otherwise than we guessed.
	Gangs, Started, Waiting, Held, Ties int
	// GroupPreemptions is how many attempts had pods leave for the pod group as a whole (workload-aware preemption), GroupRefusals how many
	// had none leave, both as upstream has it, and GroupUncompared how many ours promises nothing about.
	GroupPreemptions, GroupRefusals, GroupUncompared int
	// Reservations is how often room was held for a pod group that could not start.
	Reservations int
	// Pinned is how many classes were decided with pinned sums.
	Pinned      int
	Differences []*Difference
	// Log is our decision log of one scenario.
	Log []byte
}

// Add adds the result of another scenario, of the differences the first only.
func (r *Result) Add(other *Result) {
	r.count(other)
	if len(other.Differences) > 0 {
		r.Differences = append(r.Differences, other.Differences[0])
	}
}

func (r *Result) count(other *Result) {
	r.Decisions += other.Decisions
	r.Refusals += other.Refusals
	r.Errors += other.Errors
	r.NodeVerdicts += other.NodeVerdicts
	r.Preemptions += other.Preemptions
	r.Candidates += other.Candidates
	r.Claims += other.Claims
	r.Exhausted += other.Exhausted
	r.Pinned += other.Pinned
	r.Gangs += other.Gangs
	r.Started += other.Started
	r.Waiting += other.Waiting
	r.Held += other.Held
	r.Ties += other.Ties
	r.GroupPreemptions += other.GroupPreemptions
	r.GroupRefusals += other.GroupRefusals
	r.GroupUncompared += other.GroupUncompared
	r.Reservations += other.Reservations
}

func (r *Result) String() string {
	gangs := ""
	if r.Gangs > 0 {
		gangs = fmt.Sprintf("%d attempts at pod groups (%d placed members; %d have pods leave; %d members were held back; %d domains by other "+
			"ties; %d preempt as a whole, %d can't, %d not compared; for %d room was held), ", r.Gangs, r.Started, r.Waiting, r.Held, r.Ties,
			r.GroupPreemptions, r.GroupRefusals, r.GroupUncompared, r.Reservations)
	}
	return fmt.Sprintf("%d decisions (%d refusals, %d errors), %d verdicts on nodes, %d preemptions (of %d candidates), %s%d differences",
		r.Decisions, r.Refusals, r.Errors, r.NodeVerdicts, r.Preemptions, r.Candidates, gangs, len(r.Differences))
}

// Run decides a scenario and holds every decision against upstream. It stops at the first
// decision that differs: what follows rests on it.
func Run(ctx context.Context, s *Scenario, split Split) (*Result, error) {
	return run(ctx, s, split, patience)
}

func run(ctx context.Context, s *Scenario, split Split, patience time.Duration) (_ *Result, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	config, err := s.Config.file()
	if err != nil {
		return nil, err
	}
	restore, err := s.PodGroups.open()
	if err != nil {
		return nil, err
	}
	defer restore()
	r, err := newReplay(ctx, config, s.PodGroups)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.own.end()) }()
	kept := newKeeper(ctx, s)
	defer func() { err = errors.Join(err, kept.end()) }()
	if s.PodGroups != nil && s.PodGroups.Reservation {
		r.holds = &holds{}
		ctx = klog.NewContext(ctx, logr.New(r.holds))
	}
	own, err := startOurs(ctx, config, s, split, kept)
	if err != nil {
		return nil, err
	}
	r.kept = kept
	own.patience = patience
	defer func() { err = errors.Join(err, own.end()) }()
	for i := range s.Rounds {
		round := r.api.round(s.Rounds[i])
		decisions, err := own.step(ctx, round)
		if err != nil {
			return nil, fmt.Errorf("round %d: %w", i, err)
		}
		if err := r.round(ctx, i, round, decisions); err != nil {
			return nil, fmt.Errorf("round %d: %w", i, err)
		}
		if len(r.result.Differences) > 0 {
			break
		}
	}
	r.result.Log = own.all
	r.result.Pinned, err = own.pinned()
	return &r.result, err
}

// newReplay starts with an empty cluster and a configuration file's text, if there is one.
func newReplay(ctx context.Context, config []byte, gates *PodGroups) (*replay, error) {
	c, err := upstreamConfig(config)
	if err != nil {
		return nil, err
	}
	r := &replay{api: newAPIServer(), arrived: arrivals{}, every: 1, whole: gates != nil && gates.Preemption}
	if r.upstream, err = oracle.New(ctx, c); err != nil {
		return nil, err
	}
	if r.own, err = newMirror(ctx, config, gates); err != nil {
		return nil, err
	}
	return r, nil
}

// replay is the cluster as upstream and our own scorer have it.
type replay struct {
	api      *apiServer
	upstream *oracle.Oracle
	own      *mirror
	arrived  arrivals
	// every is after how many decisions one is compared node by node.
	every int
	// whole says that pod groups preempt as a whole.
	whole bool
	// held is for whom room is held, and holds what ours tells of that; nil: it holds none.
	held   reservation
	holds  *holds
	result Result
	// kept keeps our scheduler's claims of devices; nil: they are not known, or it has none.
	kept *keeper
}

// round lets a round happen, and holds the decisions that were made after it.
func (r *replay) round(ctx context.Context, i int, round Round, decisions []Decision) error {
	for j, e := range round {
		if err := r.apply(e); err != nil {
			return err
		}
		if pod, ok := e.Object.(*v1.Pod); ok && e.Type == Set {
			r.arrived.note(pod, i, j)
		}
	}
	r.review(ctx, i)
	r.result.Differences = append(r.result.Differences, r.order(ctx, i, decisions)...)
	for len(decisions) > 0 && len(r.result.Differences) == 0 {
		n, d, err := 1, decisions[0], error(nil)
		if d.PodGroup == "" {
			err = r.hold(ctx, i, d)
		} else {
			n = len(attemptOf(decisions))
			err = r.holdGroup(ctx, i, decisions[:n])
		}
		if err != nil {
			return fmt.Errorf("decision %d: %w", d.Seq, err)
		}
		decisions = decisions[n:]
	}
	if left := r.holds.left(); left != "" && len(r.result.Differences) == 0 {
		r.result.Differences = append(r.result.Differences, &Difference{Round: i, What: "room that is held", Got: left, Want: "nothing more"})
	}
	return nil
}

// apply lets an event happen.
func (r *replay) apply(e Event) error {
	if e.Type == Removed {
		return errors.Join(r.upstream.Remove(e.Object), r.own.apply(e))
	}
	err := errors.Join(r.upstream.Set(e.Object), r.own.apply(e))
	if pod, ok := e.Object.(*v1.Pod); ok && pod.DeletionTimestamp != nil {
		r.upstream.Withdraw(pod.UID) // we keep no room for it, and upstream does
	}
	return err
}

// hold holds a decision against upstream, and then follows it.
func (r *replay) hold(ctx context.Context, round int, d Decision) error {
	pod := r.upstream.Pending(types.UID(d.UID))
	if pod == nil {
		return fmt.Errorf("pod %s is not pending", d.Pod)
	}
	v, p, err := r.judge(ctx, round, pod, d)
	if err != nil {
		return err
	}
	for _, e := range r.api.freed(p) {
		if err := r.apply(e); err != nil {
			return err
		}
	}
	switch {
	case d.Node != "" && v.Feasible[d.Node] != nil:
		return r.follow(ctx, v, pod, round, d)
	case d.Node == "" && d.Nominated != "" && len(r.result.Differences) == 0:
		return r.preempts(pod, d)
	case d.Node == "" && p.Clears:
		r.upstream.Nominate(pod.UID, "")
		r.api.nominate(pod, "")
	case d.Node == "" && !v.Unfit():
		r.upstream.Withdraw(pod.UID)
		r.api.nominate(pod, "")
	}
	return nil
}

// exhausted is in the message of a decision that ends at the bound of a search for devices.
var exhausted = fmt.Sprintf("timed out trying to allocate devices: more than %d steps", devices.DefaultBudget)

// judge holds a decision against upstream.
func (r *replay) judge(ctx context.Context, round int, pod *v1.Pod, d Decision) (*oracle.Verdict, *oracle.Preemption, error) {
	v, err := r.upstream.Judge(ctx, pod)
	if err != nil {
		return nil, nil, err
	}
	p, err := r.upstream.Preempt(ctx, v)
	if err != nil {
		return nil, nil, err
	}
	r.result.Decisions++
	if strings.Contains(d.Message, exhausted) {
		r.result.Exhausted++
		return v, p, nil
	}
	c := comparison{round: round, decision: d, verdict: v, preemption: p}
	if v.Err == nil && v.Feasible[d.Node] != nil {
		if c.allocated, err = r.upstream.Allocations(ctx, v, d.Node); err != nil {
			return nil, nil, err
		}
	}
	c.decided()
	if d.inFlight != nil {
		c.given(d.inFlight)
	}
	// What is explained does not heed nominations.
	if r.result.Decisions%r.every == 0 && pod.Status.NominatedNodeName == "" && !r.upstream.KeepsRoom(pod.UID) {
		n, err := r.own.compare(ctx, pod, &c)
		if err != nil {
			return nil, nil, err
		}
		r.result.NodeVerdicts += n
	}
	r.result.Differences = append(r.result.Differences, c.found...)
	r.result.Claims += len(c.allocated)
	if d.Node == "" {
		r.result.Refusals++
		if !v.Unfit() {
			r.result.Errors++
		}
		if d.Nominated != "" {
			r.result.Preemptions++
			r.result.Candidates += len(p.Candidates)
		}
	}
	return v, p, nil
}

// follow puts a pod where it was decided to be.
func (r *replay) follow(ctx context.Context, v *oracle.Verdict, pod *v1.Pod, round int, d Decision) error {
	written, err := r.upstream.Place(ctx, v, d.Node)
	if err != nil {
		return err
	}
	if r.kept != nil {
		c := comparison{round: round, decision: d, verdict: v}
		var claims []*resourcev1.ResourceClaim
		for _, obj := range written {
			if claim, ok := obj.(*resourcev1.ResourceClaim); ok {
				claims = append(claims, claim)
			}
		}
		c.written(claims)
		r.result.Differences = append(r.result.Differences, c.found...)
	}
	if err := r.own.apply(set(r.upstream.Placed(pod.UID))); err != nil {
		return err
	}
	for _, e := range r.api.place(pod, d.Node, written) {
		if err := r.apply(e); err != nil {
			return err
		}
	}
	return nil
}
