package plugins

import (
	"context"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/shardsched/shardsched/bench/cluster/controlplane/testbed"
	"github.com/shardsched/shardsched/bench/cluster/plugins/scripted"
	"github.com/shardsched/shardsched/internal/testkit/build"
)

// jsonConfig is the administrator's, for what is not known as protobuf.
func jsonConfig(c *testbed.Cluster) *rest.Config {
	config := rest.CopyConfig(c.AdminREST)
	config.ContentType, config.AcceptContentTypes = "", ""
	return config
}

func TestPluginsAreCalledAsByKubeScheduler(t *testing.T) {
	p := newPair(t)
	for _, st := range []story{
		everyPoint(), narrowing(), skipping(), failures(failing[:7]), failures(failing[7:]), afterFilters(), permits(), deletions(), preBinds(), binds(),
		gates(), order(), p.requeueing(), waitingVictim(), victims(),
		gangThatFits(), gangThatDoesNot(), quotas(), loads(), p.loadsLater(),
	} {
		p.tell(t, st)
	}
}

func everyPoint() story {
	return story{
		name: "a pod goes through every point, plugin by plugin",
		happens: func(s *side) {
			s.pod("every", "B.Score.n2", "100", "B.Score.n3", "40")
			s.bound("every")
		},
		wants: prefixed("every: call: ",
			"PreEnqueue A -: Success", "PreEnqueue B -: Success",
			"PreFilter A - 3 nodes: Success", "PreFilter B - 3 nodes: Success",
			"Filter A n1 adds 0: Success", "Filter B n1 adds 0: Success", "Filter A n2", "Filter B n2", "Filter A n3", "Filter B n3",
			"PreScore A - 3 nodes: Success", "PreScore B - 3 nodes: Success",
			"Score A n1", "Score B n1", "Score A n2", "Score B n2: 100", "Score A n3", "Score B n3",
			"NormalizeScore A - n1=100 n2=0 n3=0: Success",
			"Reserve A n1", "Reserve B n1", "Permit A n1", "Permit B n1", "PreBindPreFlight A n1", "PreBindPreFlight B n1",
			"PreBind A n1", "PreBind B n1", "Bind A n1: Skip", "Bind B n1: Skip", "PostBind A n1", "PostBind B n1",
		),
	}
}

func prefixed(prefix string, lines ...string) []string {
	for i := range lines {
		lines[i] = prefix + lines[i]
	}
	return lines
}

func narrowing() story {
	return story{
		name: "PreFilter leaves some nodes",
		happens: func(s *side) {
			s.pod("narrow-one", "A.PreFilterResult", "n2 n3", "B.PreFilterResult", "n1 n2")
			s.pod("narrow-two", "A.PreFilterResult", "n2 n3", "A.Score.n3", "100")
			s.pod("narrow-none", "A.PreFilterResult", "n1", "B.PreFilterResult", "n2")
			s.pod("narrow-empty", "A.PreFilterResult", "")
			s.pod("narrow-unknown", "A.PreFilterResult", "nowhere")
			s.pod("narrow-refused", "A.PreFilterResult", "n1 n2", "B.Filter.n1", "Unschedulable not here", "B.Filter.n2", "UnschedulableAndUnresolvable nor here")
			s.bound("narrow-one", "narrow-two")
			s.refused("narrow-none", "narrow-empty", "narrow-unknown", "narrow-refused")
		},
		wants: []string{`narrow-one: pod: node "n2"`},
	}
}

func skipping() story {
	return story{
		name: "plugins that skip are not asked further",
		happens: func(s *side) {
			s.pod("skip-filter", "A.PreFilter", "Skip")
			s.pod("skip-filters", "A.PreFilter", "Skip", "B.PreFilter", "Skip")
			s.pod("skip-score", "A.PreScore", "Skip", "B.Score.n3", "90", "B.Score.n1", "0")
			s.pod("skip-scores", "A.PreScore", "Skip", "B.PreScore", "Skip", "A.PreFilterResult", "n2 n3", "A.Filter.n3", "Unschedulable no")
			s.pod("skip-flight", "A.PreBindPreFlight", "Skip")
			s.pod("skip-flights", "A.PreBindPreFlight", "Skip", "B.PreBindPreFlight", "Skip")
			s.bound("skip-filter", "skip-filters", "skip-score", "skip-scores", "skip-flight", "skip-flights")
		},
		wants: []string{`skip-score: pod: node "n3"`},
	}
}

// failing are the points at which plugins fail.
var failing = []string{
	"PreFilter", "Filter", "PreScore", "Score", "NormalizeScore", "Reserve", "Permit",
	"PreBindPreFlight", "PreBind", "Bind",
}

