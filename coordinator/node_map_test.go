package coordinator

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	v1 "k8s.io/api/core/v1"

	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/coordinator/observe"
	"github.com/shardsched/shardsched/internal/testkit/build"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// mappedAtOnce and maxMapNames are as package observe has them.
const mappedAtOnce, maxMapNames = 2048, 1000

// mapNow takes all steps of a map.
func (x *trial) mapNow(t testing.TB, req *pb.GetNodeMapRequest) (*pb.GetNodeMapResponse, []string, error) {
	t.Helper()
	if err := req.Validate(); err != nil {
		t.Fatal(err)
	}
	m, err := observe.NewNodeMap(req, x.state)
	if err != nil {
		return nil, nil, err
	}
	defer m.End()
	for explainer := x.explainer(); !m.Step(explainer); {
	}
	return m.Answer()
}

// mapLines words a map: each group, then each node of it with what is told.
func mapLines(t testing.TB, out *pb.GetNodeMapResponse, names []string) (lines []string) {
	t.Helper()
	if len(out.Cells) != 2*len(names) || int(out.Nodes) != len(names) {
		t.Fatalf("got %d nodes, %d bytes, %d names; want two bytes and a name for each node", out.Nodes, len(out.Cells), len(names))
	}
	at := 0
	for _, g := range out.Groups {
		lines = append(lines, strings.Join(g.Values, "/"))
		for range g.Nodes {
			cell := binary.LittleEndian.Uint16(out.Cells[2*at:])
			if cell >= 1<<15 {
				lines = append(lines, fmt.Sprintf(" %s: %s", names[at], out.Classes[cell-1<<15].Text))
			} else {
				s := out.Scale
				value := float64(s.Low) + float64(cell)/1000*float64(s.High-s.Low)
				lines = append(lines, fmt.Sprintf(" %s: %g %s", names[at], value, s.Unit))
			}
			at++
		}
	}
	return lines
}

// racks is a small cluster whose nodes differ in all that a map tells.
func racks() *objects.Snapshot {
	node := func(name, zone, rack string) *build.NodeBuilder {
		return build.Node(name).CPU("4").Memory("8Gi").Label(v1.LabelTopologyZone, zone).Label("rack", rack)
	}
	return &objects.Snapshot{
		Nodes: []*v1.Node{
			node("d", "b", "1").Obj(), node("c", "b", "1").Taint("gpu=yes:NoSchedule").Obj(), node("b", "a", "2").Obj(), node("a", "a", "1").Unschedulable().Obj(),
			build.Node("e").CPU("0").Memory("8Gi").Obj(),
		},
		Pods: []*v1.Pod{
			build.Pod("there").CPU("1").Memory("1Gi").Node("d").Obj(), build.Pod("full").CPU("4").Node("b").Obj(), build.Pod("more").CPU("5").Node("c").Obj(),
			build.Pod("p").CPU("1500m").Memory("1Gi").Obj(),
		},
	}
}

