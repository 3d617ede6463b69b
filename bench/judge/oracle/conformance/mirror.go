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
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"

	"github.com/shardsched/shardsched/bench/judge/oracle"
	"github.com/shardsched/shardsched/coordinator"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

const (
	// mirrorShards is how many tables a mirror has: more than one, so that none is special.
	mirrorShards = 3
	// nowhere is a node that there never is.
	nowhere = "no-such-node"
)

// mirror is a scheduler of ours that has no pods to schedule, to ask for every node's verdict
// on one: what it explains. The pod is on a node that there isn't while it is asked for.
type mirror struct {
	scheduler *coordinator.Scheduler
	stop      context.CancelFunc
	ended     chan error
	// flying are the claims of devices in flight.
	flying map[types.UID]*resourcev1.ResourceClaim
	// blurred says that the mirror does not know any more which devices are in use.
	blurred bool
}

func newMirror(ctx context.Context, file []byte, gates *PodGroups) (*mirror, error) {
	c, err := ourConfig(file, gates)
	if err != nil {
		return nil, err
	}
	profiles, err := c.Profiles()
	if err != nil {
		return nil, err
	}
	m := &mirror{ended: make(chan error, 1), flying: map[types.UID]*resourcev1.ResourceClaim{}}
	if m.scheduler, err = coordinator.NewScheduler(coordinator.SchedulerConfig{
		Cluster: "mirror", Term: 1, Shards: mirrorShards, Profiles: profiles,
	}); err != nil {
		return nil, err
	}
	ctx, m.stop = context.WithCancel(ctx)
	go func() { m.ended <- m.scheduler.Run(ctx) }()
	return m, nil
}

func (m *mirror) end() error {
	m.stop()
	if err := <-m.ended; err != nil && !errors.Is(err, context.Canceled) {
		return fmt.Errorf("mirror: %w", err)
	}
	return nil
}

// apply lets an event happen. Pods that wait are left out.
func (m *mirror) apply(e Event) error {
	if pod, ok := e.Object.(*v1.Pod); ok && e.Type == Set && pod.Spec.NodeName == "" {
		e.Type = Removed
	}
	events, err := storeEvents(Round{e})
	if err != nil {
		return err
	}
	m.scheduler.Deliver(events)
	return nil
}

// explain asks for all that there is to say of a pod.
func (m *mirror) explain(ctx context.Context, pod *v1.Pod) (*pb.ExplainResponse, error) {
	asked := pod.DeepCopy()
	asked.Spec.NodeName = nowhere
	if err := m.apply(set(asked)); err != nil {
		return nil, err
	}
	out, err := m.scheduler.Explain(ctx, &pb.ExplainRequest{Namespace: pod.Namespace, Name: pod.Name, Top: 1 << 20})
	return out, errors.Join(err, m.apply(Event{Type: Removed, Object: asked}))
}

// compare compares every node's verdict and returns how many there were.
func (m *mirror) compare(ctx context.Context, pod *v1.Pod, c *comparison) (int, error) {
	if m.blurred || m.awaits(pod) {
		return 0, nil // of flights the mirror knows the devices only
	}
	out, err := m.explain(ctx, pod)
	if err != nil {
		return 0, err
	}
	n := len(out.Top) + len(out.Closest)
	if n == 0 && len(c.verdict.Feasible)+len(c.verdict.Refused) > 0 {
		differs(c, "", "refused as such", out.Note, fmt.Sprint(c.verdict.Err))
		return 0, nil
	}
	for _, node := range out.Top {
		c.feasible(node)
	}
	for _, node := range out.Closest {
		if c.verdict.Fatal[node.Node] == "" {
			c.refused(node)
		} else { // the decision's message tells which error
			differs(c, node.Node, "ends the cycle", node.Plugin, names.DynamicResources)
		}
	}
	if len(c.verdict.Fatal) == 0 {
		c.reasons(out.Reasons)
	}
	return n, nil
}

// feasible compares a node that is feasible for us.
func (c *comparison) feasible(node *pb.ScoredNode) {
	want := c.verdict.Feasible[node.Node]
	if want == nil {
		differs(c, node.Node, "reasons", "feasible", c.refusal(node.Node))
		return
	}
	if c.verdict.ScoreErr != nil || len(c.verdict.Fatal) > 0 {
		return
	}
	told := map[string]bool{}
	for _, p := range node.Plugins {
		told[p.Plugin] = true
		c.score(node.Node, oracle.PluginScore{Plugin: p.Plugin, Raw: p.Raw, Normalised: p.Normalised, Weighted: p.Normalised * p.Weight},
			want.Plugin(p.Plugin))
	}
	for _, p := range want.Plugins {
		if !told[p.Plugin] {
			c.score(node.Node, oracle.PluginScore{Plugin: p.Plugin}, p)
		}
	}
	differs(c, node.Node, "total", node.Score, want.Total)
}

func (c *comparison) score(node string, got, want oracle.PluginScore) {
	differs(c, node, want.Plugin+" raw", got.Raw, want.Raw)
	differs(c, node, want.Plugin+" normalised", got.Normalised, want.Normalised)
	differs(c, node, want.Plugin+" weighted", got.Weighted, want.Weighted)
}

// refused compares a node that is not. Upstream names no plugin for one that PreFilter has
// left out.
func (c *comparison) refused(node *pb.RefusedNode) {
	plugin := node.Plugin
	if r, judged := c.verdict.Refused[node.Node]; judged && r.Plugin == "" {
		plugin = ""
	}
	differs(c, node.Node, "reasons", together(plugin, node.Reasons), c.refusal(node.Node))
}

// refusal is why upstream refuses a node.
func (c *comparison) refusal(node string) string {
	if c.verdict.Feasible[node] != nil {
		return "feasible"
	}
	r, judged := c.verdict.Refused[node]
	if !judged {
		return "unknown"
	}
	return together(r.Plugin, r.Reasons)
}

// reasons compares for how many nodes each reason is given, and whether preemption may help
// there.
func (c *comparison) reasons(list []*pb.ReasonCount) {
	got, want := map[string]int{}, map[string]int{}
	for _, r := range list {
		got[fmt.Sprintf("%s, for good: %t", r.Reason, r.Unresolvable)] += int(r.Nodes)
	}
	for _, r := range c.verdict.Refused {
		for _, text := range r.Reasons {
			want[fmt.Sprintf("%s, for good: %t", text, r.Unresolvable)]++
		}
	}
	for _, text := range slices.Sorted(maps.Keys(want)) {
		differs(c, "", text, got[text], want[text])
		delete(got, text)
	}
	for _, text := range slices.Sorted(maps.Keys(got)) {
		differs(c, "", text, got[text], 0)
	}
}

// together sorts reasons: upstream goes through a pod's scalar resources in the order of a
// map, so theirs is any.
func together(plugin string, reasons []string) string {
	return plugin + ": " + strings.Join(slices.Sorted(slices.Values(reasons)), ", ")
}