func failures(points []string) story {
	codes := []string{"Error", "Unschedulable", "UnschedulableAndUnresolvable", "Pending"}
	name := func(point, plugin, code string) string {
		return strings.ToLower(fmt.Sprintf("fail-%s-%s-%s", point, plugin, code))
	}
	each := func(do func(name, plugin, point, code string)) {
		for _, point := range points {
			for _, plugin := range []string{"A", "B"} {
				for i, code := range codes {
					if plugin == "B" && i > 1 {
						continue
					}
					do(name(point, plugin, code), plugin, point, code)
				}
			}
		}
	}
	st := story{
		name: "plugins fail once at " + strings.Join(points, ", "),
		happens: func(s *side) {
			var names []string
			each(func(name, plugin, point, code string) {
				say := "once " + code + " no " + point + " by " + plugin
				switch point {
				case "Filter":
					s.pod(name, plugin+"."+point, say, plugin+".PreFilterResult", "n1")
				case "Score":
					s.pod(name, plugin+".Score.n1", say)
				default:
					s.pod(name, plugin+"."+point, say)
				}
				names = append(names, name)
			})
			s.refused(names...)
			s.wake("n1", points[0])
			s.bound(names...)
		},
		// An error ends what goes on at the same time, or not.
		without: []string{"Score", "NormalizeScore"},
	}
	if points[0] != failing[0] {
		st.without = afterExpectation
	}
	if points[0] == failing[0] {
		st.wants = append(append(prefixed("fail-reserve-b-error: call: ",
			"Reserve A n1: Success", "Reserve B n1: Error no Reserve by B", "Unreserve B n1", "Unreserve A n1", "PreFilter A", "PostBind B n1"),
			`fail-reserve-b-error: event: Warning FailedScheduling Scheduling by SIDE: running Reserve plugin "B": no Reserve by B`),
			append(prefixed("fail-permit-a-unschedulable: call: ",
				"Permit A n1: Unschedulable no Permit by A", "Unreserve B n1", "Unreserve A n1", "Hint A - node n1", "PostBind B n1"),
				`fail-permit-a-unschedulable: event: Warning FailedScheduling Scheduling by SIDE: 0/1 nodes are available: 1 no Permit by A`)...)
	}
	return st
}

// afterExpectation are the points that differ where a pod comes back after PreBind: upstream leaves
// the nomination that it has written before (its copy of the pod is older), and looks at that node
// alone. Its own writes may have it take the pod up once more.
var afterExpectation = []string{"PreEnqueue", "Filter", "PreScore", "Score", "NormalizeScore"}

// wake changes a node's label, which the plugins have registered for.
func (s *side) wake(node, value string) {
	s.T.Helper()
	text := fmt.Sprintf(`{"metadata": {"labels": {"%swake.%s": %q}}}`, scripted.Prefix, s.name, value)
	_, err := s.Admin.CoreV1().Nodes().Patch(s.Context(), node, types.MergePatchType, []byte(text), metav1.PatchOptions{})
	s.must(err)
}

func afterFilters() story {
	return story{
		name: "PostFilter is asked where no node is left",
		happens: func(s *side) {
			no := []string{"A.Filter.n1", "Unschedulable not here", "A.Filter.n2", "UnschedulableAndUnresolvable never here", "B.Filter.n3", "Unschedulable one|two"}
			s.pod("after-nothing", no...)
			s.pod("after-nominates", append(no, "A.PostFilter", "Nominate n1")...)
			s.pod("after-never", append(no, "A.PostFilter", "UnschedulableAndUnresolvable no use|at all")...)
			s.pod("after-error", append(no, "A.PostFilter", "Error broken")...)
			s.pod("after-text", append(no, "A.PostFilter", "Unschedulable no use", "B.PostFilter", "Unschedulable none either")...)
			s.pod("after-prefilter", "A.PreFilter", "Unschedulable at once", "B.PostFilter", "Unschedulable none either")
			s.pod("after-resolvable", "A.Filter", "UnschedulableAndUnresolvable never", "B.PostFilter", "Nominate n2")
			s.refused("after-nothing", "after-nominates", "after-never", "after-error", "after-text", "after-prefilter", "after-resolvable")
		},
	}
}

