package conformance

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/shardsched/shardsched/bench/judge/oracle"
)

// Reach counts what scenarios come to: the reasons that nodes are refused for, the plugins
// that tell nodes apart, the messages. It says whether a generator makes cases of a rule.
type Reach struct {
	Decisions, Placed int
	// Pods counts those that were tried once or more.
	Pods int
	// Refusals counts nodes by plugin and reason, Scores feasible nodes by the plugin that
	// scores them otherwise than another of the pod's.
	Refusals, Scores map[string]int
	// Errors counts pods by what PreFilter, or an error, has refused them all for.
	Errors map[string]int
	// Preemptions counts pods that preempt others, Choices those that have several candidates
	// which rank differently, Violations those whose best candidate violates a budget. Kept counts
	// pods that preempt nobody, by PostFilter's message.
	Preemptions, Choices, Violations int
	Kept                             map[string]int
	// Devices counts devices that pods were given, by what is special about them.
	Devices map[string]int
}

// NewReach makes one that has counted nothing.
func NewReach() *Reach {
	return &Reach{
		Refusals: map[string]int{}, Scores: map[string]int{}, Errors: map[string]int{}, Kept: map[string]int{}, Devices: map[string]int{},
	}
}

// Add lets upstream decide a scenario, and counts.
func (r *Reach) Add(ctx context.Context, s *Scenario) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	file, err := s.Config.file()
	if err != nil {
		return err
	}
	c, err := upstreamConfig(file)
	if err != nil {
		return err
	}
	up, err := oracle.New(ctx, c)
	if err != nil {
		return err
	}
	api := newAPIServer()
	tried := map[types.UID]bool{}
	defer func() { r.Pods += len(tried) }()
	var waiting []types.UID
	for i := range s.Rounds {
		for _, e := range api.round(s.Rounds[i]) {
			if e.Type == Removed {
				err = errors.Join(err, up.Remove(e.Object))
				continue
			}
			err = errors.Join(err, up.Set(e.Object))
			if pod, ok := e.Object.(*v1.Pod); ok && !slices.Contains(waiting, pod.UID) {
				waiting = append(waiting, pod.UID)
			}
		}
		if err != nil {
			return fmt.Errorf("round %d: %w", i, err)
		}
		for _, uid := range waiting {
			before := r.Decisions
			if err := r.decide(ctx, up, api, up.Pending(uid)); err != nil {
				return fmt.Errorf("round %d: pod %s: %w", i, uid, err)
			}
			if r.Decisions > before {
				tried[uid] = true
			}
		}
	}
	return nil
}

// decide lets upstream decide a pod; of several best nodes it takes the first by name.
func (r *Reach) decide(ctx context.Context, up *oracle.Oracle, api *apiServer, pod *v1.Pod) error {
	if pod == nil || pod.DeletionTimestamp != nil || !up.Responsible(pod) || up.Gated(ctx, pod) != "" {
		return nil
	}
	v, err := up.Judge(ctx, pod)
	if err != nil {
		return err
	}
	r.count(v)
	best, scored := v.Best()
	if v.Err != nil || !scored {
		if !v.Unfit() {
			up.Withdraw(pod.UID)
			api.nominate(pod, "")
			return nil
		}
		return r.preempt(ctx, up, api, v, pod)
	}
	r.Placed++
	for _, node := range slices.Sorted(maps.Keys(v.Feasible)) {
		if v.Feasible[node].Total == best {
			claims, err := up.Allocations(ctx, v, node)
			if err != nil {
				return err
			}
			r.devices(claims)
			written, err := up.Place(ctx, v, node)
			for _, e := range api.place(pod, node, written) {
				err = errors.Join(err, up.Set(e.Object))
			}
			return err
		}
	}
	return nil
}

// preempt lets upstream preempt for a pod, the best candidate at once.
func (r *Reach) preempt(ctx context.Context, up *oracle.Oracle, api *apiServer, v *oracle.Verdict, pod *v1.Pod) error {
	p, err := up.Preempt(ctx, v)
	if err != nil {
		return err
	}
	for _, e := range api.freed(p) {
		if e.Type == Removed {
			err = errors.Join(err, up.Remove(e.Object))
		} else {
			err = errors.Join(err, up.Set(e.Object))
		}
	}
	if err != nil {
		return err
	}
	best := p.Best()
	if best == nil {
		r.Kept[p.Message]++
		if p.Clears {
			up.Nominate(pod.UID, "")
			api.nominate(pod, "")
		}
		return nil
	}
	r.Preemptions++
	if best.Violations > 0 {
		r.Violations++
	}
	for _, node := range p.Nodes() {
		if p.Candidates[node].Rank() != best.Rank() {
			r.Choices++
			break
		}
	}
	for _, name := range best.Victims {
		for _, e := range api.remove(api.podNamed(name)) {
			err = errors.Join(err, up.Remove(e.Object))
		}
	}
	for _, lower := range up.ClearLower(pod.UID, best.Node) {
		api.nominate(lower, "")
	}
	up.Nominate(pod.UID, best.Node)
	api.nominate(pod, best.Node)
	return err
}

func (r *Reach) count(v *oracle.Verdict) {
	r.Decisions++
	for _, refused := range v.Refused {
		for _, reason := range refused.Reasons {
			r.Refusals[refused.Plugin+": "+reason]++
		}
	}
	if v.Err != nil && (len(v.Refused) == 0 || len(v.Fatal) > 0) {
		r.Errors[v.Err.Error()]++
	}
	for _, s := range v.Feasible {
		for i, p := range s.Plugins {
			for _, other := range v.Feasible {
				if other.Plugins[i].Normalised != p.Normalised {
					r.Scores[p.Plugin]++
					break
				}
			}
		}
	}
}

// devices counts what is special about the devices of claims.
func (r *Reach) devices(claims []*resourcev1.ResourceClaim) {
	if len(claims) > 1 {
		r.Devices["of several claims"]++
	}
	for _, c := range claims {
		a := c.Status.Allocation
		special := map[string]bool{
			"of an extended resource": c.Name == oracle.SpecialClaim, "with configuration": len(a.Devices.Config) > 0,
			"with a constraint": len(c.Spec.Devices.Constraints) > 0, "for every node": a.NodeSelector == nil,
			"by a label": a.NodeSelector != nil && len(a.NodeSelector.NodeSelectorTerms[0].MatchExpressions) > 0,
		}
		for _, x := range c.Spec.Devices.Requests {
			special["all"] = special["all"] || x.Exactly != nil && x.Exactly.AllocationMode == resourcev1.DeviceAllocationModeAll
		}
		for _, d := range a.Devices.Results {
			special["alternative"] = special["alternative"] || strings.Contains(d.Request, "/")
			later := strings.Contains(d.Request, "/") && !strings.HasSuffix(d.Request, "s0")
			special["a later alternative"] = special["a later alternative"] || later
			special["for an admin"] = special["for an admin"] || d.AdminAccess != nil
			special["shared"] = special["shared"] || d.ShareID != nil
			special["with conditions"] = special["with conditions"] || len(d.BindingConditions) > 0
			special["tolerated"] = special["tolerated"] || len(d.Tolerations) > 0
		}
		r.Devices["any"]++
		for what, is := range special {
			if is {
				r.Devices[what]++
			}
		}
	}
}
