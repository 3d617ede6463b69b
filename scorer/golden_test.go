package scorer

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// TestGolden runs the scripts in testdata. A script is:
//
//	apply                      deltas, one a line
//	node NAME cpu=N memory=N storage=N pods=N NAME=N label:K=V taint:K=V:EFFECT image:NAME cordoned
//	pod NODE cpu=N memory=N NAME=N nonzero=CPU,MEMORY port:IP/PROTO/PORT decision=N
//	gone NODE cpu=N …          removes such a pod
//	drop NODE
//	rows                       prints the snapshot
//	query                      judges every row, and prints the choice
//	claims                     judges every row by claims of devices (device_words_test.go)
//	filters A,B scores A:WEIGHT,B:WEIGHT      (default: all, weight 1)
//	fit cpu=N … | besteffort
//	least|most|ratio NAME:WEIGHT=REQUEST …    shape U:SCORE …
//	balanced NAME=REQUEST …
//	tolerate KEY Exists|VALUE EFFECT          (* is any)
//	selector K=V               required|added TERM      preferred WEIGHT TERM
//	name NODE                  narrowed PLUGIN NODE,…
//	port IP/PROTO/PORT         image NAME=BYTES         containers N
//	part TEXT                  any other field of the query, as a text of protobuf
//
// where TERM is requirements joined by " & ", such as "zone In a,b & name NotIn n1".
func TestGolden(t *testing.T) {
	datadriven.Walk(t, "testdata/golden", func(t *testing.T, path string) {
		g := &golden{table: NewTable(0), at: map[string]uint32{}, e: NewEvaluator(nil)}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "apply":
				return g.apply(d.Input)
			case "rows":
				return g.rows()
			case "query":
				return g.query(t, d.Input)
			case "claims":
				return g.claims(t, d.Input)
			}
			t.Fatalf("%s: unknown command %s", d.Pos, d.Cmd)
			return ""
		})
	})
}

type golden struct {
	table *Table
	at    map[string]uint32
	e     *Evaluator
}

func (g *golden) apply(input string) string {
	var out strings.Builder
	for line := range strings.Lines(input) {
		f := strings.Fields(line)
		row, known := g.at[f[1]]
		if !known && f[1] != "shared" {
			row = uint32(len(g.at))
			g.at[f[1]] = row
		}
		d := &pb.Delta{Row: row}
		switch f[0] {
		case "node":
			d.Change = &pb.Delta_SetNode{SetNode: parseNode(f[1:])}
		case "pod":
			u, decision := parseUsage(f[2:])
			d.Change, d.Decision = &pb.Delta_AddPod{AddPod: u}, decision
		case "gone":
			u, _ := parseUsage(f[2:])
			d.Change = &pb.Delta_RemovePod{RemovePod: u}
		case "drop":
			d.Change = &pb.Delta_RemoveNode{}
		default:
			if !g.changeDevices(d, f) {
				panic("unknown delta " + line)
			}
		}
		if err := g.table.Apply(d); err != nil {
			fmt.Fprintf(&out, "%v\n", err)
		}
	}
	return out.String()
}

func (g *golden) rows() string {
	var out strings.Builder
	for x := range g.table.Snapshot {
		fmt.Fprintf(&out, "%d %s: %d pods, %s, nonzero %d,%d", x.Row, x.Node.Name, x.Totals.Pods,
			amountsText(x.Totals.Requested), x.Totals.NonZeroMilliCpu, x.Totals.NonZeroMemoryBytes)
		for _, p := range x.Totals.Ports {
			fmt.Fprintf(&out, ", port %s/%s/%d×%d", p.Port.Ip, strings.TrimPrefix(p.Port.Protocol.String(), "PROTOCOL_"), p.Port.Port, p.Pods)
		}
		fmt.Fprintf(&out, ", decision %d\n", x.Totals.LastDecision)
	}
	return out.String()
}