func permits() story {
	return story{
		name: "pods wait on Permit",
		happens: func(s *side) {
			s.pod("permit-allowed", "A.Permit", "Wait 60s")
			s.pod("permit-both", "A.Permit", "Wait 60s", "B.Permit", "Wait 60s")
			s.pod("permit-rejected", "A.Permit", "once Wait 60s", "B.Permit", "once Wait 60s")
			s.pod("permit-timeout", "A.Permit", "once Wait 60s", "B.Permit", "once Wait 200ms")
			s.pod("permit-no", "A.Permit", "once Wait 60s", "B.Permit", "once Unschedulable not you")
			for _, name := range []string{"permit-allowed", "permit-both", "permit-rejected"} {
				s.saw(name, "PreBindPreFlight B")
			}
			s.patch("permit-allowed", "permit", "A allow")
			s.patch("permit-both", "permit", "A allow")
			s.patch("permit-both", "permit", "B allow")
			s.patch("permit-rejected", "permit", "B reject not today")
			s.refused("permit-rejected", "permit-timeout", "permit-no")
			s.wake("n1", "permits")
			s.bound("permit-allowed", "permit-both", "permit-rejected", "permit-timeout", "permit-no")
		},
		later: afterExpectation,
		wants: []string{
			"permit-rejected: event: Warning FailedScheduling Scheduling by SIDE: 0/1 nodes are available: 1 not today",
			"permit-timeout: event: Warning FailedScheduling Scheduling by SIDE: 0/1 nodes are available: 1 rejected due to timeout after waiting 200ms at plugin B",
		},
	}
}

func deletions() story {
	return story{
		name: "pods are deleted on their way",
		happens: func(s *side) {
			s.pod("gone-permit", "A.Permit", "Wait 60s", "B.Permit", "Wait 60s")
			s.pod("gone-prebind", "A.PreBind", "Hold")
			s.pod("gone-bind", "A.Bind", "Hold")
			s.saw("gone-permit", "PreBindPreFlight B")
			s.saw("gone-prebind", "PreBind A")
			s.saw("gone-bind", "Bind A")
			for _, name := range []string{"gone-permit", "gone-prebind", "gone-bind"} {
				s.delete(name)
				s.saw(name, "Unreserve A")
			}
			s.pod("gone-filter", "A.PreFilter", "Hold")
			s.saw("gone-filter", "PreFilter A")
			s.delete("gone-filter")
			s.saw("gone-filter", "Unreserve A")
		},
	}
}

func preBinds() story {
	return story{
		name: "PreBind plugins run side by side where all of a group may",
		happens: func(s *side) {
			s.pod("prebind-parallel", "A.PreBind", "Parallel", "B.PreBind", "Parallel")
			s.pod("prebind-fails", "A.PreBind", "Parallel", "B.PreBind", "once Error broken")
			s.bound("prebind-parallel", "prebind-fails")
		},
		without: append([]string{"PreBind"}, afterExpectation...),
	}
}

func binds() story {
	return story{
		name: "Bind falls through to the first that does not skip",
		happens: func(s *side) {
			s.pod("bind-first", "A.Bind", "Bind")
			s.pod("bind-second", "B.Bind", "Bind")
			s.pod("bind-error", "B.Bind", "once Error broken")
			s.bound("bind-first", "bind-second", "bind-error")
		},
		without: afterExpectation,
		wants:   append(prefixed("bind-first: call: ", "Bind A n1: Bind", "PostBind A n1"), prefixed("bind-second: call: ", "Bind A n1: Skip", "Bind B n1: Bind", "PostBind A n1")...),
	}
}

func gates() story {
	return story{
		name: "PreEnqueue keeps pods out of the queue until an event",
		happens: func(s *side) {
			s.pod("gated-first", "A.PreEnqueue", "once Unschedulable not yet")
			s.pod("gated-second", "B.PreEnqueue", "once UnschedulableAndUnresolvable not yet")
			s.pod("gated-error", "B.PreEnqueue", "once Error broken")
			s.saw("gated-first", "PreEnqueue A")
			s.saw("gated-second", "PreEnqueue B")
			s.saw("gated-error", "PreEnqueue B")
			for _, name := range []string{"gated-first", "gated-second", "gated-error"} {
				s.label(name, "go")
			}
			s.bound("gated-first", "gated-second", "gated-error")
		},
		// Upstream asks in the order of a map, until one refuses.
		without: []string{"PreEnqueue"},
	}
}

func order() story {
	return story{
		name: "QueueSort says who is next",
		happens: func(s *side) {
			s.pod("order-blocker", "A.PreFilter", "Hold")
			s.saw("order-blocker", "PreFilter A")
			s.create(says(build.Pod("order-3"), "order", "3"), "")
			s.create(says(build.Pod("order-1"), "order", "1"), "")
			s.create(says(build.Pod("order-2"), "order", "2"), "")
			s.create(says(build.Pod("order-high").Priority(5), "order", "9"), "")
			s.patch("order-blocker", "go", "PreFilter")
			s.bound("order-blocker", "order-high", "order-1", "order-2", "order-3")
			s.inOrder("PreFilter A", "order-blocker", "order-high", "order-1", "order-2", "order-3")
		},
	}
}

