package scorer

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// TestGoldenGroups runs the scripts in testdata/groups, which are like those of TestGolden.
// A pod's count:N=V stands for what it adds to a selector's counter. A query knows, too:
//
//	hard KEY count=N skew=N domains=N self ignore-affinity honour-taints
//	soft KEY count=N skew=N …         in the order of the pod's constraints
//	system                            the soft constraints are the system's own
//	affinity KEY count=N | anti KEY … | existing KEY … | prefer KEY count=N*WEIGHT …
//	self                              the pod matches its own affinity terms
//	claim N
//
// Each query is asked three times: with labels that no two nodes share told by row, all by
// domain, and with what may be pinned pinned. All must say the same.
func TestGoldenGroups(t *testing.T) {
	datadriven.Walk(t, "testdata/groups", func(t *testing.T, path string) {
		g := &golden{table: NewTable(0), at: map[string]uint32{}, e: NewEvaluator(nil)}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "apply":
				return g.apply(d.Input)
			case "query":
				byRow, byDomain, pinned := g.groups(t, d.Input, true, false), g.groups(t, d.Input, false, false), g.groups(t, d.Input, false, true)
				if byRow != byDomain || pinned != byDomain {
					t.Errorf("%s: by row:\n%s\nby domain:\n%s\npinned:\n%s", d.Pos, byRow, byDomain, pinned)
				}
				return byRow
			}
			t.Fatalf("%s: unknown command %s", d.Pos, d.Cmd)
			return ""
		})
	})
}

// groups prints a line for each row, the reasons in sum, and who would be chosen.
func (g *golden) groups(t *testing.T, input string, byRow, pin bool) string {
	spec, q := parseGroups(input)
	unique := uniqueAmong(g.nodes())
	compileGroups(spec, q, func(key string) bool { return byRow && unique(key) }, pin)
	c := newClass(t, q).Pin(slices.Values([]*Table{g.table}))
	r := evaluate(g.e, g.table, c, Options{Candidates: 10, Diagnose: true})
	var s Standing
	c.Settle(r, &s)
	var out strings.Builder
	for row := range g.table.All() {
		fmt.Fprintf(&out, "%s: %s\n", g.table.Name(row), g.groupLine(row, c, r, &s))
	}
	fmt.Fprint(&out, g.choice(r, &s))
	return out.String()
}

func (g *golden) nodes() []*groupNode {
	var out []*groupNode
	for x := range g.table.Snapshot {
		out = append(out, &groupNode{SnapshotRow: x})
	}
	return out
}

func (g *golden) groupLine(row uint32, c *Class, r *Result, s *Standing) string {
	var v Verdict
	g.e.Row(g.table, row, nil, c, true, &v)
	group := groupIndex(r, &v.Key)
	_, reasons := g.e.Reasons(g.table, row, nil, c)
	if v.Passed {
		_, reasons = c.GroupReasons(r, s, group)
	}
	if len(reasons) > 0 {
		out := fmt.Sprintf("no, %s: %s", reasons[0].Plugin, reasons[0].Text)
		if reasons[0].Unresolvable {
			out += " (unresolvable)"
		}
		return out
	}
	var parts []string
	for _, p := range c.GroupScores(r, s, group) {
		parts = append(parts, fmt.Sprintf("%s %d→%d", PluginName(p.Plugin), p.Raw, p.Normalised))
	}
	return strings.Join(append(parts, fmt.Sprintf("total %d", v.Local+s.Groups[group].Score)), ", ")
}

func (g *golden) choice(r *Result, s *Standing) string {
	var best *Candidate
	for i := range r.Groups {
		for _, x := range r.Groups[i].Candidates {
			if x.Score += s.Groups[i].Score; s.Groups[i].Feasible && (best == nil || Before(x, *best)) {
				best = &x
			}
		}
	}
	if best == nil {
		return "chosen: none\n"
	}
	return fmt.Sprintf("chosen: %s with %d of %d\n", best.Name, best.Score, s.Feasible)
}

func parseGroups(input string) (*groupSpec, *pb.Query) {
	spec := &groupSpec{}
	var rest strings.Builder
	for line := range strings.Lines(input) {
		f := strings.Fields(line)
		switch f[0] {
		case "hard":
			spec.hard = append(spec.hard, parseSpread(f[1:]))
		case "soft":
			spec.soft = append(spec.soft, parseSpread(f[1:]))
		case "system":
			spec.systemDefault = true
		case "affinity":
			spec.required = append(spec.required, parseAffinity(f[1:]))
		case "anti":
			spec.anti = append(spec.anti, parseAffinity(f[1:]))
		case "existing":
			spec.existing = append(spec.existing, parseAffinity(f[1:]))
		case "prefer":
			spec.preferred = append(spec.preferred, parseAffinity(f[1:]))
		case "self":
			spec.self = true
		case "claim":
			spec.claims = append(spec.claims, uint32(number(f[1])))
		default:
			rest.WriteString(line)
		}
	}
	q := parseQuery(rest.String())
	if !strings.Contains(input, "filters ") {
		q.Filters = append(slices.Clip(q.Filters), pb.Plugin_PLUGIN_VOLUME_RESTRICTIONS, pb.Plugin_PLUGIN_POD_TOPOLOGY_SPREAD, pb.Plugin_PLUGIN_INTER_POD_AFFINITY)
	}
	return spec, q
}

func parseSpread(f []string) spreadSpec {
	c := spreadSpec{key: f[0], maxSkew: 1, minDomains: 1, affinity: true}
	for _, w := range f[1:] {
		key, value, _ := strings.Cut(w, "=")
		switch key {
		case "count":
			c.counter = uint32(number(value))
		case "skew":
			c.maxSkew = int32(number(value))
		case "domains":
			c.minDomains = int32(number(value))
		case "self":
			c.self = true
		case "ignore-affinity":
			c.affinity = false
		case "honour-taints":
			c.taints = true
		default:
			panic("unknown word " + w)
		}
	}
	return c
}

func parseAffinity(f []string) affinitySpec {
	a := affinitySpec{key: f[0]}
	for _, w := range f[1:] {
		id, weight, weighted := strings.Cut(strings.TrimPrefix(w, "count="), "*")
		x := &pb.CounterTerm{Counter: uint32(number(id)), Weight: 1}
		if weighted {
			x.Weight = number(weight)
		}
		a.counters = append(a.counters, x)
	}
	return a
}