func amountsText(r *pb.Resources) string {
	out := fmt.Sprintf("cpu=%d memory=%d storage=%d", r.MilliCpu, r.MemoryBytes, r.EphemeralStorageBytes)
	for _, s := range r.Scalars {
		out += fmt.Sprintf(" %s=%d", s.Name, s.Quantity)
	}
	return out
}

// query prints a line for each row, the reasons in sum, and who would be chosen.
func (g *golden) query(t *testing.T, input string) string {
	c := newClass(t, parseQuery(input))
	r := evaluate(g.e, g.table, c, Options{Candidates: 10, Diagnose: true})
	var out strings.Builder
	for row := range g.table.All() {
		fmt.Fprintf(&out, "%s: %s\n", g.table.Name(row), g.line(row, c, r.Extrema))
	}
	for _, w := range r.Reasons {
		fmt.Fprintf(&out, "%d %s\n", w.Nodes, w.Text)
	}
	var best *Candidate
	for _, group := range r.Groups {
		for _, x := range group.Candidates {
			x.Score += c.GroupScore(group.Key.Raw[:c.KeyLen()], r.Extrema)
			if best == nil || Before(x, *best) {
				best = &x
			}
		}
	}
	if best != nil {
		fmt.Fprintf(&out, "chosen: %s with %d\n", best.Name, best.Score)
	}
	return out.String()
}

func (g *golden) line(row uint32, c *Class, extrema []int64) string {
	v := judge(g.e, g.table, row, nil, c)
	if !v.Passed {
		_, reasons := g.e.Reasons(g.table, row, nil, c)
		var texts []string
		for _, w := range reasons {
			texts = append(texts, w.Text)
		}
		out := fmt.Sprintf("no, %s: %s", reasons[0].Plugin, strings.Join(texts, ", "))
		if reasons[0].Unresolvable {
			out += " (unresolvable)"
		}
		for _, s := range g.e.Shortfalls(g.table, row, nil, c) {
			out += "; " + s.Text
		}
		return out
	}
	var parts []string
	for _, s := range g.e.Scores(g.table, row, nil, c) {
		text := fmt.Sprintf("%s %d", s.Name(), s.Raw)
		if n := c.Normalise(s, extrema); n != s.Raw {
			text += fmt.Sprintf("→%d", n)
		}
		parts = append(parts, text)
	}
	return strings.Join(append(parts, fmt.Sprintf("total %d", v.Local+c.GroupScore(v.Key.Raw[:c.KeyLen()], extrema))), ", ")
}

func number(s string) int64 {
	shift := 0
	for i, unit := range []string{"Ki", "Mi", "Gi"} {
		if rest, ok := strings.CutSuffix(s, unit); ok {
			s, shift = rest, 10*(i+1)
		}
	}
	n, err := strconv.ParseInt(s, 10, 64)
	must(err)
	return n << shift
}

// setAmount understands cpu=, memory=, storage= and NAME=.
func setAmount(r *pb.Resources, key, value string) {
	switch key {
	case "cpu":
		r.MilliCpu = number(value)
	case "memory":
		r.MemoryBytes = number(value)
	case "storage":
		r.EphemeralStorageBytes = number(value)
	default:
		r.Scalars = append(r.Scalars, &pb.ScalarResource{Name: key, Quantity: number(value)})
		slices.SortFunc(r.Scalars, func(a, b *pb.ScalarResource) int { return strings.Compare(a.Name, b.Name) })
	}
}

func parseNode(f []string) *pb.Node {
	n := &pb.Node{Name: f[0], AllowedPods: 110, Allocatable: &pb.Resources{}}
	for _, w := range f[1:] {
		kind, rest, _ := strings.Cut(w, ":")
		key, value, _ := strings.Cut(w, "=")
		switch {
		case parseTrait(n, kind, rest):
		case kind == "label":
			key, value, _ = strings.Cut(rest, "=")
			n.Labels = append(n.Labels, &pb.Label{Key: key, Value: value})
		case kind == "taint":
			rest, effect, _ := strings.Cut(rest, ":")
			key, value, _ = strings.Cut(rest, "=")
			n.Taints = append(n.Taints, &pb.Taint{Key: key, Value: value, Effect: parseEffect(effect)})
		case kind == "image":
			n.Images = append(n.Images, rest)
		case w == "cordoned":
			n.Unschedulable = true
		case key == "pods":
			n.AllowedPods = number(value)
		default:
			setAmount(n.Allocatable, key, value)
		}
	}
	return n
}

