package scorer

import (
	"testing"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// A row on which devices can not be searched for fails the pod if no filter before DynamicResources refuses it. What filters behind
// it say does not count, also where they decide by a value that keeps rows out of every group.
func TestARowFailsThePodBeforeFiltersBehindDevices(t *testing.T) {
	const devices, affinity = pb.Plugin_PLUGIN_DYNAMIC_RESOURCES, pb.Plugin_PLUGIN_INTER_POD_AFFINITY
	table := NewTable(0)
	for _, d := range []*pb.Delta{
		{Change: &pb.Delta_SetNode{SetNode: parseNode([]string{"a"})}},
		{Change: &pb.Delta_AddPod{AddPod: &pb.PodUsage{Counters: []*pb.CounterValue{{Counter: 7, Value: 1}}}}},
		{Change: &pb.Delta_SetSlice{SetSlice: &pb.DeviceSlice{Name: "s", Driver: "gpu", Pool: "a", SliceCount: 1, Devices: []*pb.Device{{Name: "g"}}}}},
	} {
		if err := table.Apply(d); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		filters []pb.Plugin
		failing int
	}{
		"the filter behind": {[]pb.Plugin{devices, affinity}, 1},
		"the filter before": {[]pb.Plugin{affinity, devices}, 0},
	} {
		q := parseClaims("claim\nrequest r 1 device.attributes[\"gpu\"].uuid == \"x\"\n")
		q.Filters = c.filters
		q.RowValues = []*pb.RowValue{{Counters: counting(7), Clamp: true, Forbids: true}}
		q.InterPodAffinity = &pb.InterPodAffinityQuery{Anti: []*pb.Place{{In: &pb.Place_RowValue{}}}}
		class, e := newClass(t, q), NewEvaluator(nil)
		for _, diagnose := range []bool{false, true} {
			var s Standing
			class.Settle(evaluate(e, table, class, Options{Candidates: 1, Diagnose: diagnose}), &s)
			one, v := &Result{grouped: true}, &Verdict{}
			one.openMeasures(0)
			e.Row(table, 0, nil, class, diagnose, v)
			one.Move(class, v, +1)
			if again := (&Verdict{}); !diagnose {
				class.Recount(table, 0, v, again)
				if !sharesAs(again, v) {
					t.Errorf("%s: counted again the row is %+v, want %+v", name, again, v)
				}
			}
			var single Standing
			class.Settle(one, &single)
			if s.Failing != c.failing || single.Failing != c.failing {
				t.Errorf("%s, diagnosed %t: got %d rows that fail the pod, judged one by one %d; want %d", name, diagnose, s.Failing, single.Failing, c.failing)
			}
		}
	}
}

// A row that fails the pod without its lesser pods is named by a dry run, and is no candidate; the first MaxFailingRows are named.
func TestRowsFailThePodInADryRun(t *testing.T) {
	const rows = MaxFailingRows + 4
	result := &PreemptionResult{}
	q := parseClaims("filters NodeResourcesFit,DynamicResources\nfit cpu=2\nclaim\nrequest r 1 device.attributes[\"gpu\"].uuid == \"x\"\n")
	c, e := newClass(t, q), NewEvaluator(nil)
	result.Reset(c.ID(), 1)
	for i := range rows {
		table, name := NewTable(uint32(i)), string(rune('z'-i))
		for _, d := range []*pb.Delta{
			{Change: &pb.Delta_SetNode{SetNode: parseNode([]string{name, "cpu=2"})}},
			{Change: &pb.Delta_AddPod{AddPod: &pb.PodUsage{Requests: &pb.Resources{MilliCpu: 2000}}}, Pod: &pb.PlacedPod{Number: 1}},
			{Change: &pb.Delta_SetSlice{SetSlice: &pb.DeviceSlice{Name: "s", Driver: "gpu", Pool: name, SliceCount: 1, Devices: []*pb.Device{{Name: "g"}}}}},
		} {
			if err := table.Apply(d); err != nil {
				t.Fatal(err)
			}
		}
		own := &PreemptionResult{}
		own.Reset(c.ID(), 1)
		e.Preempt(table, c, &Preemption{Priority: 1, Whole: &Result{}}, own)
		p := own.Proto()
		if err := p.Validate(); err != nil {
			t.Fatal(err)
		}
		result.AddProto(p, func(_, row uint32) (uint64, uint64, string) { return 0, 0, table.Name(row) })
	}
	if len(result.Failing) != MaxFailingRows || result.Failing[0].Name != string(rune('z'-rows+1)) || result.Tried != rows || len(result.Reasons) > 0 {
		t.Errorf("got %d of %d rows that fail the pod, reasons %v, first %v; want %d, the first by name", len(result.Failing), result.Tried,
			result.Reasons, result.Failing[:min(1, len(result.Failing))], MaxFailingRows)
	}
}

// Where a row has none of an extended resource to allocate, scores count the devices of the class that serves it: those that reach
// the row, one row at a time as in a pass over all.
func TestScoresCountDevices(t *testing.T) {
	const fit, balanced = pb.Plugin_PLUGIN_NODE_RESOURCES_FIT, pb.Plugin_PLUGIN_NODE_RESOURCES_BALANCED_ALLOCATION
	g := golden{table: NewTable(0), at: map[string]uint32{}, e: NewEvaluator(nil)}
	g.apply(`node a cpu=1000 label:rack=r1
node b cpu=1000 example.com/gpu=10
node c cpu=1000 label:rack=r1
slice a gpu/a/s1 dev:g0;mem=40 dev:g1;mem=80;multi dev:g2;mem=80 dev:g3;mem=80
slice shared gpu/net/s1 reach:rack=r1 dev:n0;mem=80
use a gpu/a/g0 whole
use a gpu/a/g2 shares=1
slice c gpu/c/s1 dev:g0
`)
	for name, x := range map[string]struct {
		selector string
		want     map[string]int64 // by node, of LeastAllocated
	}{
		"all":      {"true", map[string]int64{"a": 40, "b": 90, "c": 50}},                      // a: 2 of 5 in use, and the pod's
		"some":     {`device.attributes["gpu"].mem == 80`, map[string]int64{"a": 50, "b": 90}}, // a: 1 of 4; c: an error
		"none":     {`device.attributes["gpu"].mem == 1`, map[string]int64{"b": 90}},           // c: an error, too
		"multiple": {`device.allowMultipleAllocations`, map[string]int64{"b": 90}},             // as upstream's scores see it
	} {
		q := parseClaims("filters DynamicResources\nscores NodeResourcesFit:1\nleast example.com/gpu=1\nextended example.com/gpu=c\ncontainer example.com/gpu=1\n")
		q.ResourceClaims.Extended.Resources[0].ScoredSelectors = []*pb.DeviceSelector{{Expression: x.selector}, {}}
		q.Balanced = &pb.BalancedQuery{Scored: []*pb.ScoredResource{{Name: "cpu", Weight: 1, Request: 500}, {Name: "example.com/gpu", Weight: 1, Request: 1}}}
		q.Scores = append(q.Scores, &pb.ScoreWeight{Plugin: balanced, Weight: 1000})
		c := newClass(t, q)
		got := map[string]int64{}
		result := evaluate(g.e, g.table, c, Options{Candidates: 9})
		for _, group := range result.Groups {
			for _, candidate := range group.Candidates {
				got[candidate.Name] = candidate.Score
			}
		}
		for row := range g.table.All() {
			node := g.table.Name(row)
			for _, s := range g.e.Scores(g.table, row, nil, c) {
				if s.Plugin == fit && s.Raw != x.want[node] {
					t.Errorf("%s, node %s: got %d, want %d", name, node, s.Raw, x.want[node])
				}
				got[node] -= s.Weight * s.Raw
			}
			if got[node] != 0 {
				t.Errorf("%s, node %s: one by one its score is %d less than in a pass", name, node, got[node])
			}
		}
	}
}
