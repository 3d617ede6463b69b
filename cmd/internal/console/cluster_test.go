package console

import (
	"encoding/binary"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/net/html"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/shardsched/shardsched/cmd/internal/nodemap"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// mainText is the text of a page's main part, with one space between words.
func mainText(t *testing.T, page string) string {
	t.Helper()
	var words []string
	elements(t, page, func(n *html.Node) {
		if n.Data != "main" {
			return
		}
		for d := range n.Descendants() {
			if d.Type == html.TextNode {
				words = append(words, strings.Fields(d.Data)...)
			}
		}
	})
	return strings.Join(words, " ")
}

func TestTheMapIsTheOneThatIsAskedFor(t *testing.T) {
	room, score := pb.NodeColour_NODE_COLOUR_ROOM, pb.NodeColour_NODE_COLOUR_SCORE
	for _, c := range []struct {
		query, command string
		want           *pb.GetNodeMapRequest
	}{
		{"", "shardsched top zones --address h:1", &pb.GetNodeMapRequest{}},
		{"resource=memory&pod=a/b&size=cpu%3D1", "shardsched top zones --resource memory --address h:1", &pb.GetNodeMapRequest{Resource: "memory"}},
		{"tell=taints&by=zone,+rack&resource=cpu", "shardsched top zones --by zone,rack --tell taints --address h:1", &pb.GetNodeMapRequest{Colour: pb.NodeColour_NODE_COLOUR_TAINTS, GroupLabels: []string{"zone", "rack"}}},
		{"tell=shard", "shardsched top zones --tell shard --address h:1", &pb.GetNodeMapRequest{Colour: pb.NodeColour_NODE_COLOUR_SHARD}},
		{"tell=score&pod=shop/web-0&plugin=ImageLocality", "shardsched top zones --tell score --plugin ImageLocality --pod shop/web-0 --address h:1", &pb.GetNodeMapRequest{Colour: score, Namespace: "shop", Name: "web-0", Plugin: "ImageLocality"}},
		{"tell=room&size=cpu%3D1", "shardsched top zones --tell room --size cpu=1 --address h:1", &pb.GetNodeMapRequest{Colour: room, Size: "cpu=1"}},
		{"tell=room&pod=shop/web-0", "shardsched top zones --tell room --pod shop/web-0 --address h:1", &pb.GetNodeMapRequest{Colour: room, Namespace: "shop", Name: "web-0"}},
	} {
		s := &scheduler{nodeMap: &pb.GetNodeMapResponse{Nodes: 1, Groups: []*pb.NodeGroup{{Values: []string{"a"}, Nodes: 1}}, Cells: []byte{0, 128}, Classes: []*pb.NodeClass{{Text: "x", Nodes: 1}}}}
		w := ask(newConsole(t, s), "GET", Path+"cluster?"+c.query)
		if d := cmp.Diff(c.want, s.mapped, protocmp.Transform()); d != "" || s.mapped.Validate() != nil {
			t.Errorf("%s: %v (-want +got):\n%s", c.query, s.mapped.Validate(), d)
		}
		if text := mainText(t, w.Body.String()); !strings.Contains(text, c.command+" Download") {
			t.Errorf("%s: got %q, want the command %q", c.query, text, c.command)
		}
	}
}

func TestAMapThatCanNotBeShownSaysWhy(t *testing.T) {
	for query, want := range map[string]string{
		"tell=colours":           `There is no map of "colours".`,
		"tell=score":             "Name the pod as namespace/name",
		"tell=score&pod=web-0":   "Name the pod as namespace/name",
		"tell=room":              "give a size or a pod",
		"tell=score&pod=shop/no": "pod shop/no is not known",
	} {
		s := &scheduler{mapErr: status.Error(codes.NotFound, "pod shop/no is not known")}
		w := ask(newConsole(t, s), "GET", Path+"cluster?"+query)
		if text := mainText(t, w.Body.String()); w.Code != http.StatusOK || !strings.Contains(text, want) || !strings.Contains(text, "Fragmentation") {
			t.Errorf("%s: got %d, %q; want %q, and what is left all the same", query, w.Code, text, want)
		}
	}
	s := &scheduler{mapErr: status.Error(codes.ResourceExhausted, "8 are under way")}
	if w := ask(newConsole(t, s), "GET", Path+"cluster"); w.Code != http.StatusTooManyRequests {
		t.Errorf("a busy coordinator: got %d, want 429", w.Code)
	}
	s = &scheduler{nodeMap: &pb.GetNodeMapResponse{Cells: []byte{1, 2}}}
	if w := ask(newConsole(t, s), "GET", Path+"cluster"); w.Code != http.StatusInternalServerError {
		t.Errorf("an answer that is no map: got %d, want 500", w.Code)
	}
}

func TestWhatAMapShows(t *testing.T) {
	cell := binary.LittleEndian.AppendUint16
	s := &scheduler{
		nodeMap: &pb.GetNodeMapResponse{
			Fingerprint: 1<<63 + 7, Nodes: 4, Groups: []*pb.NodeGroup{{Values: []string{"zone-a", "r1"}, Nodes: 3}, {Values: []string{"zone-b", ""}, Nodes: 1}},
			Cells: cell(cell(cell(cell(nil, 0), 990), 32768), 32768), Scale: &pb.NodeScale{High: 100, Unit: "%", Nodes: 2}, Classes: []*pb.NodeClass{{Text: "has no cpu", Nodes: 2}},
		},
		fragmentation: &pb.GetFragmentationResponse{LeftOut: 3, Resources: []*pb.ResourceFragmentation{
			{Resource: "cpu", Allocatable: 10000, Requested: 4000, Cordoned: 1000, Stranded: 2000, StrandedNodes: 2, Largest: 1500, LargestNode: "n 1", NodesByDecile: []uint32{1, 0, 0, 0, 2, 0, 0, 0, 0, 1200}},
		}},
	}
	c := newConsole(t, s)
	page := ask(c, "GET", Path+"cluster?group=zone-a").Body.String()
	text := mainText(t, page)
	for _, want := range []string{
		"0 to 17 % 1 node", "83 to 100 % 1 node", "has no cpu 2 nodes", "zone-a / r1 3 0 % 50 % 99 % 1 has no cpu", "Of 4 nodes: the requested share of cpu.",
		"cpu 4 40 % of 10 6 1 2 on 2 nodes 1.5 n 1 1 · 0 · 0 · 0 · 2 · 0 · 0 · 0 · 0 · 1,200", "3 more resources not shown.",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("got %q, want it to have %q", text, want)
		}
	}
	if strings.Contains(text, "zone-b") {
		t.Errorf("got %q, want zone-b left out", text)
	}
	elements(t, page, func(n *html.Node) {
		if attribute(n, "id") == "mapbox" {
			want := `{"fingerprint":"9223372036854775815","groups":[{"name":"zone-a / r1","nodes":3,"shown":true},{"name":"zone-b / (none)","nodes":1,"shown":false}],` +
				`"classes":["has no cpu"],"low":0,"high":100,"unit":"%","what":"the requested share of cpu"}`
			if got := attribute(n, "data-about"); got != want || attribute(n, "data-cells") != "AADeAwCAAIA=" {
				t.Errorf("got %s and %s, want %s", got, attribute(n, "data-cells"), want)
			}
		}
	})
}