func parseEffect(s string) pb.TaintEffect {
	return map[string]pb.TaintEffect{
		"*": 0, "NoSchedule": 1, "PreferNoSchedule": 2, "NoExecute": 3,
	}[s]
}

func parseUsage(f []string) (u *pb.PodUsage, decision uint64) {
	u = &pb.PodUsage{Requests: &pb.Resources{}}
	for _, w := range f {
		key, value, _ := strings.Cut(w, "=")
		port, isPort := strings.CutPrefix(w, "port:")
		switch {
		case isPort:
			u.HostPorts = append(u.HostPorts, parsePort(port))
		case strings.HasPrefix(w, "count:"):
			u.Counters = append(u.Counters, &pb.CounterValue{Counter: uint32(number(key[len("count:"):])), Value: number(value)})
		case key == "decision":
			decision = uint64(number(value))
		case key == "nonzero":
			c, m, _ := strings.Cut(value, ",")
			u.NonZeroMilliCpu, u.NonZeroMemoryBytes = number(c), number(m)
		default:
			setAmount(u.Requests, key, value)
		}
	}
	if !strings.Contains(strings.Join(f, " "), "nonzero=") {
		u.NonZeroMilliCpu, u.NonZeroMemoryBytes = u.Requests.MilliCpu, u.Requests.MemoryBytes
	}
	return u, decision
}

func parsePort(s string) *pb.HostPort {
	f := strings.Split(s, "/")
	return &pb.HostPort{Ip: f[0], Protocol: pb.Protocol(pb.Protocol_value["PROTOCOL_"+f[1]]), Port: uint32(number(f[2]))}
}

func pluginNamed(name string) pb.Plugin {
	for p := range pb.Plugin_name {
		if PluginName(pb.Plugin(p)) == name {
			return pb.Plugin(p)
		}
	}
	panic("unknown plugin " + name)
}

func parseQuery(input string) *pb.Query {
	q := &pb.Query{
		ClassId: 1, Filters: filterPlugins(), NodeAffinity: &pb.NodeAffinityQuery{},
		Fit:      &pb.FitQuery{BestEffort: true, ScoringType: pb.ScoringType_SCORING_TYPE_LEAST_ALLOCATED},
		Balanced: &pb.BalancedQuery{}, Images: &pb.ImageQuery{Containers: 1},
	}
	for line := range strings.Lines(input) {
		word, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		parseDirective(q, word, rest)
	}
	return q
}