func TestAMapTellsOneThingOfEachNode(t *testing.T) {
	x := newTrial(t, SchedulerConfig{Shards: 2}, 0)
	defer x.fanout.Close()
	x.Load(racks(), nil)
	shard := func(node string) string {
		row, _ := x.state.RowOf(node)
		return fmt.Sprint("shard ", row.Shard)
	}
	for _, c := range []struct {
		what string
		req  *pb.GetNodeMapRequest
		want []string
		note string
	}{
		{"share of cpu", &pb.GetNodeMapRequest{}, []string{"", " e: has no cpu", "a", " a: 0 %", " b: 100 %", "b", " c: more cpu is requested than there is", " d: 25 %"}, ""},
		{
			"share of memory by rack", &pb.GetNodeMapRequest{Resource: "memory", GroupLabels: []string{"rack", v1.LabelTopologyZone}},
			[]string{"/", " e: 0 %", "1/a", " a: 0 %", "1/b", " c: 0 %", " d: 12.5 %", "2/a", " b: 0 %"}, "",
		},
		{"a resource that nobody has", &pb.GetNodeMapRequest{Resource: "gpu"}, []string{"", " e: has no gpu", "a", " a: has no gpu", " b: has no gpu", "b", " c: has no gpu", " d: has no gpu"}, ""},
		{
			"taints", &pb.GetNodeMapRequest{Colour: pb.NodeColour_NODE_COLOUR_TAINTS},
			[]string{"", " e: nothing keeps pods off", "a", " a: cordoned", " b: nothing keeps pods off", "b", " c: gpu=yes:NoSchedule", " d: nothing keeps pods off"}, "",
		},
		{
			"shards", &pb.GetNodeMapRequest{Colour: pb.NodeColour_NODE_COLOUR_SHARD},
			[]string{"", " e: " + shard("e"), "a", " a: " + shard("a"), " b: " + shard("b"), "b", " c: " + shard("c"), " d: " + shard("d")}, "",
		},
		{
			"room for a size", &pb.GetNodeMapRequest{Colour: pb.NodeColour_NODE_COLOUR_ROOM, Size: "cpu=1,memory=1Gi"},
			[]string{"", " e: 0 pods", "a", " a: cordoned", " b: 0 pods", "b", " c: 0 pods", " d: 3 pods"}, "",
		},
		{
			"room for pods like one", &pb.GetNodeMapRequest{Colour: pb.NodeColour_NODE_COLOUR_ROOM, Namespace: "default", Name: "p"},
			[]string{"", " e: refused by NodeResourcesFit", "a", " a: refused by NodeUnschedulable", " b: refused by NodeResourcesFit", "b", " c: refused by TaintToleration", " d: 2 pods"}, "",
		},
		{
			"the score of a plugin", &pb.GetNodeMapRequest{Colour: pb.NodeColour_NODE_COLOUR_SCORE, Namespace: "default", Name: "there", Plugin: "TaintToleration"},
			[]string{"", " e: refused by NodeResourcesFit", "a", " a: refused by NodeUnschedulable", " b: refused by NodeResourcesFit", "b", " c: refused by TaintToleration", " d: 100 points"}, "",
		},
	} {
		out, names, err := x.mapNow(t, c.req)
		if err != nil {
			t.Fatalf("%s: %v", c.what, err)
		}
		wantLines(t, c.what, mapLines(t, out, names), c.want...)
		if out.Note != c.note {
			t.Errorf("%s: got note %q, want %q", c.what, out.Note, c.note)
		}
	}
}

// What a map tells of a pod is what an explanation tells of it.
func TestAMapOfAPodSaysWhatItsExplanationSays(t *testing.T) {
	x := newTrial(t, SchedulerConfig{Shards: 3, Profiles: withoutPreemption()}, 0)
	defer x.fanout.Close()
	x.Load(&objects.Snapshot{Nodes: manyNodes(), Pods: []*v1.Pod{
		build.Pod("there").CPU("2").Label("a", "b").Node("n00003").Obj(),
		build.Pod("p").CPU("2").Label("a", "b").Apart(build.Around(v1.LabelHostname, "a=b")).Nominated("n00007").Obj(),
	}}, nil)
	all, err := x.explainNow(&pb.ExplainRequest{Namespace: "default", Name: "p", AllNodes: true})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{}
	low, high := int64(1<<62), int64(0)
	for _, v := range all.Verdicts {
		if v.Scored != nil {
			want[v.Node] = fmt.Sprint(v.Scored.Score)
			low, high = min(low, v.Scored.Score), max(high, v.Scored.Score)
		} else {
			want[v.Node] = "refused by " + v.Refused.Plugin
		}
	}
	before := x.rows()
	out, names, err := x.mapNow(t, &pb.GetNodeMapRequest{Colour: pb.NodeColour_NODE_COLOUR_SCORE, Namespace: "default", Name: "p"})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(before, x.rows()) {
		t.Error("the tables have changed")
	}
	if out.Scale.GetLow() != low || out.Scale.GetHigh() != high || out.Scale.GetNodes() != all.Feasible || len(names) != len(want) {
		t.Fatalf("got scale %v and %d nodes, want %d to %d on %d nodes of %d", out.Scale, len(names), low, high, all.Feasible, len(want))
	}
	for i, name := range names {
		got := ""
		if cell := binary.LittleEndian.Uint16(out.Cells[2*i:]); cell >= 1<<15 {
			got = out.Classes[cell-1<<15].Text
		} else {
			got = fmt.Sprint(low + int64(float64(cell)/1000*float64(high-low)+0.5))
		}
		if got != want[name] {
			t.Fatalf("node %s: got %q, want %q", name, got, want[name])
		}
	}
}

