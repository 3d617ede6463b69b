package coordinator

import (
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/shardsched/shardsched/coordinator/compile"
	"github.com/shardsched/shardsched/coordinator/framework"
	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/coordinator/rules"
	"github.com/shardsched/shardsched/internal/testkit/build"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// lack is a pod that a plugin refuses, and how people are told.
type lack struct {
	nodes   []*v1.Node
	others  []objects.Object
	present []*v1.Pod
	pod     *v1.Pod
	profile func(*compile.ProfileConfig)
	// cause and help are those of all nodes, the detail in parentheses; node is what the first of the closest nodes lacks; "": the
	// pod is held against none.
	cause, help, node string
}

func room(name string) *build.NodeBuilder { return build.Node(name).CPU("8").Memory("8Gi") }

// lacks has what each plugin refuses.
func lacks() map[string][]lack {
	three := []*v1.Node{room("a1").Zone("a").Obj(), room("b1").Zone("b").Obj(), room("b2").Zone("b").Obj()}
	shop := func(name, node, app string) *v1.Pod {
		return build.Pod(name).Namespace("shop").Label("app", app).Node(node).Obj()
	}
	return map[string][]lack{
		rules.SchedulingGates: {{
			nodes: three, pod: build.Pod("p").Gate("example.com/quota").Obj(),
			cause: "scheduling gate example.com/quota", help: "nothing here: who set the gate takes it away",
		}},
		rules.NodeUnschedulable: {{
			nodes: []*v1.Node{room("a").Unschedulable().Obj()}, pod: build.Pod("p").Obj(),
			cause: "cordoned nodes (1 node)", help: "kubectl uncordon", node: "the node is cordoned (spec.unschedulable)",
		}},
		rules.TaintToleration: {{
			nodes: []*v1.Node{room("a").Taint("dedicated=gpu:NoSchedule").Obj(), room("b").Taint("dedicated=gpu:NoSchedule").Obj()},
			pod:   build.Pod("p").Obj(),
			cause: "taint dedicated=gpu:NoSchedule is not tolerated (on 2 nodes)", help: "a toleration, or nodes without the taint",
			node: "taint dedicated=gpu:NoSchedule is not tolerated",
		}},
		rules.NodeAffinity: {
			{
				nodes: []*v1.Node{room("a").Label("disk", "hdd").Obj(), room("b").Obj()}, pod: build.Pod("p").NodeSelector("disk", "ssd").Obj(),
				cause: "no node has label disk=ssd (disk=hdd on 1, no disk on 1)", help: "label a node, or change the pod's selector or affinity",
				node: "label disk=ssd (the node has disk=hdd)",
			},
			{
				nodes: three[:1],
				pod: build.Pod("p").Required(build.Labels(build.Match("zone", v1.NodeSelectorOpIn, "x", "y")),
					build.Labels(build.Match("cores", v1.NodeSelectorOpGt, "8"))).Obj(),
				cause: "node affinity: zone in (x, y), or cores > 8", help: "label a node, or change the pod's selector or affinity",
				node: "label zone in (x, y) (the node has no zone), or label cores > 8 (the node has no cores)",
			},
			{
				nodes: three[:1], pod: build.Pod("p").Obj(),
				profile: func(c *compile.ProfileConfig) {
					term := build.Labels(build.Match("pool", v1.NodeSelectorOpExists))
					c.NodeAffinity.AddedAffinity = &v1.NodeAffinity{
						RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{NodeSelectorTerms: []build.Term{term}},
					}
				},
				cause: "no node has label pool (no node has a label pool)", help: "label a node, or change the pod's selector or affinity",
				node: "the profile's addedAffinity: label pool (the node has no pool)",
			},
			{
				nodes: three, pod: build.Pod("p").Required(build.Term{MatchFields: []v1.NodeSelectorRequirement{
					build.Match("metadata.name", v1.NodeSelectorOpIn, "a1"), build.Match("metadata.name", v1.NodeSelectorOpIn, "b1"),
				}}).Obj(),
				cause: "node affinity that no node can meet (a term names several nodes at once (metadata.name))", help: "another affinity",
			},
		},
		rules.NodePorts: {{
			nodes: three[:1], present: []*v1.Pod{build.Pod("q").Namespace("shop").Node("a1").HostPort("", v1.ProtocolTCP, 80).Obj()},
			pod:   build.Pod("p").HostPort("10.0.0.1", v1.ProtocolTCP, 80).Obj(),
			cause: "host port 10.0.0.1:80/TCP is in use", help: "more nodes, or a pod without hostPort",
			node: "host port 10.0.0.1:80/TCP is used by shop/q",
		}},
		rules.NodeResourcesFit: {
			{
				nodes: three[:1], pod: build.Pod("p").CPU("9").Obj(),
				cause: "cpu: larger than any node (9 > 8)", help: "larger nodes, or smaller requests",
				node: "cpu: short by 1, too small even when empty (9 > 8)",
			},
			{
				nodes: three[:1], present: []*v1.Pod{build.Pod("q").Node("a1").CPU("7500m").Obj()}, pod: build.Pod("p").CPU("1").Obj(),
				cause: "cpu: big enough, but full", help: "more such nodes, pods that leave, or a higher priority", node: "cpu: short by 500m",
			},
			{
				nodes: []*v1.Node{build.Node("a").CPU("2").Memory("8Gi").Obj(), build.Node("b").CPU("8").Memory("1Gi").Obj()},
				pod:   build.Pod("p").CPU("4").Memory("4Gi").Obj(),
				cause: "cpu, memory: too small even when empty", help: "larger nodes, or smaller requests",
				node: "cpu: short by 2, too small even when empty (4 > 2)",
			},
		},
		rules.VolumeRestrictions: {{
			nodes: three[:1], others: []objects.Object{build.Claim("data", "").Mode(v1.ReadWriteOncePod).Bound("pv").Obj(),
				build.Volume("pv", "").Bound(build.Claim("data", "").Obj()).Obj()},
			present: []*v1.Pod{build.Pod("q").Node("a1").Claim("data").Obj()}, pod: build.Pod("p").Claim("data").Obj(),
			cause: "claim data is for one pod (ReadWriteOncePod), and in use", help: "the pod that uses it ends",
			node: "claim data is for one pod (ReadWriteOncePod), and in use by default/q",
		}, {
			nodes: three, pod: build.Pod("p").Claim("data").Obj(), cause: "claim: does not exist (claim data)", help: "make it",
		}},
		rules.NodeVolumeLimits: {{
			nodes: three[:1],
			others: []objects.Object{build.CSINode("a1", "ebs.csi", 1),
				build.Claim("one", "").Bound("pv-1").Obj(), build.Volume("pv-1", "").CSI("ebs.csi", "h1").Bound(build.Claim("one", "").Obj()).Obj(),
				build.Claim("two", "").Bound("pv-2").Obj(), build.Volume("pv-2", "").CSI("ebs.csi", "h2").Bound(build.Claim("two", "").Obj()).Obj()},
			present: []*v1.Pod{build.Pod("q").Node("a1").Claim("one").Obj()}, pod: build.Pod("p").Claim("two").Obj(),
			cause: "as many volumes are attached as the driver can", help: "more nodes, or pods with volumes that leave",
			node: "driver ebs.csi has 1 of 1 volumes attached, the pod adds 1",
		}},
		rules.VolumeBinding: {
			{
				nodes: three, others: []objects.Object{build.Claim("data", "nosuch").Obj()}, pod: build.Pod("p").Claim("data").Obj(),
				cause: "claim: StorageClass nosuch does not exist (claim data)", help: "make the class, or the claim anew with another",
			},
			{
				nodes: three, others: []objects.Object{build.StorageClass("fast", "ebs.csi"), build.Claim("data", "fast").Obj()},
				pod:   build.Pod("p").Claim("data").Obj(),
				cause: "claim: StorageClass fast binds at once (claim data)", help: "its provisioner ebs.csi makes a volume",
			},
			{
				nodes: three[:1], others: []objects.Object{build.WaitingClass("local", "kubernetes.io/no-provisioner"), build.Claim("data", "local").Obj()},
				pod:   build.Pod("p").Claim("data").Obj(),
				cause: "no free volume", help: "volumes for these nodes, or room on those that have them",
				node: "claim data: no free volume of StorageClass local with 1Gi is for this node, and the class provisions none",
			},
			{
				nodes: three[:1],
				others: []objects.Object{build.Claim("data", "").Bound("pv").Obj(),
					build.Volume("pv", "").On(v1.LabelTopologyZone, "b").Bound(build.Claim("data", "").Obj()).Obj()},
				pod:   build.Pod("p").Claim("data").Obj(),
				cause: "volumes are for other nodes", help: "volumes for these nodes, or room on those that have them",
				node: "claim data: its volume pv wants label topology.kubernetes.io/zone=b (the node has topology.kubernetes.io/zone=a)",
			},
		},
		rules.VolumeZone: {{
			nodes: three[:1],
			others: []objects.Object{build.Claim("data", "").Bound("pv").Obj(),
				build.Volume("pv", "").Label(v1.LabelTopologyZone, "b").Bound(build.Claim("data", "").Obj()).Obj()},
			pod:   build.Pod("p").Claim("data").Obj(),
			cause: "volumes are in other zones (claim data: zone b)", help: "nodes in the zones of the volumes",
			node: "claim data: its volume pv is in zone b, the node has topology.kubernetes.io/zone=a",
		}},
		rules.PodTopologySpread: {
			{
				nodes:   append(slices.Clone(three[:1]), build.Node("b1").CPU("1").Memory("1Gi").Zone("b").Unschedulable().Obj()),
				present: []*v1.Pod{shop("w1", "a1", "web"), shop("w2", "a1", "web")},
				pod:     build.Pod("p").Namespace("shop").Label("app", "web").Spread(build.Hard(v1.LabelTopologyZone, 1, "app=web")).Obj(),
				cause:   "spread over zone with maxSkew 1", help: "room in the domains with the fewest pods, or a larger maxSkew",
				node: "zone a holds 2 with app=web, least 0, maxSkew 1",
			},
			{
				nodes: []*v1.Node{room("a").Obj()}, pod: build.Pod("p").Spread(build.Hard("rack", 1, "app=web")).Obj(),
				cause: "spread over rack with maxSkew 1 (1 node have no label rack)", help: "room in the domains with the fewest pods, or a larger maxSkew",
				node: "the node has no label rack, over which the pod is spread",
			},
		},
		rules.InterPodAffinity: {
			{
				nodes: three[:1], pod: build.Pod("p").Near(build.Around(v1.LabelTopologyZone, "app=db")).Obj(),
				cause: "affinity to app=db in namespace default", help: "such a pod, or room beside it", node: "no pod with app=db in namespace default",
			},
			{
				nodes: []*v1.Node{three[0], room("b1").Zone("b").Unschedulable().Obj()}, present: []*v1.Pod{shop("db", "b1", "db")},
				pod:   build.Pod("p").Namespace("shop").Near(build.Around(v1.LabelTopologyZone, "app=db")).Obj(),
				cause: "affinity to app=db in namespace shop", help: "such a pod, or room beside it",
				node: "no pod in zone a with app=db in namespace shop",
			},
			{
				nodes: []*v1.Node{room("a").Label(v1.LabelHostname, "a").Obj()}, present: []*v1.Pod{shop("api-1", "a", "api")},
				pod:   build.Pod("p").Namespace("shop").Label("app", "api").Apart(build.Around(v1.LabelHostname, "app=api")).Obj(),
				cause: "anti-affinity to app=api in namespace shop", help: "more hosts", node: "anti-affinity with shop/api-1 on this host",
			},
			{
				nodes: three[1:], present: []*v1.Pod{shop("api-1", "b1", "api"), shop("api-2", "b2", "api")},
				pod:   build.Pod("p").Namespace("shop").Label("app", "api").Apart(build.Around(v1.LabelTopologyZone, "app=api")).Obj(),
				cause: "anti-affinity to app=api in namespace shop", help: "more zones", node: "anti-affinity with shop/api-1 on this host",
			},
			{
				nodes:   three[:1],
				present: []*v1.Pod{build.Pod("shy").Namespace("shop").Node("a1").Apart(build.Around(v1.LabelTopologyZone, "app=web")).Obj()},
				pod:     build.Pod("p").Namespace("shop").Label("app", "web").Obj(),
				cause:   "other pods have anti-affinity to this one", help: "hosts or zones without these pods",
				node: "shop/shy on this host has anti-affinity to this pod",
			},
		},
		rules.DynamicResources: {{
			nodes: three[:1], others: []objects.Object{gpuClass(), gpuClaim("c")}, pod: using(build.Pod("p").Obj(), "c"),
			cause: "no devices for claim c", help: "devices, or pods with devices that end", node: "claim default/c, request r: 0 of 1 devices",
		}},
		rules.NodeDeclaredFeatures: {{
			nodes: three[:1], pod: restarting("p"),
			cause: "feature RestartAllContainersOnContainerExits (0 nodes declare RestartAllContainersOnContainerExits)",
			help:  "nodes whose kubelet has the feature",
			node:  "feature RestartAllContainersOnContainerExits is not declared by the node (kubelet of an unknown version)",
		}},
		rules.CELFilter: {{
			nodes: []*v1.Node{room("a").Label("disk", "hdd").Obj()}, pod: build.Pod("p").Obj(),
			profile: func(c *compile.ProfileConfig) {
				c.Filters = append(c.Filters, pb.Plugin_PLUGIN_CEL_FILTER)
				c.CELFilter.Expressions = []compile.CELFilterExpression{{Name: "fast", Expression: "node.labels['disk'] == 'ssd'"}}
			},
			cause: `CEL expression "fast"`, help: "nodes for which it is true, or another expression",
			node: `fast: node.labels['disk'] == 'ssd' is false (node.labels["disk"] is "hdd")`,
		}},
	}
}

// restarting is a pod that needs a feature of its node.
func restarting(name string) *v1.Pod {
	p := build.Pod(name).Obj()
	exit := &v1.ContainerRestartRuleOnExitCodes{Operator: v1.ContainerRestartRuleOnExitCodesOpIn, Values: []int32{1}}
	p.Spec.Containers[0].RestartPolicyRules = []v1.ContainerRestartRule{
		{Action: v1.ContainerRestartRuleActionRestartAllContainers, ExitCodes: exit},
	}
	return p
}

// TestEachPluginSaysWhatItMisses holds the words of all plugins of the catalogue to scenes in which they refuse a pod.
func TestEachPluginSaysWhatItMisses(t *testing.T) {
	// Of these no scene is made: upstream's loop binds a pod that names its node without asking NodeName, and a pod whose victims are
	// told to leave is gated for moments (TestPreemptorsAreGated).
	unseen := []string{rules.NodeName, rules.DefaultPreemption}
	all := lacks()
	for _, r := range rules.All() {
		if (r.At(framework.Filter) || r.Hints != nil) && r.Words == nil {
			t.Errorf("%s refuses pods, and has no words", r.Name)
		}
		if r.Words == nil || slices.Contains(unseen, r.Name) {
			continue
		}
		if len(all[r.Name]) == 0 {
			t.Errorf("%s: no scene in which it refuses a pod", r.Name)
		}
		for i, x := range all[r.Name] {
			t.Run(r.Name, func(t *testing.T) { x.check(t, r.Name, i) })
		}
	}
}

func (x *lack) check(t *testing.T, plugin string, i int) {
	c := rules.DefaultConfig(v1.DefaultSchedulerName)
	c.PostFilters = nil
	if x.profile != nil {
		x.profile(&c)
	}
	prof, err := rules.NewProfile(c)
	if err != nil {
		t.Fatal(err)
	}
	s := newTrial(t, SchedulerConfig{Shards: 2, Profiles: map[string]*compile.Profile{v1.DefaultSchedulerName: prof}}, 0)
	defer s.fanout.Close()
	s.Load(&objects.Snapshot{Nodes: x.nodes, Cluster: x.others, Pods: append(slices.Clone(x.present), x.pod)}, nil)
	s.turn(t)
	out := s.explainedIn(t, x.pod.Namespace, x.pod.Name, 0)
	var causes []string
	for _, cause := range out.Causes {
		text := cause.Cause
		if cause.Detail != "" {
			text += " (" + cause.Detail + ")"
		}
		if causes = append(causes, text); text == x.cause && (cause.Plugin != plugin || cause.Help != x.help) {
			t.Errorf("scene %d, %q: got help %q of %s, want %q of %s", i, text, cause.Help, cause.Plugin, x.help, plugin)
		}
	}
	if !slices.Contains(causes, x.cause) {
		t.Errorf("scene %d: got causes %q, want %q", i, causes, x.cause)
	}
	var nodes []string
	for _, n := range out.Closest {
		nodes = append(nodes, strings.Join(n.Shortfalls, "; "))
	}
	if x.node != "" && !slices.Contains(nodes, x.node) {
		t.Errorf("scene %d: got %q of the closest nodes, want %q", i, nodes, x.node)
	}
}
