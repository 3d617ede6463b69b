package console

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// rows are the cells of each row of a page's table with that caption, joined.
func rows(t *testing.T, page, caption string) (all []string) {
	t.Helper()
	elements(t, page, func(n *html.Node) {
		if n.Data != "table" || textOf(firstElement(n)) != caption {
			return
		}
		for row := range n.Descendants() {
			if row.Data != "tr" || row.Parent.Data != "tbody" {
				continue
			}
			var cells []string
			for c := range row.ChildNodes() {
				if c.Type == html.ElementNode {
					cells = append(cells, textOf(c))
				}
			}
			all = append(all, strings.Join(cells, " | "))
		}
	})
	return all
}

func textOf(n *html.Node) string {
	var b strings.Builder
	for d := range n.Descendants() {
		if d.Type == html.TextNode {
			b.WriteString(d.Data)
		}
	}
	return b.String()
}

func TestTheOverviewSaysHowItIs(t *testing.T) {
	well := &pb.Summary{Nodes: 5, Workers: []*pb.WorkerStatus{{Id: "a"}, {Id: "b"}}}
	sick := &pb.Summary{Nodes: 5, Workers: []*pb.WorkerStatus{{Id: "a", Quarantine: "lies"}, {Id: "b"}}}
	waits := &pb.Summary{Nodes: 5, PodsPending: 1234, PendingReasons: []*pb.PendingReason{{Reason: "Insufficient cpu", Pods: 1000}}}
	for _, test := range []struct {
		summary *pb.Summary
		want    []string
	}{
		{well, []string{`class="verdict good"`, "is healthy, and no pod is pending"}},
		{sick, []string{`class="verdict warn"`, "not with all its workers", "1 of 2 workers is not asked"}},
		{waits, []string{`class="verdict warn"`, "1,234 pods are pending, 1,000 of them for: Insufficient cpu."}},
		{&pb.Summary{}, []string{`class="verdict bad"`, "No node is known"}},
	} {
		page := ask(newConsole(t, &scheduler{summary: test.summary}), "GET", Path).Body.String()
		for _, want := range test.want {
			if !strings.Contains(page, want) {
				t.Errorf("%v: want %q in %s", test.summary, want, page)
			}
		}
	}
}

