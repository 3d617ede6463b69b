package coordinator

import (
	"fmt"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/shardsched/shardsched/coordinator/compile"
	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/coordinator/rules"
	"github.com/shardsched/shardsched/internal/testkit/build"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// pendingNow takes all steps of a list of pending pods.
func (x *trial) pendingNow(t *testing.T, namespace string) *pb.ListPendingResponse {
	t.Helper()
	list, err := x.pending(&pb.ListPendingRequest{Namespace: namespace})
	if err != nil {
		t.Fatal(err)
	}
	for !list.Read().Step() {
	}
	list.Read().End()
	return list.Answer()
}

// Pods that lack the same of other numbers of nodes are told alike.
func TestResourcesAreToldInOneOrder(t *testing.T) {
	x := newTrial(t, SchedulerConfig{Shards: 1}, 0)
	defer x.fanout.Close()
	node := func(name, cpu, memory string) *v1.Node { return build.Node(name).CPU(cpu).Memory(memory).Obj() }
	x.Load(&objects.Snapshot{
		Nodes: []*v1.Node{node("big", "8", "8Gi"), node("cores", "8", "1Gi"), node("slow", "1", "8Gi"), node("tiny", "1", "1Gi")},
		Pods: []*v1.Pod{
			build.Pod("fills").Node("big").CPU("8").Memory("8Gi").Obj(), build.Pod("busy").Node("cores").CPU("6").Obj(),
			build.Pod("p").CPU("4").Memory("1Mi").Obj(), build.Pod("a").CPU("2").Memory("2Gi").Obj(), build.Pod("b").CPU("3").Memory("4Gi").Obj(),
		},
	}, nil)
	x.turn(t)
	causes := map[string]int{}
	for _, g := range x.pendingNow(t, "").Groups {
		causes[g.Causes[0].Cause] += int(g.Pods)
	}
	if want := "cpu or memory: full on every node that is big enough"; causes[want] != 3 || len(causes) != 1 {
		t.Errorf("got %v, want %q of 3 pods", causes, want)
	}
	closest := x.explained(t, "a", 0).Closest
	if len(closest) == 0 || closest[0].Node != "big" {
		t.Errorf("got %v, want the node first that is big enough", closest)
	}
}

// Pods of several workloads wait for several reasons, and each is told with the numbers of its own.
func TestPendingPodsAreGrouped(t *testing.T) {
	x := newTrial(t, SchedulerConfig{Shards: 2, Profiles: withPreemption()}, 0)
	defer x.fanout.Close()
	of := func(b *build.PodBuilder, workload string) *build.PodBuilder {
		return b.Namespace("shop").Label("pod-template-hash", "5d4f").Owner("apps/v1", "ReplicaSet", workload+"-5d4f")
	}
	pods := []*v1.Pod{
		build.Pod("fills").Node("a").CPU("7").Obj(),
		of(build.Pod("disk-1").NodeSelector("disk", "ssd"), "disk").Obj(), of(build.Pod("disk-2").NodeSelector("disk", "ssd"), "disk").Obj(),
		of(build.Pod("big-1").CPU("9"), "big").Obj(),
		build.Pod("full").CPU("2").Obj(),
		build.Pod("gated").Gate("example.com/quota").Obj(),
		build.Pod("claims").Claim("data").Obj(),
	}
	x.Load(&objects.Snapshot{
		Nodes: []*v1.Node{
			build.Node("a").CPU("8").Memory("8Gi").Label("disk", "hdd").Obj(),
			build.Node("b").CPU("1").Memory("8Gi").Obj(),
			build.Node("c").CPU("8").Memory("8Gi").Taint("dedicated=gpu:NoSchedule").Obj(),
		},
		Cluster: []objects.Object{build.Claim("data", "nosuch").Obj()}, Pods: pods,
	}, nil)
	x.turn(t)
	var got []string
	out := x.pendingNow(t, "")
	for _, g := range out.Groups {
		text := fmt.Sprintf("%d %s %s/%s:", g.Pods, g.Kind, g.Namespace, g.Name)
		for _, c := range g.Causes {
			text += fmt.Sprintf(" [%d %s (%s)]", c.Nodes, c.Cause, c.Detail)
		}
		got = append(got, text)
	}
	slices.Sort(got)
	wantLines(t, "groups", got,
		"1 Deployment shop/big: [2 cpu: larger than any node (9 > 8)] [1 taint dedicated=gpu:NoSchedule is not tolerated (on 1 node)]",
		"1 Pod default/claims: [0 StorageClass nosuch does not exist (claim data)]",
		"1 Pod default/full: [2 cpu: full on every node that is big enough (1 node)] [1 taint dedicated=gpu:NoSchedule is not tolerated (on 1 node)]",
		"1 Pod default/gated: [0 scheduling gate example.com/quota ()]",
		"2 Deployment shop/disk: [2 no node has label disk=ssd (disk=hdd on 1, no disk on 2)] [1 taint dedicated=gpu:NoSchedule is not tolerated (on 1 node)]",
	)
	if out.Pods != 6 || out.Nodes != 3 {
		t.Errorf("got %d pods and %d nodes, want 6 and 3", out.Pods, out.Nodes)
	}
	if shop := x.pendingNow(t, "shop"); shop.Pods != 3 {
		t.Errorf("got %d pods of namespace shop, want 3", shop.Pods)
	}
}

// What would help is told where it would: a node may have another obstacle beside the one for which it is refused.
func TestHelpIsWhatWouldHelp(t *testing.T) {
	node := func(name, cpu string) *build.NodeBuilder { return build.Node(name).CPU(cpu).Memory("8Gi") }
	tainted := func(b *build.NodeBuilder) *v1.Node { return b.Taint("dedicated=gpu:NoSchedule").Obj() }
	const larger, toleration = "larger nodes, or smaller requests", "a toleration, or nodes without the taint"
	const full, label = "more such nodes, pods that leave, or a higher priority", "label a node, or change the pod's selector or affinity"
	added := func(c *compile.ProfileConfig) {
		c.NodeAffinity.AddedAffinity = &v1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{
			NodeSelectorTerms: []v1.NodeSelectorTerm{build.Labels(build.Match("rack", v1.NodeSelectorOpExists))}}}
	}
	message := func(c *compile.ProfileConfig) {
		c.Filters = append(c.Filters, pb.Plugin_PLUGIN_CEL_FILTER)
		c.CELFilter.Expressions = []compile.CELFilterExpression{{Name: "fast", Expression: "node.labels['disk'] == 'ssd'", Message: "node is slow"}}
	}
	for name, c := range map[string]struct {
		nodes   []*v1.Node
		present []*v1.Pod
		pod     *v1.Pod
		profile func(*compile.ProfileConfig)
		want    []string
	}{
		"all are too small, one is tainted besides": {
			nodes: []*v1.Node{node("a", "8").Obj(), node("b", "8").Obj(), tainted(node("c", "8"))}, pod: build.Pod("p").CPU("9").Obj(),
			want: []string{"2 cpu: larger than any node (9 > 8): " + larger, "1 taint dedicated=gpu:NoSchedule is not tolerated (on 1 node): "},
		},
		"the one that is large enough is tainted": {
			nodes: []*v1.Node{node("a", "8").Obj(), node("b", "8").Obj(), tainted(node("c", "16"))}, pod: build.Pod("p").CPU("9").Obj(),
			want: []string{"2 cpu: larger than any node that it may be on (9 > 8): " + larger,
				"1 taint dedicated=gpu:NoSchedule is not tolerated (on 1 node): " + toleration},
		},
		"the only node is tainted and too small": {
			nodes: []*v1.Node{tainted(node("c", "8"))}, pod: build.Pod("p").CPU("9").Obj(),
			want: []string{"1 taint dedicated=gpu:NoSchedule is not tolerated (on 1 node): a toleration and smaller requests"},
		},
		"the tainted one has another label": {
			nodes: []*v1.Node{node("a", "8").Obj(), tainted(node("c", "8").Label("disk", "hdd"))}, pod: build.Pod("p").NodeSelector("disk", "ssd").Obj(),
			want: []string{"1 no node has label disk=ssd (disk=hdd on 1, no disk on 1): " + label,
				"1 taint dedicated=gpu:NoSchedule is not tolerated (on 1 node): "},
		},
		"full nodes are those that are not refused for something else": {
			nodes:   []*v1.Node{node("a", "8").Obj(), node("b", "8").Obj(), tainted(node("c", "8")), node("d", "1").Obj()},
			present: []*v1.Pod{build.Pod("x").Node("a").CPU("8").Obj(), build.Pod("y").Node("b").CPU("8").Obj()}, pod: build.Pod("p").CPU("2").Obj(),
			want: []string{"3 cpu: full on every node that is big enough (2 nodes): " + full,
				"1 taint dedicated=gpu:NoSchedule is not tolerated (on 1 node): " + toleration},
		},
		"a cordoned node counts once, whatever its taints": {
			nodes: []*v1.Node{node("a", "8").Taint("node.kubernetes.io/unschedulable:NoSchedule").Unschedulable().Obj(), tainted(node("b", "8")),
				tainted(node("c", "8").Unschedulable())},
			pod:  build.Pod("p").CPU("2").Obj(),
			want: []string{"2 cordoned nodes (2 nodes): kubectl uncordon", "1 taint dedicated=gpu:NoSchedule is not tolerated (on 1 node): " + toleration},
		},
		"the profile's affinity": {
			nodes: []*v1.Node{node("a", "8").Label("disk", "ssd").Obj()}, pod: build.Pod("p").NodeSelector("disk", "ssd").Obj(), profile: added,
			want: []string{"1 the profile's addedAffinity: no node has label rack (no node has a label rack): label a node, or change the profile's addedAffinity"},
		},
		"an expression with a message of its own": {
			nodes: []*v1.Node{node("a", "8").Label("disk", "hdd").Obj(), tainted(node("b", "8"))}, pod: build.Pod("p").Obj(), profile: message,
			want: []string{"1 node is slow: nodes for which it is true, or another expression",
				"1 taint dedicated=gpu:NoSchedule is not tolerated (on 1 node): " + toleration},
		},
		"no nodes": {pod: build.Pod("p").Obj(), want: []string{"0 the cluster has no nodes: nodes"}},
		"a claim that nobody makes": {
			nodes: []*v1.Node{node("a", "8").Obj()}, pod: using(build.Pod("p").Obj(), "g"),
			want: []string{`0 a resource claim does not exist (could not find ResourceClaim "default/g"): ` +
				"nobody makes ResourceClaim default/g for the pod: it has to be created"},
		},
		"a claim whose class nobody makes": {
			nodes: []*v1.Node{node("a", "8").Obj()}, pod: using(build.Pod("p").Obj(), "c"),
			want: []string{"0 device class gpu does not exist (request r: device class gpu does not exist): " +
				"DeviceClass gpu has to be created: by an administrator, or with the driver that serves it"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			config := rules.DefaultConfig(v1.DefaultSchedulerName)
			if c.profile != nil {
				c.profile(&config)
			}
			prof, err := rules.NewProfile(config)
			if err != nil {
				t.Fatal(err)
			}
			x := newTrial(t, SchedulerConfig{Shards: 2, Profiles: map[string]*compile.Profile{v1.DefaultSchedulerName: prof}}, 0)
			defer x.fanout.Close()
			x.Load(&objects.Snapshot{Nodes: c.nodes, Cluster: []objects.Object{gpuClaim("c")}, Pods: append(slices.Clone(c.present), c.pod)}, nil)
			x.turn(t)
			var got []string
			for _, cause := range x.pendingNow(t, "").Groups[0].Causes {
				text := fmt.Sprintf("%d %s", cause.Nodes, cause.Cause)
				if cause.Detail != "" {
					text += " (" + cause.Detail + ")"
				}
				got = append(got, text+": "+cause.Help)
			}
			wantLines(t, "causes", got, c.want...)
		})
	}
}