// The script reads cells as the Go code does.
func TestTheScriptOfTheMapHasItsNumbers(t *testing.T) {
	text, err := os.ReadFile("assets/cluster.js")
	if err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("firstClass = %d, steps = %d, ramp = %d, classColours = %d;", nodemap.FirstClass, nodemap.Steps, ramp, classColours)
	if !strings.Contains(string(text), want) {
		t.Errorf("assets/cluster.js: want %q", want)
	}
}

// Frames of classes are seen on the background, light and dark.
func TestColoursOfTheMapAreSeen(t *testing.T) {
	var backs []string
	for _, name := range []string{"style.css", "cluster.css"} {
		text, err := os.ReadFile("assets/" + name)
		if err != nil {
			t.Fatal(err)
		}
		colours := regexp.MustCompile(`--(back|class-\d): #([0-9a-f]{6})`).FindAllStringSubmatch(string(text), -1)
		for i, m := range colours {
			if m[1] == "back" {
				backs = append(backs, m[2])
				continue
			}
			a, b := luminance(m[2]), luminance(backs[i*len(backs)/len(colours)])
			if ratio := (max(a, b) + .05) / (min(a, b) + .05); ratio < 3 {
				t.Errorf("%s: got a contrast of %.1f, want 3", m[0], ratio)
			}
		}
	}
	if len(backs) != 2 {
		t.Errorf("got %d backgrounds, want 2", len(backs))
	}
}

// bigMap is the map of so many nodes in 120 racks.
func bigMap(nodes int) *pb.GetNodeMapResponse {
	m := &pb.GetNodeMapResponse{Nodes: uint32(nodes), Scale: &pb.NodeScale{High: 100, Unit: "%", Nodes: uint32(nodes)}}
	for i := range 120 {
		m.Groups = append(m.Groups, &pb.NodeGroup{Values: []string{fmt.Sprint("zone-", i%3), fmt.Sprint("rack-", i/3)}, Nodes: uint32(nodes*(i+1)/120 - nodes*i/120)})
	}
	for i := range nodes {
		m.Cells = binary.LittleEndian.AppendUint16(m.Cells, uint16(i%1001))
	}
	return m
}