func TestMapsThatCanNotBeMade(t *testing.T) {
	x := newTrial(t, SchedulerConfig{Shards: 2}, 0)
	defer x.fanout.Close()
	x.Load(racks(), nil)
	for _, c := range []struct {
		req  *pb.GetNodeMapRequest
		code codes.Code
		text string
	}{
		{&pb.GetNodeMapRequest{Colour: pb.NodeColour_NODE_COLOUR_SCORE, Namespace: "default", Name: "none"}, codes.NotFound, "pod default/none is not known"},
		{&pb.GetNodeMapRequest{Colour: pb.NodeColour_NODE_COLOUR_SCORE, Namespace: "default", Name: "p", Plugin: "Nothing"}, codes.InvalidArgument, `got "Nothing"`},
		{&pb.GetNodeMapRequest{Colour: pb.NodeColour_NODE_COLOUR_ROOM, Size: "cpu"}, codes.InvalidArgument, `size: want resource=quantity, as in cpu=500m,memory=2Gi, got "cpu"`},
		{&pb.GetNodeMapRequest{Colour: pb.NodeColour_NODE_COLOUR_ROOM, Size: "cpu=1,cpu=2"}, codes.InvalidArgument, "size: cpu is given twice"},
		{&pb.GetNodeMapRequest{Colour: pb.NodeColour_NODE_COLOUR_ROOM, Size: "cpu=-1"}, codes.InvalidArgument, "size: cpu: want 0 or more, got -1"},
		{&pb.GetNodeMapRequest{Colour: pb.NodeColour_NODE_COLOUR_ROOM, Size: "memory=much"}, codes.InvalidArgument, `size: memory: want a quantity such as 500m or 2Gi, got "much"`},
	} {
		_, _, err := x.mapNow(t, c.req)
		if s := status.Convert(err); s.Code() != c.code || !strings.Contains(s.Message(), c.text) {
			t.Errorf("%v: got %v, want %v: %s", c.req, err, c.code, c.text)
		}
	}
}

// A pod that is refused before nodes are looked at leaves no node out of its map, and the map says why.
func TestAMapOfAPodThatIsNotJudged(t *testing.T) {
	x := newTrial(t, SchedulerConfig{Shards: 2}, 0)
	defer x.fanout.Close()
	cluster := racks()
	theirs := build.Pod("theirs").Node("d").Obj()
	theirs.Spec.SchedulerName = "other"
	cluster.Pods = append(cluster.Pods, build.Pod("lost").Claim("none").Obj(), theirs)
	x.Load(cluster, nil)
	for name, why := range map[string]string{"lost": "persistentvolumeclaim", "theirs": "its schedulerName is other"} {
		out, names, err := x.mapNow(t, &pb.GetNodeMapRequest{Colour: pb.NodeColour_NODE_COLOUR_SCORE, Namespace: "default", Name: name})
		if err != nil {
			t.Fatal(err)
		}
		if len(names) != 5 || len(out.Classes) != 1 || out.Classes[0].Text != "the pod is not judged" || !strings.Contains(out.Note, why) {
			t.Errorf("pod %s: got %d nodes, classes %v, note %q; want 5, none judged, and %q", name, len(names), out.Classes, out.Note, why)
		}
	}
}

// The cells of 100,000 nodes take two bytes each, and what comes with them little.
func TestBytesOfAMap(t *testing.T) {
	x := bigMap(t, 100_000)
	for _, req := range mapsToMeasure() {
		out, _, err := x.mapNow(t, req)
		if err != nil {
			t.Fatal(err)
		}
		if got, most := proto.Size(out), 2*int(out.Nodes)+16<<10; out.Nodes != 100_000 || got > most {
			t.Errorf("%v: got %d bytes for %d nodes, want %d at the most", req, got, out.Nodes, most)
		}
	}
}

func mapsToMeasure() []*pb.GetNodeMapRequest {
	return []*pb.GetNodeMapRequest{
		{GroupLabels: []string{v1.LabelTopologyZone, "rack"}},
		{Colour: pb.NodeColour_NODE_COLOUR_TAINTS},
		{Colour: pb.NodeColour_NODE_COLOUR_SCORE, Namespace: "default", Name: "p"},
		{Colour: pb.NodeColour_NODE_COLOUR_ROOM, Size: "cpu=1,memory=1Gi"},
	}
}