// inOrder checks in which order pods were first at a point.
func (s *side) inOrder(call string, pods ...string) {
	s.T.Helper()
	var got []string
	for _, line := range s.run.Tail(1 << 30) {
		for _, p := range pods {
			if strings.HasPrefix(line, "script "+s.key(p)+" "+call) {
				got = append(got, p)
			}
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(pods) {
		s.T.Errorf("%s: got %v, want %v", call, got, pods)
	}
}

func (p *pair) requeueing() story {
	return story{
		name: "pods come back for what their plugin has registered",
		happens: func(s *side) {
			s.pod("again-widget", "A.Filter", "once Unschedulable no widget", "widget", "first-"+s.name, "A.PreFilterResult", "n1")
			s.pod("again-skip", "B.PreFilter", "once Unschedulable no widget", "B.Hint", "once QueueSkip", "widget", "first-"+s.name)
			s.pod("again-label", "A.Reserve", "once Unschedulable no label")
			s.pod("again-pending", "A.Reserve", "once Pending no label", "widget", "second-"+s.name)
			s.refused("again-widget", "again-skip", "again-label", "again-pending")
			s.widget(p.dynamic, "first-"+s.name)
			s.bound("again-widget")
			s.saw("again-skip", "Hint B")
			s.label("again-label", "set")
			s.bound("again-label")
			s.widget(p.dynamic, "second-"+s.name)
			s.bound("again-pending")
			s.label("again-skip", "set")
			s.bound("again-skip")
		},
		wants: append(prefixed("again-widget: call: ", "Hint A - widget first-SIDE: Success", "PreFilter A"),
			prefixed("again-skip: call: ", "Hint B - widget first-SIDE: QueueSkip", "Hint B - pod again-skip: Success", "PreFilter A")...),
	}
}

// slot is a resource of one node of the side alone.
func (s *side) slot() string { return "script.shardsched.io/slot-" + s.name }

// knows waits until the scheduler knows the story's nodes: a pod waits for a label that each gets.
func (s *side) knows(node string) {
	s.T.Helper()
	for _, of := range []string{theirs, ours} {
		probe := "probe-" + node + "-for-" + of
		s.pod(probe, "A.PreFilter", "once Unschedulable no node yet")
		s.refused(probe)
		s.wake(node+"-"+of, "made")
		s.bound(probe)
		s.delete(probe)
	}
	s.pods = nil
}

// removeNode deletes a node.
func (p *pair) removeNode(name string) {
	ctx, cancel := context.WithTimeout(context.Background(), testbed.Patience)
	defer cancel()
	if err := p.Admin.CoreV1().Nodes().Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
		p.T.Error(err)
	}
}

func waitingVictim() story {
	return story{
		name: "a pod that waits on Permit gives way to one of higher priority",
		node: "waits", slots: "1",
		nominees: true, retries: true,
		wants: []string{
			"waits-low: event: Normal Preempted Preempting by SIDE: Preempted by pod UID on node waits-SIDE (in kube-scheduler memory).",
			"waits-high: call: RemovePod A waits-SIDE waits-low: Success", "waits-high: call: Filter B waits-SIDE adds -1: Success",
		},
		happens: func(s *side) {
			s.create(says(build.Pod("waits-low").Priority(1).Request(s.slot(), "1"), "A.Permit", "Wait 60s"), "")
			s.saw("waits-low", "PreBindPreFlight B")
			s.create(build.Pod("waits-high").Priority(5).Request(s.slot(), "1"), "")
			s.saw("waits-low", "Unreserve A")
			s.refused("waits-low")
			// Upstream may have missed that the room is free, while the preemptor was gated: it
			// needs another pod that goes.
			for i := 0; !testbed.IsBound(s.Pods.Get(s.key("waits-high"))); i++ {
				passing := build.Pod(fmt.Sprintf("passing-%d", i)).Namespace(s.name).Node("waits-" + s.name).Priority(10).Obj()
				s.Create(passing)
				s.delete(passing.Name)
			}
			s.bound("waits-high")
		},
	}
}

func victims() story {
	return story{
		name: "plugins are asked about victims",
		node: "victims", slots: "1",
		nominees: true, retries: true,
		wants: []string{
			"victims-high: call: RemovePod A victims-SIDE victims-low: Success", "victims-high: call: Filter B victims-SIDE adds -1: Success",
			"victims-high: call: AddPod A victims-SIDE victims-low: Success",
		},
		happens: func(s *side) {
			p := build.Pod("victims-low").Priority(1).Request(s.slot(), "1")
			p.Obj().Spec.TerminationGracePeriodSeconds = new(int64)
			s.create(p, "")
			s.bound("victims-low")
			s.create(build.Pod("victims-high").Priority(5).Request(s.slot(), "1"), "")
			s.bound("victims-high")
		},
	}
}
