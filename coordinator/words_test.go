package coordinator

import (
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/shardsched/shardsched/coordinator/compile"
	"github.com/shardsched/shardsched/coordinator/framework"
	"github.com/shardsched/shardsched/coordinator/groups"
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
	// told gives the causes, and what nodes lack, where the pod is refused in another way than by a try on these nodes.
	told func(t *testing.T, x *lack) ([]*pb.Cause, []string)
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
			cause: "scheduling gate example.com/quota", help: "nothing here: whoever set the gate removes it",
		}, {
			nodes: three, pod: build.Pod("p").Gate("example.com/quota").Gate("example.com/audit").Obj(),
			cause: "scheduling gates example.com/quota, example.com/audit", help: "nothing here: whoever set the gates removes them",
		}},
		rules.GangScheduling: {{
			nodes: three, pod: build.Pod("p").Member("g").Obj(), told: inGang(nil),
			cause: "pod group g does not exist", help: "nobody makes the PodGroup for the pod: it has to be created",
		}, {
			nodes: three, pod: build.Pod("p").Member("g").Obj(), told: inGang(build.Gang("g", 2)),
			cause: "pod group g has fewer pods than its minCount", help: "more pods of the pod group",
		}, {
			nodes: three, pod: build.Pod("p").Member("g").Obj(), told: inGang(build.Gang("g", groups.MaxMembers+1)),
			cause: "pod group g: minCount is 8193, at most 8192 pods are scheduled together", help: "a smaller minCount",
		}},
		rules.NodeName: {{
			nodes: three, pod: build.Pod("p").Node("b1").Obj(), told: judgedByName,
			cause: "spec.nodeName is b1", help: "that node, or a pod without nodeName", node: "spec.nodeName is b1, another node",
		}},
		rules.DefaultPreemption: {{
			nodes: three[:1], present: []*v1.Pod{build.Pod("a").CPU("4").Priority(1).Node("a1").Obj(), build.Pod("b").CPU("4").Priority(2).Node("a1").Obj()},
			pod: build.Pod("p").CPU("8").Priority(10).Obj(), told: whileVictimsAreTold,
			cause: "its victims are told to leave", help: "nothing: it is tried when they are told",
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
		}, {
			nodes: []*v1.Node{
				room("a").Taint("dedicated=gpu:NoSchedule").Taint("soft:PreferNoSchedule").Obj(), room("b").Taint("dedicated=gpu:NoSchedule").Obj(),
				room("c").Taint("maintenance:NoExecute").Obj(),
			},
			pod:   build.Pod("p").Obj(),
			cause: "taints dedicated=gpu:NoSchedule, maintenance:NoExecute are not tolerated (dedicated=gpu:NoSchedule on 2 nodes, maintenance:NoExecute on 1 node)",
			help:  "a toleration, or nodes without the taint", node: "taint maintenance:NoExecute is not tolerated",
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
				cause: "the profile's addedAffinity: no node has label pool (no node has a label pool)",
				help:  "label a node, or change the profile's addedAffinity",
				node:  "the profile's addedAffinity: label pool (the node has no pool)",
			},
			{
				nodes: three, pod: build.Pod("p").Required(build.Term{MatchFields: []v1.NodeSelectorRequirement{
					build.Match("metadata.name", v1.NodeSelectorOpIn, "a1"), build.Match("metadata.name", v1.NodeSelectorOpIn, "b1"),
				}}).Obj(),
				cause: "node affinity that no node can meet (a term names several nodes at once (metadata.name))", help: "another affinity",
			},
			{
				nodes: three[:1], pod: build.Pod("p").Required(build.Term{MatchFields: []v1.NodeSelectorRequirement{
					build.Match("metadata.name", v1.NodeSelectorOpIn, "n9"),
				}}).Obj(),
				cause: "node n9 does not exist (the pod is for it alone)", help: "that node, or another affinity", node: "field metadata.name=n9",
			},
			{
				nodes: []*v1.Node{room("a").CPU("1").Obj(), room("b").Obj()},
				pod: build.Pod("p").CPU("2").Required(build.Term{MatchFields: []v1.NodeSelectorRequirement{
					build.Match("metadata.name", v1.NodeSelectorOpIn, "a"),
				}}).Obj(),
				cause: "the pod is for node a alone", help: "room there, or another affinity", node: "cpu: short by 1, too small even when empty (2 > 1)",
			},
			{
				nodes: three[:1], pod: build.Pod("p").Required(build.Labels(build.Match(v1.LabelTopologyZone, v1.NodeSelectorOpDoesNotExist))).Obj(),
				cause: "every node has label topology.kubernetes.io/zone (topology.kubernetes.io/zone=a on 1)",
				help:  "a node without the label, or change the pod's affinity",
				node:  "label !topology.kubernetes.io/zone (the node has topology.kubernetes.io/zone=a)",
			},
			{
				nodes: []*v1.Node{room("a").Label("disk", "ssd").Obj(), room("b").Zone("b").Obj()},
				pod:   build.Pod("p").NodeSelector("disk", "ssd").NodeSelector(v1.LabelTopologyZone, "b").Obj(),
				cause: "labels disk=ssd, topology.kubernetes.io/zone=b (disk=ssd on 1, topology.kubernetes.io/zone=b on 1 of 2 nodes)",
				help:  "label a node, or change the pod's selector or affinity", node: "label disk=ssd (the node has no disk)",
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
				cause: "cpu: big enough, but full (asks cpu 1)", help: "more such nodes, pods that leave, or a higher priority", node: "cpu: short by 500m",
			},
			{
				nodes: three[:1], present: []*v1.Pod{build.Pod("q").Node("a1").CPU("7500m").Obj()}, pod: neverPreempts(build.Pod("p").CPU("1").Obj()),
				cause: "cpu: big enough, but full (asks cpu 1)", help: "more such nodes, or pods that leave", node: "cpu: short by 500m",
			},
			{
				nodes: []*v1.Node{build.Node("a").CPU("2").Memory("8Gi").Obj(), build.Node("b").CPU("8").Memory("1Gi").Obj()},
				pod:   build.Pod("p").CPU("4").Memory("4Gi").Obj(),
				cause: "cpu, memory: too small even when empty (asks cpu 4, memory 4Gi)", help: "larger nodes, or smaller requests",
				node: "cpu: short by 2, too small even when empty (4 > 2)",
			},
			{
				nodes: three[:1], pod: build.Pod("p").Request("example.com/gpu", "1").Obj(),
				cause: "no node has example.com/gpu", help: "nodes that have it", node: "example.com/gpu: short by 1, too small even when empty (1 > 0)",
			},
		},
		rules.VolumeRestrictions: {{
			nodes: three[:1], others: []objects.Object{build.Claim("data", "").Mode(v1.ReadWriteOncePod).Bound("pv").Obj(),
				build.Volume("pv", "").Bound(build.Claim("data", "").Obj()).Obj()},
			present: []*v1.Pod{build.Pod("q").Node("a1").Claim("data").Obj()}, pod: build.Pod("p").Claim("data").Obj(),
			cause: "claim data is for one pod (ReadWriteOncePod), and in use", help: "the pod that uses it ends",
			node: "claim data is for one pod (ReadWriteOncePod), and in use by default/q",
		}, {
			nodes: three, pod: build.Pod("p").Claim("data").Obj(), cause: "the claim does not exist (claim data)", help: "create it",
		}, {
			nodes: three[:1], present: []*v1.Pod{onDisk(build.Pod("q").Node("a1").Obj(), "d")}, pod: onDisk(build.Pod("p").Obj(), "d"),
			cause: "a disk that can't be shared is in use (GCE disk d)", help: "other nodes, or the pod that uses it ends",
			node: "GCE disk d is used by default/q on this host, and can't be shared",
		}},
		rules.NodeVolumeLimits: {{
			nodes: three[:1],
			others: []objects.Object{build.CSINode("a1", "ebs.csi", 1),
				build.Claim("one", "").Bound("pv-1").Obj(), build.Volume("pv-1", "").CSI("ebs.csi", "h1").Bound(build.Claim("one", "").Obj()).Obj(),
				build.Claim("two", "").Bound("pv-2").Obj(), build.Volume("pv-2", "").CSI("ebs.csi", "h2").Bound(build.Claim("two", "").Obj()).Obj()},
			present: []*v1.Pod{build.Pod("q").Node("a1").Claim("one").Obj()}, pod: build.Pod("p").Claim("two").Obj(),
			cause: "as many volumes are attached as the driver can (driver ebs.csi)", help: "more nodes, or pods with volumes that leave",
			node: "driver ebs.csi has 1 of 1 volumes attached, the pod adds 1",
		}},
		rules.VolumeBinding: {
			{
				nodes: three, others: []objects.Object{build.Claim("data", "nosuch").Obj()}, pod: build.Pod("p").Claim("data").Obj(),
				cause: "StorageClass nosuch does not exist (claim data)", help: "create the class, or the claim anew with another",
			},
			{
				nodes: three, others: []objects.Object{build.StorageClass("fast", "ebs.csi"), build.Claim("data", "fast").Obj()},
				pod:   build.Pod("p").Claim("data").Obj(),
				cause: "StorageClass fast binds at once, and there is no volume yet (claim data)", help: "its provisioner ebs.csi makes one",
			},
			{
				nodes: three[:1], others: []objects.Object{build.WaitingClass("local", "kubernetes.io/no-provisioner"), build.Claim("data", "local").Obj()},
				pod:   build.Pod("p").Claim("data").Obj(),
				cause: "no free volume of StorageClass local (claim data, 1Gi)",
				help:  "a volume for these nodes (the class provisions none), or room on nodes that have one",
				node:  "claim data: no free volume of StorageClass local with 1Gi is for this node, and the class provisions none",
			},
			{
				nodes: three[:1],
				others: []objects.Object{build.Claim("data", "").Bound("pv").Obj(),
					build.Volume("pv", "").On(v1.LabelTopologyZone, "b").Bound(build.Claim("data", "").Obj()).Obj()},
				pod:   build.Pod("p").Claim("data").Obj(),
				cause: "volumes are for other nodes (claim data: volume pv is for topology.kubernetes.io/zone=b)",
				help:  "room on nodes that have the volume in reach",
				node:  "claim data: its volume pv wants label topology.kubernetes.io/zone=b (the node has topology.kubernetes.io/zone=a)",
			},
			{
				nodes: three[:1], others: []objects.Object{elsewhere(build.WaitingClass("zonal", "ebs.csi")), build.Claim("data", "zonal").Obj()},
				pod:   build.Pod("p").Claim("data").Obj(),
				cause: "StorageClass zonal provisions volumes for other nodes alone (allowedTopologies) (claim data, 1Gi)",
				help:  "room on those nodes, or other allowedTopologies",
				node:  "claim data: StorageClass zonal provisions no volume for this node (allowedTopologies)",
			},
			{
				nodes: three[:1],
				others: []objects.Object{build.WaitingClass("roomy", "cap.csi"), build.Claim("data", "roomy").Obj(),
					&storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: "cap.csi"}, Spec: storagev1.CSIDriverSpec{StorageCapacity: new(true)}}},
				pod:   build.Pod("p").Claim("data").Obj(),
				cause: "driver cap.csi has no room for the volume (claim data, 1Gi)", help: "more storage of the driver, or room on nodes that have it",
				node: "claim data: driver cap.csi has no room for 1Gi here",
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
				nodes:   []*v1.Node{three[0], room("b1").Zone("b").Unschedulable().Obj(), room("b2").Zone("b").Unschedulable().Obj()},
				present: []*v1.Pod{shop("w1", "a1", "web"), shop("w2", "a1", "web")},
				pod:     build.Pod("p").Namespace("shop").Label("app", "web").Spread(build.Hard(v1.LabelTopologyZone, 1, "app=web")).Obj(),
				cause:   "spread over zone with maxSkew 1", help: "room in the zone with the fewest pods, or a larger maxSkew",
				node: "zone a holds 2 with app=web, least 0 (zone b), maxSkew 1",
			},
			{
				nodes: three[:1], present: []*v1.Pod{shop("w1", "a1", "web")},
				pod:   build.Pod("p").Namespace("shop").Label("app", "web").Spread(few(build.Hard(v1.LabelTopologyZone, 1, "app=web"), 3)).Obj(),
				cause: "spread over zone with maxSkew 1", help: "room in the zone with the fewest pods, or a larger maxSkew",
				node: "zone a holds 1 with app=web, least 0 (there are 1 of minDomains 3), maxSkew 1",
			},
			{
				nodes: []*v1.Node{room("a").Obj()}, pod: build.Pod("p").Spread(build.Hard("rack", 1, "app=web")).Obj(),
				cause: "no label rack, over which the pod is spread (no rack on 1 of 1 node)", help: "label these nodes, or spread over another label",
				node: "the node has no label rack, over which the pod is spread",
			},
		},
		rules.InterPodAffinity: {
			{
				nodes: three[:1], pod: build.Pod("p").Near(build.Around(v1.LabelTopologyZone, "app=db")).Obj(),
				cause: "affinity by zone to app=db in namespace default", help: "such a pod, or room beside it",
				node: "no pod anywhere with app=db in namespace default",
			},
			{
				nodes: []*v1.Node{three[0], room("b1").Zone("b").Unschedulable().Obj()}, present: []*v1.Pod{shop("db", "b1", "db")},
				pod:   build.Pod("p").Namespace("shop").Near(build.Around(v1.LabelTopologyZone, "app=db")).Obj(),
				cause: "affinity by zone to app=db in namespace shop", help: "such a pod, or room beside it",
				node: "no pod in zone a with app=db in namespace shop",
			},
			{
				nodes: []*v1.Node{room("a").Label(v1.LabelHostname, "a").Obj()}, present: []*v1.Pod{shop("api-1", "a", "api")},
				pod:   build.Pod("p").Namespace("shop").Label("app", "api").Apart(build.Around(v1.LabelHostname, "app=api")).Obj(),
				cause: "anti-affinity by host to app=api in namespace shop", help: "more hosts", node: "anti-affinity with shop/api-1 on this host",
			},
			{
				nodes: three[1:], present: []*v1.Pod{shop("api-1", "b1", "api")}, // names the pods of other nodes of the zone, too
				pod:   build.Pod("p").Namespace("shop").Label("app", "api").Apart(build.Around(v1.LabelTopologyZone, "app=api")).Obj(),
				cause: "anti-affinity by zone to app=api in namespace shop", help: "more zones", node: "anti-affinity with shop/api-1 in zone b",
			},
			{
				nodes:   three[:1],
				present: []*v1.Pod{build.Pod("shy").Namespace("shop").Node("a1").Apart(build.Around(v1.LabelTopologyZone, "app=web")).Obj()},
				pod:     build.Pod("p").Namespace("shop").Label("app", "web").Obj(),
				cause:   "other pods have anti-affinity to this one", help: "hosts or zones without these pods",
				node: "anti-affinity of shop/shy in zone a to this pod",
			},
		},
		rules.DynamicResources: {{
			nodes: three[:1], others: []objects.Object{gpuClass(), gpuClaim("c")}, pod: using(build.Pod("p").Obj(), "c"),
			cause: "no devices for claim c", help: "devices, or pods with devices that end", node: "claim default/c, request r: 0 of 1 devices",
		}, {
			nodes: three[:1], others: []objects.Object{ofClass(gpuClaim("c"), "tpu")}, pod: using(build.Pod("p").Obj(), "c"),
			cause: "device class tpu does not exist (request r: device class tpu does not exist)",
			help:  "DeviceClass tpu has to be created: by an administrator, or with the driver that serves it",
		}, {
			nodes: three[:1], others: []objects.Object{gpuClass()}, pod: using(build.Pod("p").Obj(), "c"),
			cause: `a resource claim does not exist (could not find ResourceClaim "default/c")`,
			help:  "nobody makes ResourceClaim default/c for the pod: it has to be created",
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
			cause: `CEL expression "fast" is false`, help: "nodes for which it is true, or another expression",
			node: `fast: node.labels['disk'] == 'ssd' is false (node.labels["disk"] is "hdd")`,
		}, {
			nodes: []*v1.Node{room("a").Obj()}, pod: build.Pod("p").Obj(),
			profile: func(c *compile.ProfileConfig) {
				c.Filters = append(c.Filters, pb.Plugin_PLUGIN_CEL_FILTER)
				c.CELFilter.Expressions = []compile.CELFilterExpression{{Name: "fast", Expression: "node.labels['disk'] == 'ssd'", Message: "slow disk"}}
			},
			cause: `CEL expression "fast" fails`, help: "nodes for which it is true, or another expression",
			node: `fast: no such key: disk: node.labels['disk'] == 'ssd' (there is no node.labels["disk"])`,
		}, {
			nodes: []*v1.Node{room("a").Label("disk", "hdd").Obj()}, pod: build.Pod("p").Obj(),
			profile: func(c *compile.ProfileConfig) {
				c.Filters = append(c.Filters, pb.Plugin_PLUGIN_CEL_FILTER)
				c.CELFilter.Expressions = []compile.CELFilterExpression{{Name: "fast", Expression: "node.labels['disk'] == 'ssd'", Message: "slow disk"}}
			},
			cause: "slow disk", help: "nodes for which it is true, or another expression",
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
	all := lacks()
	for _, r := range rules.All() {
		if (r.At(framework.Filter) || r.Hints != nil) && r.Words == nil {
			t.Errorf("%s refuses pods, and has no words", r.Name)
		}
		if r.Words == nil {
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

// inGang is what is told of a member that its pod group holds back; nil: there is no PodGroup.
func inGang(group *build.PodGroupBuilder) func(t *testing.T, x *lack) ([]*pb.Cause, []string) {
	return func(t *testing.T, x *lack) ([]*pb.Cause, []string) {
		s := newTrial(t, SchedulerConfig{Shards: 1, Groups: groups.Gates{Workload: true, Gang: true}}, 0)
		defer s.fanout.Close()
		if group != nil {
			s.groups.Set(group.Obj())
		}
		s.Load(&objects.Snapshot{Nodes: x.nodes, Pods: []*v1.Pod{x.pod}}, nil)
		return s.explainedIn(t, x.pod.Namespace, x.pod.Name, 0).Causes, nil
	}
}

// judgedByName is what NodeName says: no pod that names its node is in the queue, so the rule is asked by itself, about the first node.
func judgedByName(t *testing.T, x *lack) (causes []*pb.Cause, lacks []string) {
	s := newTrial(t, SchedulerConfig{Shards: 1}, 0)
	defer s.fanout.Close()
	s.Load(&objects.Snapshot{Nodes: x.nodes}, nil)
	prof := s.cfg.Profiles[v1.DefaultSchedulerName]
	q, _, err := forExplanations{s.Scheduler}.Question(x.pod, prof, "")
	if err != nil {
		t.Fatal(err)
	}
	row, ok := s.answers.Reader().RowOf(x.nodes[0].Name)
	if !ok {
		t.Fatalf("there is no node %s", x.nodes[0].Name)
	}
	reasons := s.answers.Reader().Reasons(row, q.Class.Scorer)
	if len(reasons) != 1 {
		t.Fatalf("got reasons %v of %s, want one", reasons, x.nodes[0].Name)
	}
	w := rules.NewDictionary().Of(reasons[0].Plugin)
	refused := &rules.Refused{Pod: x.pod, Node: x.nodes[0], Profile: prof, Class: q.Class, Reasons: []string{reasons[0].Text}, Cluster: q.Cluster}
	for _, want := range w.Wants(&rules.Asked{Pod: x.pod, Profile: prof, Reasons: refused.Reasons, Cluster: q.Cluster}) {
		causes = append(causes, &pb.Cause{Plugin: reasons[0].Plugin, Cause: want.Cause, Detail: want.Detail, Help: want.Help})
	}
	return causes, w.Lacks(refused)
}

// whileVictimsAreTold is what is told of a preemptor while some of its victims have left, and others are told to.
func whileVictimsAreTold(t *testing.T, x *lack) (causes []*pb.Cause, lacks []string) {
	preemptOn(t, x.nodes, append(slices.Clone(x.present), x.pod), func(s *scenario, _ *fakeEvictor, _ *recordingReporter) {
		s.deliver(objects.Deleted, x.present[1])
		out, err := s.Explain(s.ctx, &pb.ExplainRequest{Namespace: x.pod.Namespace, Name: x.pod.Name})
		if err != nil {
			t.Fatal(err)
		}
		causes = out.Causes
	})
	return causes, nil
}

func neverPreempts(p *v1.Pod) *v1.Pod {
	p.Spec.PreemptionPolicy = new(v1.PreemptNever)
	return p
}

// onDisk gives a pod a disk that pods can't share.
func onDisk(p *v1.Pod, name string) *v1.Pod {
	p.Spec.Volumes = append(p.Spec.Volumes, v1.Volume{VolumeSource: v1.VolumeSource{GCEPersistentDisk: &v1.GCEPersistentDiskVolumeSource{PDName: name}}})
	return p
}

// elsewhere has a class provision volumes for zone x alone.
func elsewhere(c *storagev1.StorageClass) *storagev1.StorageClass {
	c.AllowedTopologies = []v1.TopologySelectorTerm{{MatchLabelExpressions: []v1.TopologySelectorLabelRequirement{
		{Key: v1.LabelTopologyZone, Values: []string{"x"}},
	}}}
	return c
}

func few(c v1.TopologySpreadConstraint, minDomains int32) v1.TopologySpreadConstraint {
	c.MinDomains = &minDomains
	return c
}

func ofClass(c *resourcev1.ResourceClaim, class string) *resourcev1.ResourceClaim {
	c.Spec.Devices.Requests[0].Exactly.DeviceClassName = class
	return c
}

func (x *lack) check(t *testing.T, plugin string, i int) {
	told := tried
	if x.told != nil {
		told = x.told
	}
	all, nodes := told(t, x)
	var causes []string
	for _, cause := range all {
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
	if x.node != "" && !slices.Contains(nodes, x.node) {
		t.Errorf("scene %d: got %q of the closest nodes, want %q", i, nodes, x.node)
	}
}

// tried has a scheduler try the pod, and explains it.
func tried(t *testing.T, x *lack) (causes []*pb.Cause, lacks []string) {
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
	for _, n := range out.Closest {
		lacks = append(lacks, strings.Join(n.Shortfalls, "; "))
	}
	return out.Causes, lacks
}
