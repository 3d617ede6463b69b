package shadow

import (
	"bytes"
	"encoding/json"
	"io"
	"reflect"
	"strings"
	"testing"
	"time"
)

// example is a report with something in each of its parts.
func example() *Report {
	begun := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	world := func(nodes, preempted int) World {
		return World{NodesInUse: nodes, Skew: 0.1, Pending: 2, PendingMinutes: 31.5, Preempted: preempted,
			Resources: []ResourceShare{{"cpu", 0.71, 0.02, 32_000}, {"memory", 0.55, 0.11, 64 << 30}}}
	}
	return &Report{
		When:    When{Begun: begun, Until: begun.Add(24 * time.Hour), Over: true},
		Cluster: Cluster{Nodes: 1204, Schedulers: []SchedulerPods{{"default-scheduler", 61_320, true}, {"batch", 12, false}}},
		Agreement: Agreement{
			Judged: 61_320, LookedAt: 0.08,
			Classes: []ClassCount{{Same, 60_000}, {Tie, 877}, {Lower, 429}, {Refused, 0}, {OnlyTheirs, 0}, {OnlyOurs, 14}, {Victims, 0}},
			Regret:  []RegretBin{{0, 0, 60_877}, {1, 1, 100}, {2, 3, 300}, {4, 7, 0}, {8, 15, 29}}, RegretSum: 1000,
			Workloads: []WorkloadRegret{{"Deployment", "shop", "web", 120, 40, 99, "web-1"}},
			Disagreements: []Disagreement{{When: begun, Class: OnlyOurs, Namespace: "shop", Pod: "web-1", Ours: "n7", Why: "n7 had room"},
				{When: begun, Class: Lower, Namespace: "shop", Pod: "web-2", Theirs: "n1", Ours: "n2", Regret: 3, Why: "less free memory",
					Explanation: "n2 203\nn1 200"}},
			NotJudged: []Count{{"claims of devices", 3}},
		},
		Latency: Latency{Theirs: Quantiles{61_306, 0.041, 3.1}, TheirsByStatus: Quantiles{61_306, 0, 4}, Ours: Quantiles{61_320, 0.002, 0.019},
			ByQueue: []QueueLatency{{0, 9, Quantiles{60_000, 0.04, 0.3}, Quantiles{60_014, 0.002, 0.01}},
				{10, 0, Quantiles{1306, 1.2, 4}, Quantiles{1306, 0.01, 0.03}}}},
		Cost: Cost{Theirs: &CPU{613, 61_306, 0.01}, Ours: &CPU{61.3, 61_320, 0.001}, Deciding: 30, Mirror: 100, Ratio: 10},
		Packing: Packing{Points: []Point{{begun, world(1180, 0), world(1180, 0)}, {begun.Add(24 * time.Hour), world(1187, 4), world(1102, 3)}},
			Compared: 60_032, Left: []Count{{"crash loops", 1288}}, Drift: 0.021, Pinned: []Count{{"volumes", 7}}},
		Verdict: Verdict{Ready: true, Reservations: []Count{{"need claims of devices", 3}}, Next: "let it take over", Page: "docs/migration.md"},
	}
}

// readReport reads what WriteJSON has written.
func readReport(r io.Reader) (*Report, error) {
	d := json.NewDecoder(r)
	d.DisallowUnknownFields()
	out := &Report{}
	return out, d.Decode(out)
}

func TestReportIsReadAsItWasWritten(t *testing.T) {
	var b bytes.Buffer
	want := example()
	if err := want.WriteJSON(&b); err != nil {
		t.Fatal(err)
	}
	got, err := readReport(bytes.NewReader(b.Bytes()))
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v; want %+v", got, err, want)
	}
}

func TestReportAsText(t *testing.T) {
	var b bytes.Buffer
	if err := example().WriteText(&b); err != nil {
		t.Fatal(err)
	}
	want := `24h0m0s, 1,204 nodes, 61,320 pods of default-scheduler, 12 pods of batch (not judged)
agreement: 99.2 % same node, tie or none, of 61,320 pods; 0.6 % lower by 1-15 points (they looked at 8 % of the nodes)
  0 pods on a node that we would refuse, 0 pods where we have no node and they do
  14 pods that they left pending and we would have placed, 0 pods with other victims
  not judged: claims of devices (3 pods)
  only_ours  shop/web-1  theirs none, ours n7: n7 had room
  lower  shop/web-2  theirs n1, ours n2: less free memory
latency p50/p99: ours 2.00 ms / 19.0 ms decided, theirs 41.0 ms / 3.10 s bound
processor time of a pod: ours 1.00 ms, theirs 10.0 ms, 10.0 times ours
packing, real -> own world: nodes in use 1,187 -> 1,102, pending pods 2 -> 2, pods preempted 4 -> 3; drift 2.1 %
  left out: crash loops (1,288 pods)
  pinned: volumes (7 pods)
Ready to take over: yes
  to know: need claims of devices (3 pods)
Next: let it take over (docs/migration.md)
`
	if b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}
}

// A share of 100 % says that it is all, and a name does not reach the terminal as a command.
func TestTextIsHonestAndHarmless(t *testing.T) {
	for _, c := range []struct {
		part, whole int
		want        string
	}{{99_999, 100_000, "99.9 %"}, {100_000, 100_000, "100 %"}, {1, 1001, "below 0.1 %"}, {0, 0, "0 %"}, {1, 3, "33.3 %"}} {
		if got := percent(c.part, c.whole); got != c.want {
			t.Errorf("%d of %d: got %s, want %s", c.part, c.whole, got, c.want)
		}
	}
	r := &Report{Agreement: Agreement{Disagreements: []Disagreement{{Pod: "a\x1b[2J", Why: "b\r\u202e"}}}}
	var b bytes.Buffer
	if err := r.WriteText(&b); err != nil {
		t.Fatal(err)
	}
	if strings.ContainsAny(b.String(), "\x1b\r\u202e") {
		t.Errorf("control characters in %q", b.String())
	}
}