// A page of 100,000 cells, with all that it loads, is below a quarter of 2 MB: three bytes for each cell, and what comes with them.
func TestBytesOfAPageOfAMap(t *testing.T) {
	const nodes = 100_000
	c := newConsole(t, &scheduler{nodeMap: bigMap(nodes)})
	page := ask(c, "GET", Path+"cluster").Body.String()
	all := len(page)
	elements(t, page, func(n *html.Node) {
		to := attribute(n, "src")
		if n.Data == "link" {
			to = attribute(n, "href")
		}
		if to != "" {
			all += ask(c, "GET", Path+strings.TrimPrefix(to, "./")).Body.Len()
		}
	})
	if most := 3*nodes + 128<<10; all > most || len(page) < 2*nodes {
		t.Errorf("got %d bytes, %d of the page; want %d at the most", all, len(page), most)
	}
}

func TestManyGroupsAreLeftOutOfTheTable(t *testing.T) {
	m := &pb.GetNodeMapResponse{Nodes: 600, Cells: make([]byte, 1200), Scale: &pb.NodeScale{High: 100, Unit: "%", Nodes: 600}}
	for i := range 600 {
		m.Groups = append(m.Groups, &pb.NodeGroup{Values: []string{fmt.Sprintf("g%03d", i)}, Nodes: 1})
	}
	text := mainText(t, ask(newConsole(t, &scheduler{nodeMap: m}), "GET", Path+"cluster").Body.String())
	if !strings.Contains(text, "100 more groups not shown") || !strings.Contains(text, "g499") || strings.Contains(text, "g500") {
		t.Errorf("got %q, want 500 groups of 600", text)
	}
}

func TestANodeIsShown(t *testing.T) {
	s := &scheduler{
		node: &pb.ExplainNodeResponse{
			Node: "n1", Pods: 3, PodsLeftOut: 1, Shard: 4, KeepsOff: []string{"cordoned (spec.unschedulable)"}, Stranded: []string{"69 % of cpu: memory is used up"},
			Labels: []string{"a=b", "topology.kubernetes.io/zone=z1"}, Taints: []string{"x=y:NoSchedule"},
			Amounts: []*pb.NodeAmount{{Resource: "cpu", Allocatable: 8000, Requested: 2000}},
			OnNode: []*pb.NodePod{
				{Namespace: "shop", Name: "db-0", Priority: 7, Controller: "StatefulSet db", Requests: []*pb.ResourceQuantity{{Resource: "cpu", Quantity: 1500}}},
				{Namespace: "shop", Name: "web-1", Assumed: true},
			},
		},
		devices:     []*pb.DeviceStatus{{Node: "n1", Driver: "gpu.example.com", Pool: "n1", Device: "gpu-0", InUseBy: []string{"shop/claim"}}},
		pending:     &pb.ListPendingResponse{Groups: []*pb.PendingGroup{{Kind: "Job", Namespace: "lab", Name: "train", Pods: 40, Example: "lab/train-1"}}},
		explanation: &pb.ExplainResponse{Verdicts: []*pb.NodeVerdict{{Node: "n1", Refused: &pb.RefusedNode{Plugin: "NodeResourcesFit", Shortfalls: []string{"cpu: short by 2"}}}}},
	}
	c := newConsole(t, s)
	text := mainText(t, ask(c, "GET", Path+"node?name=n1").Body.String())
	for _, want := range []string{
		"keeps pods off", "Zone z1", "Shard 4", "Keeps pods off: cordoned", "Stranded: 69 % of cpu", "cpu 8 2 25 % 6", "shop/db-0 7 cpu 1.5 StatefulSet db on the node",
		"shop/web-1 0 nothing – being bound", "1 more pod not shown.", "gpu-0 gpu.example.com n1 shop/claim", "x=y:NoSchedule", "shardsched explain node n1 --address h:1",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("got %q, want it to have %q", text, want)
		}
	}
	if s.explained != nil {
		t.Errorf("a pod was explained that nobody has asked for: %v", s.explained)
	}
	held := mainText(t, ask(c, "GET", Path+"node?name=n1&pending=1").Body.String())
	if want := "Job lab/train 40 lab/train-1 NodeResourcesFit: cpu: short by 2"; !strings.Contains(held, want) || s.explained.GetNodeNames()[0] != "n1" {
		t.Errorf("got %q, want it to have %q", held, want)
	}
	s.node, s.err = nil, status.Error(codes.NotFound, "node n2 is not known")
	if w := ask(c, "GET", Path+"node?name=n2"); w.Code != http.StatusNotFound {
		t.Errorf("a node that is not there: got %d, want 404", w.Code)
	}
}

func BenchmarkClusterPage(b *testing.B) {
	c := newConsole(b, &scheduler{nodeMap: bigMap(100_000)})
	size := 0
	for i := 0; b.Loop(); i++ {
		size = ask(c, "GET", Path+"cluster?by=rack"+fmt.Sprint(i)).Body.Len() // another request each time: answers are shared
	}
	b.ReportMetric(float64(size), "bytes")
}