// bigMap is a cluster of so many nodes in three zones of 40 racks, and a pod that three of four nodes take.
func bigMap(t testing.TB, nodes int) *trial {
	x := newTrial(t, SchedulerConfig{Shards: 8, Profiles: withoutPreemption()}, 0)
	t.Cleanup(x.fanout.Close)
	cluster := &objects.Snapshot{Pods: []*v1.Pod{build.Pod("p").CPU("2").Memory("1Gi").Obj()}}
	for i := range nodes {
		n := build.Node(fmt.Sprintf("node-%06d", i)).CPU(fmt.Sprint(1+i%4)).Memory("8Gi").Label(v1.LabelTopologyZone, fmt.Sprint("zone-", i%3)).Label("rack", fmt.Sprint("rack-", i%40))
		if i%100 == 0 {
			n = n.Taint("gpu=yes:NoSchedule")
		}
		cluster.Nodes = append(cluster.Nodes, n.Obj())
	}
	x.Load(cluster, nil)
	return x
}

// A step of a map looks at so many nodes and no more, and groups and classes that are too many are told together.
func TestAMapIsMadeInSteps(t *testing.T) {
	x := newTrial(t, SchedulerConfig{Shards: 3}, 0)
	defer x.fanout.Close()
	const nodes = 3*mappedAtOnce + 7
	cluster := &objects.Snapshot{}
	for i := range nodes {
		cluster.Nodes = append(cluster.Nodes, build.Node(fmt.Sprintf("n%05d", i)).CPU("1").Label("own", fmt.Sprintf("%05d", i)).Taint(fmt.Sprintf("own=%05d:NoSchedule", i)).Obj())
	}
	x.Load(cluster, nil)
	m, err := observe.NewNodeMap(&pb.GetNodeMapRequest{GroupLabels: []string{"own"}, Colour: pb.NodeColour_NODE_COLOUR_TAINTS}, x.state)
	if err != nil {
		t.Fatal(err)
	}
	defer m.End()
	if steps := stepsOf(t, func() bool {
		before := m.Looked()
		last := m.Step(x.explainer())
		if n := m.Looked() - before; n > mappedAtOnce {
			t.Errorf("a step looked at %d nodes, want %d at the most", n, mappedAtOnce)
		}
		return last
	}); steps != 4 {
		t.Errorf("got %d steps, want 4", steps)
	}
	out, names, err := m.Answer()
	if err != nil {
		t.Fatal(err)
	}
	groups, classes := out.Groups, out.Classes
	if n := len(groups); n != 2048 || groups[0].Values[0] != "00000" || groups[n-1].Values != nil || groups[n-1].Nodes != nodes-2047 {
		t.Errorf("got %d groups, the last %v; want 2048, the last of %d nodes without values", n, groups[n-1], nodes-2047)
	}
	if n := len(classes); n != 256 || classes[n-1].Text != "others" || classes[n-1].Nodes != nodes-255 {
		t.Errorf("got %d classes, the last %v; want 256, the last others of %d nodes", n, classes[n-1], nodes-255)
	}
	if len(names) != nodes || !slices.IsSorted(names) {
		t.Errorf("got %d names, sorted: %v; want %d, sorted", len(names), slices.IsSorted(names), nodes)
	}
}

// Names are those of the map that was looked at, whatever has become of the nodes since, until the map is forgotten.
func TestNamesByTheirPlaces(t *testing.T) {
	nodes := nodesOf("4", "a", "b", "c")
	runScenario(t, clusterOf(nodes), nil, func(x *scenario) {
		look := func() *pb.GetNodeMapResponse {
			out, err := x.NodeMap(x.ctx, &pb.GetNodeMapRequest{})
			if err != nil {
				t.Fatal(err)
			}
			return out
		}
		first := look()
		x.inbox.put(func() { x.intake.RemoveNode(nodes[0]) })
		second := look()
		if again := look(); again.Fingerprint != second.Fingerprint || first.Fingerprint == second.Fingerprint {
			t.Errorf("got fingerprints %d, %d, %d; want the last two alike", first.Fingerprint, second.Fingerprint, again.Fingerprint)
		}
		for _, c := range []struct {
			req  *pb.ListMapNodesRequest
			want string
		}{
			{&pb.ListMapNodesRequest{Fingerprint: first.Fingerprint}, "a b c"},
			{&pb.ListMapNodesRequest{Fingerprint: first.Fingerprint, First: 1, Limit: 1}, "b"},
			{&pb.ListMapNodesRequest{Fingerprint: second.Fingerprint, First: 1, Limit: 5}, "c"},
			{&pb.ListMapNodesRequest{Fingerprint: second.Fingerprint, First: 9}, ""},
		} {
			out, err := x.MapNodes(x.ctx, c.req)
			if got := strings.Join(out.GetNames(), " "); err != nil || got != c.want {
				t.Errorf("%v: got %q, %v; want %q", c.req, got, err, c.want)
			}
		}
		var names observe.MapNames
		names.Keep(1, make([]string, 2*maxMapNames))
		if out, _ := names.List(&pb.ListMapNodesRequest{Fingerprint: 1}); len(out.GetNames()) != maxMapNames {
			t.Errorf("got %d names at once, want %d", len(out.GetNames()), maxMapNames)
		}
		for i := range uint64(4) {
			names.Keep(2+i, nil)
		}
		if _, err := names.List(&pb.ListMapNodesRequest{Fingerprint: 1}); status.Code(err) != codes.Aborted {
			t.Errorf("a map that is forgotten: got %v, want ABORTED", err)
		}
	})
}