func parseDirective(q *pb.Query, word, rest string) {
	f := strings.Fields(rest)
	a := q.NodeAffinity
	switch word {
	case "filters":
		q.Filters = nil
		for name := range strings.SplitSeq(rest, ",") {
			q.Filters = append(q.Filters, pluginNamed(name))
		}
	case "scores":
		for w := range strings.SplitSeq(rest, ",") {
			name, weight, _ := strings.Cut(w, ":")
			q.Scores = append(q.Scores, &pb.ScoreWeight{Plugin: pluginNamed(name), Weight: number(weight)})
		}
	case "fit":
		q.Fit.BestEffort, q.Fit.Requests = false, &pb.Resources{}
		for _, w := range f {
			key, value, _ := strings.Cut(w, "=")
			setAmount(q.Fit.Requests, key, value)
		}
	case "least", "most", "ratio":
		q.Fit.ScoringType = map[string]pb.ScoringType{"least": 1, "most": 2, "ratio": 3}[word]
		q.Fit.Scored = parseScored(f)
	case "balanced":
		q.Balanced.Scored = parseScored(f)
	case "shape":
		for _, w := range f {
			u, score, _ := strings.Cut(w, ":")
			q.Fit.Shape = append(q.Fit.Shape, &pb.ShapePoint{Utilization: number(u), Score: number(score)})
		}
	case "tolerate":
		q.Tolerations = append(q.Tolerations, parseToleration(f))
	case "selector":
		key, value, _ := strings.Cut(rest, "=")
		a.NodeSelector = append(a.NodeSelector, &pb.Label{Key: key, Value: value})
	case "required":
		a.Required = addTerm(a.Required, rest)
	case "added":
		a.Added = addTerm(a.Added, rest)
	case "preferred":
		weight, term, _ := strings.Cut(rest, " ")
		a.Preferred = append(a.Preferred, &pb.PreferredTerm{Weight: int32(number(weight)), Term: parseTerm(term)})
	case "name":
		q.NodeName = rest
	case "narrowed":
		q.Narrowed = &pb.NameSet{Plugins: strings.Split(f[0], ","), Names: strings.Split(f[1], ",")}
	case "port":
		q.HostPorts = append(q.HostPorts, parsePort(rest))
	case "image":
		name, size, _ := strings.Cut(rest, "=")
		q.Images.Images = append(q.Images.Images, &pb.ImageTerm{Name: name, ScaledBytes: number(size)})
	case "containers":
		q.Images.Containers = number(rest)
	case "part":
		part := &pb.Query{}
		if err := prototext.Unmarshal([]byte(rest), part); err != nil {
			panic(err)
		}
		proto.Merge(q, part)
	default:
		if !parseVolumes(q, word, rest) {
			panic("unknown directive " + word)
		}
	}
}

func parseScored(f []string) []*pb.ScoredResource {
	var out []*pb.ScoredResource
	for _, w := range f {
		name, request, _ := strings.Cut(w, "=")
		s := &pb.ScoredResource{Name: name, Weight: 1, Request: number(request)}
		if name, weight, ok := strings.Cut(name, ":"); ok {
			s.Name, s.Weight = name, number(weight)
		}
		if s.Name == "storage" {
			s.Name = "ephemeral-storage"
		}
		out = append(out, s)
	}
	return out
}

func parseToleration(f []string) *pb.Toleration {
	x := &pb.Toleration{Key: f[0], Effect: parseEffect(f[2])}
	if f[0] == "*" {
		x.Key = ""
	}
	x.Operator = pb.TolerationOperator_TOLERATION_OPERATOR_EXISTS
	if f[1] != "Exists" {
		x.Operator = pb.TolerationOperator_TOLERATION_OPERATOR_EQUAL
		x.Value = strings.Trim(f[1], `"`)
	}
	return x
}

// addTerm adds a term; "nothing" makes a selector that has none.
func addTerm(s *pb.NodeSelector, text string) *pb.NodeSelector {
	if s == nil {
		s = &pb.NodeSelector{}
	}
	if text != "nothing" {
		s.Terms = append(s.Terms, parseTerm(text))
	}
	return s
}

func parseTerm(text string) *pb.SelectorTerm {
	operators := map[string]pb.SelectorOperator{"In": 1, "NotIn": 2, "Exists": 3, "DoesNotExist": 4, "Gt": 5, "Lt": 6}
	t := &pb.SelectorTerm{}
	for part := range strings.SplitSeq(text, " & ") {
		f := strings.Fields(part)
		op := operators[f[1]]
		switch {
		case f[0] == "name":
			t.Names = append(t.Names, &pb.NameRequirement{Operator: op, Name: f[2]})
		case op == pb.SelectorOperator_SELECTOR_OPERATOR_GT || op == pb.SelectorOperator_SELECTOR_OPERATOR_LT:
			t.Labels = append(t.Labels, &pb.LabelRequirement{Key: f[0], Operator: op, Bound: number(f[2])})
		case len(f) > 2:
			t.Labels = append(t.Labels, &pb.LabelRequirement{Key: f[0], Operator: op, Values: strings.Split(f[2], ",")})
		default:
			t.Labels = append(t.Labels, &pb.LabelRequirement{Key: f[0], Operator: op})
		}
	}
	return t
}