func TestTheOverviewDrawsTheLastMinutes(t *testing.T) {
	at := func(seconds int) *timestamppb.Timestamp {
		return timestamppb.New(noon.Add(time.Duration(seconds) * time.Second))
	}
	s := &pb.Summary{
		Nodes: 1, Term: 7, LeadingSince: at(-3600), Decisions: 400, PodsBound: 110, PodsPending: 3,
		Queues: []*pb.QueueLength{{Queue: "active", Pods: 2}, {Queue: "backoff"}, {Queue: "gated", Pods: 1}},
		Progress: []*pb.Progress{
			{Time: at(-20)}, {Time: at(-10), Decisions: 100, PodsBound: 50, PodsPending: 9}, {Time: at(-10), Decisions: 100, PodsBound: 50},
		},
		Stages: []*pb.StageLatency{{Stage: "bind", Metric: "m", Latency: &pb.Quantiles{Count: 4, P50: durationpb.New(2e6), P99: durationpb.New(3e9)}}},
	}
	page := ask(newConsole(t, &scheduler{summary: s}), "GET", Path).Body.String()
	var drawn []string
	elements(t, page, func(n *html.Node) {
		if of := attribute(n, "data-chart"); of != "" {
			var c struct {
				X      []float64
				Series []struct {
					Name   string
					Values []float64
				}
			}
			if err := json.Unmarshal([]byte(of), &c); err != nil {
				t.Fatal(err)
			}
			for _, s := range c.Series {
				drawn = append(drawn, fmt.Sprint(s.Name, s.Values, len(c.X)))
			}
			if attribute(n, "aria-label") == "" {
				t.Error("got a chart that says nothing to who does not see it")
			}
		}
	})
	if want := []string{"decided[10 30] 2", "bound[5 6] 2", "pending[9 3] 2"}; !slices.Equal(drawn, want) {
		t.Errorf("got %q, want %q", drawn, want)
	}
	if got, want := rows(t, page, "What the stages of an attempt take"), []string{"bind | 4 | 2.00 ms | 3.00 s | m"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	for _, want := range []string{"60m", "term 7", "2 active, 1 gated"} {
		if !strings.Contains(page, want) {
			t.Errorf("want %q in %s", want, page)
		}
	}
}

func TestTheWorkersPage(t *testing.T) {
	s := &scheduler{
		workers: []*pb.WorkerStatus{{Id: "a", Address: "h:1", Cores: 2, Shards: 1, Hedges: 7, Version: "v"}, {Id: "b"}},
		shards: []*pb.ShardStatus{
			{Shard: 0, Nodes: 9, Generation: 10, Workers: []string{"a", "b"}, Held: []uint64{10, 4}},
			{Shard: 1, Nodes: 8, Generation: 3, Workers: []string{"b"}, Held: []uint64{0}},
			{Shard: 2, Nodes: 7, Generation: 3},
			{Shard: 3, Nodes: 7, Generation: 3, Workers: []string{"a"}}, // its owner came after held was read
		},
	}
	c := newConsole(t, s)
	page := ask(c, "GET", Path+"workers").Body.String()
	want := []string{
		"ah:1 | asked | 2 | 1 | 0 | 0 | 7 | 0 | 0 | 0 | – | 0 | v",
		"b | asked | 0 | 0 | 0 | 0 | 0 | 9 | 0 | 0 | – | 0 | ",
	}
	if got := rows(t, page, "Workers"); !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	for filter, want := range map[string][]string{
		"":            {"0 | 9 | 10 | a, b (at 4)", "1 | 8 | 3 | b (at 0)", "2 | 7 | 3 | the coordinator", "3 | 7 | 3 | a"},
		"b":           {"0 | 9 | 10 | a, b (at 4)", "1 | 8 | 3 | b (at 0)"},
		"coordinator": {"2 | 7 | 3 | the coordinator"},
		"nobody":      {"No shard is held so."},
	} {
		page := ask(c, "GET", Path+link("workers", "worker", filter)).Body.String()
		if got := rows(t, page, "Shards"); !slices.Equal(got, want) {
			t.Errorf("%q: got %q, want %q", filter, got, want)
		}
	}
}

func TestThePluginsPageNamesTheCostliest(t *testing.T) {
	s := &scheduler{plugins: &pb.ListPluginsResponse{
		Uses: []*pb.PluginUse{
			{Profile: "a", Plugin: "CELFilter", ExtensionPoint: "Filter", Calls: 4, Took: durationpb.New(9e9), RowsIn: 3000, RowsOut: 30, Expressions: []string{"x", "y"}},
			{Profile: "b", Plugin: "NodePorts", ExtensionPoint: "Score", Calls: 1, Took: durationpb.New(1e9), RowsIn: 0},
			{Profile: "b", Plugin: "NodeName", ExtensionPoint: "Filter"}, {Profile: "b", Plugin: "ImageLocality", ExtensionPoint: "Score"},
		},
		Extenders: []*pb.ExtenderUse{{Extender: "http://gpu", Verb: "filter", Latency: &pb.Quantiles{Count: 3, Total: durationpb.New(60e9)}, Failures: 2}},
	}}
	c := newConsole(t, s)
	page := ask(c, "GET", Path+"plugins").Body.String()
	for _, want := range []string{`class="verdict warn"`, "CELFilter takes 90 % of the time", "of all its expressions together: x, y.", "http://gpu takes longer for filter"} {
		if !strings.Contains(page, want) {
			t.Errorf("want %q in %s", want, page)
		}
	}
	const caption = "Built-in plugins by profile, the costliest first"
	want := []string{
		"CELFilterexpressions: x, y | Filter | a | 9.00 s | 90 % | 4 | 3,000 | 30 | 1 % | 3.00 ms",
		"NodePorts | Score | b | 1.00 s | 10 % | 1 | 0 | 0 | – | 0 ns",
	}
	if got := rows(t, page, caption); len(got) != 4 || !slices.Equal(got[:2], want) {
		t.Errorf("got  %q\nwant %q first", got, want)
	}
	if got := rows(t, ask(c, "GET", Path+"plugins?profile=a").Body.String(), caption); !slices.Equal(got, want[:1]) {
		t.Errorf("profile a: got %q, want %q", got, want[:1])
	}
}

func TestTheConfigurationPage(t *testing.T) {
	plain := ask(newConsole(t, &scheduler{}), "GET", Path+"configuration").Body.String()
	if !strings.Contains(plain, "as kube-scheduler would") || !slices.Equal(rows(t, plain, "What is not as in the defaults"), []string{"All is as in the defaults."}) {
		t.Errorf("got %s", plain)
	}
	s := &scheduler{configuration: &pb.GetConfigurationResponse{
		Differences: []*pb.ConfigurationDifference{{Field: "parallelism", Value: "3"}},
		Departures:  []string{"profile a: X is not evaluated"}, NoEffect: []string{"parallelism: why"},
		Lacking:  []*pb.LackingPods{{What: "gangs", Pods: 4, Example: "shop/a"}},
		Profiles: []*pb.ProfileConfiguration{{Name: "a", Evaluated: []string{"NodeName", "NodePorts 2"}, NotEvaluated: []string{"X"}}},
	}}
	page := ask(newConsole(t, s), "GET", Path+"configuration").Body.String()
	for caption, want := range map[string]string{
		"What is not as in the defaults":                               "parallelism | – | 3",
		"Where kube-scheduler decides otherwise by this configuration": "profile a: X is not evaluated",
		"What has no effect":                                           "parallelism: why",
		"Pending pods that ask for what is not there":                  "gangs | 4 | shop/a",
		"Profiles as they run":                                         "a | NodeName, NodePorts 2 | – | X",
		"Extenders":                                                    "There is none.",
	} {
		if got := rows(t, page, caption); !slices.Equal(got, []string{want}) {
			t.Errorf("%s: got %q, want %q", caption, got, want)
		}
	}
	if !strings.Contains(page, `class="verdict warn"`) {
		t.Errorf("want a warning in %s", page)
	}
}