func TestFragmentation(t *testing.T) {
	x := newTrial(t, SchedulerConfig{Shards: 2}, 0)
	defer x.fanout.Close()
	cluster := racks()
	cluster.Pods = append(cluster.Pods, build.Pod("fat").CPU("100m").Memory("8Gi").Node("d").Obj())
	x.Load(cluster, nil)
	f := observe.NewFragmentation(x.state)
	stepsOf(t, f.Read().Step)
	out := f.Answer()
	var lines []string
	for _, r := range out.Resources {
		lines = append(lines, fmt.Sprintf("%s: %d of %d %v, cordoned %d, stranded %d on %d, largest %d on %s", r.Resource, r.Requested, r.Allocatable, r.NodesByDecile, r.Cordoned,
			r.Stranded, r.StrandedNodes, r.Largest, r.LargestNode))
	}
	const gi = 1 << 30
	wantLines(t, "resources", lines,
		// Of b and c the cpu is used up, and strands memory; of d memory is, and strands cpu.
		"cpu: 10100 of 16000 [1 0 1 0 0 0 0 0 0 2], cordoned 4000, stranded 2900 on 1, largest 2900 on d",
		fmt.Sprintf("memory: %d of %d [4 0 0 0 0 0 0 0 0 1], cordoned %d, stranded %d on 2, largest %d on %s", 9*gi, 40*gi, 8*gi, 16*gi, 8*gi, out.Resources[1].LargestNode),
		"pods: 4 of 550 [5 0 0 0 0 0 0 0 0 0], cordoned 110, stranded 0 on 0, largest 110 on e")
	if out.Nodes != 5 || out.CordonedNodes != 1 || out.LeftOut != 0 {
		t.Errorf("got %d nodes, %d cordoned, %d left out; want 5, 1, 0", out.Nodes, out.CordonedNodes, out.LeftOut)
	}
}

// Of resources that every node has of its own, so many are told and the others counted; a step takes so many nodes.
func TestFragmentationIsBounded(t *testing.T) {
	x := newTrial(t, SchedulerConfig{Shards: 3}, 0)
	defer x.fanout.Close()
	cluster := &objects.Snapshot{}
	for i := range 2*mappedAtOnce + 1 {
		n := build.Node(fmt.Sprintf("n%05d", i)).CPU("1").Memory("1Gi")
		if i < 300 {
			n = n.Resource(fmt.Sprintf("example.com/r%d", i), "1")
		}
		cluster.Nodes = append(cluster.Nodes, n.Obj())
	}
	x.Load(cluster, nil)
	f := observe.NewFragmentation(x.state)
	if steps := stepsOf(t, f.Read().Step); steps != 3 {
		t.Errorf("got %d steps, want 3", steps)
	}
	if out := f.Answer(); len(out.Resources) != 256 || out.LeftOut != 47 {
		t.Errorf("got %d resources and %d left out, want 256 and 47", len(out.Resources), out.LeftOut)
	}
}

// What the loop does for a map of 100,000 nodes, and what is done without it.
func BenchmarkNodeMap(b *testing.B) {
	x := bigMap(b, 100_000)
	for _, req := range mapsToMeasure() {
		b.Run(strings.ReplaceAll(fmt.Sprint(req.Colour, " ", req.Size), " ", "_"), func(b *testing.B) {
			size := 0
			for b.Loop() {
				out, _, err := x.mapNow(b, req)
				if err != nil {
					b.Fatal(err)
				}
				size = proto.Size(out)
			}
			b.ReportMetric(float64(size), "bytes")
		})
	}
}
