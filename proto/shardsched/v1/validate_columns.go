package shardschedv1

import (
	"cmp"
	"math"
	"slices"
	"strings"
)

// validateColumns checks that the columns are as long as the results say, and what is in them.
func (x *EvaluateResponse) validateColumns() error {
	if err := x.GetGroups().validateLengths(x.GetResults()); err != nil {
		return in("groups", err)
	}
	if err := x.GetPasses().validate(x.GetResults()); err != nil {
		return in("passes", err)
	}
	r, position := x.Reader(), groupPosition{}
	for i, result := range x.GetResults() {
		if err := position.validateGroups(&r, result); err != nil {
			return in("groups", err)
		}
		if rows := position.feasible; rows != uint64(result.GetFeasible()) && !result.GetOverflow() {
			return at("results", i, wrong("groups", "expected the %d feasible rows, got %d", result.GetFeasible(), rows))
		}
	}
	return nil
}

// ofCandidates says of what column the length is.
const ofCandidates = "as in candidates"

// length checks that a column has as many elements as there have to be.
func length(column string, got int, want uint64, why string) error {
	if uint64(got) != want {
		return wrong(column, "expected %d %s, got %d", want, why, got)
	}
	return nil
}

// validateLengths checks that all columns are as long as the results and the numbers of candidates say.
func (x *GroupColumns) validateLengths(results []*ClassResult) error {
	var groups, keys, domains, missing, values, late, candidates uint64
	for _, r := range results {
		n := uint64(r.GetGroups())
		if groups += n; groups > uint64(len(x.GetRows())) { // and no sum overflows
			break
		}
		keys += n * uint64(r.GetKeyScores())
		domains += n * uint64(r.GetKeyDomains())
		missing += n * uint64(missingWords(r))
		values += n * uint64(r.GetKeyValues())
		if r.GetLate() {
			late += n
		}
	}
	for _, n := range x.GetCandidates() {
		candidates += uint64(n)
	}
	const ofAll, ofKeys = "groups as in all results", "as in the keys of all results"
	return cmp.Or(
		length("rows", len(x.GetRows()), groups, ofAll),
		length("candidates", len(x.GetCandidates()), groups, ofAll),
		length("keys", len(x.GetKeys()), keys, ofKeys),
		length("domains", len(x.GetDomains()), domains, ofKeys),
		length("missing", len(x.GetMissing()), missing, ofKeys),
		length("row_values", len(x.GetRowValues()), values, ofKeys),
		length("late_filters", len(x.GetLateFilters()), late, ofKeys),
		length("late_reasons", len(x.GetLateReasons()), late, ofKeys),
		length("row_refs", len(x.GetRowRefs()), candidates, ofCandidates),
		x.validateRuns(candidates))
}

// validateRuns checks that the runs of scores have as many candidates as there are.
func (x *GroupColumns) validateRuns(candidates uint64) error {
	sum := uint64(0)
	for i, n := range x.GetRuns() {
		if n == 0 {
			return at("runs", i, wrong("", "expected 1 or more, got 0"))
		}
		sum += uint64(n)
	}
	if candidates > 0 {
		if err := within("shards", int64(x.GetShards()), 1, MaxShard); err != nil {
			return err
		}
	}
	return cmp.Or(
		length("runs", int(min(sum, math.MaxInt)), candidates, ofCandidates),
		length("run_scores", len(x.GetRunScores()), uint64(len(x.GetRuns())), "as in runs"))
}

// groupPosition is where in the columns a group stands.
type groupPosition struct {
	group, domain, candidate, run int
	// feasible is how many rows the groups of the result have that was checked last.
	feasible uint64
}

// validateGroups checks the groups of the next result: counts, candidates, keys and that these are sorted.
func (p *groupPosition) validateGroups(r *ResultReader, result *ClassResult) error {
	var before Group
	p.feasible = 0
	for i := range r.Groups(result) {
		g := r.Group(result)
		if g.Rows == 0 {
			return at("rows", p.group, wrong("", "expected 1 or more, got 0"))
		}
		if n := len(g.RowRefs); uint64(n) > uint64(g.Rows) {
			return at("candidates", p.group, wrong("", "expected at most the %d rows of the group, got %d", g.Rows, n))
		}
		if err := p.validateCandidates(&g); err != nil {
			return err
		}
		if err := p.validateKey(&g); err != nil {
			return err
		}
		if i > 0 && compareGroups(&before, &g) >= 0 {
			return at("rows", p.group, wrong("", "expected groups sorted by key, each once"))
		}
		p.group, p.domain = p.group+1, p.domain+len(g.Domains)
		p.candidate, p.run = p.candidate+len(g.RowRefs), p.run+len(g.Runs)
		p.feasible += uint64(g.Rows)
		before = g
	}
	return nil
}

// validateCandidates checks rows, and that the scores fall from run to run.
func (p *groupPosition) validateCandidates(g *Group) error {
	shards := uint64(max(g.Shards, 1))
	for i, ref := range g.RowRefs {
		if ref/shards >= MaxRow {
			return at("row_refs", p.candidate+i, wrong("", "expected a row up to %d, got %d", MaxRow-1, ref/shards))
		}
	}
	score, left := int64(0), uint64(len(g.RowRefs))
	for i, n := range g.Runs {
		if uint64(n) > left {
			return at("runs", p.run+i, wrong("", "expected at most the %d candidates that are left of the group, got %d", left, n))
		}
		left -= uint64(n)
		switch less := g.RunScores[i]; {
		case i == 0:
			score = less
		case less <= 0 || score < math.MinInt64+less:
			return at("run_scores", p.run+i, wrong("", "expected how much less than %d, got %d", score, less))
		default:
			score -= less
		}
	}
	return nil
}

// validateKey checks the parts of a key.
func (p *groupPosition) validateKey(g *Group) error {
	if n := bitLen(g.Missing); n > len(g.Domains) {
		return wrong("missing", "expected bits for %d domains, got bit %d", len(g.Domains), n-1)
	}
	for i, d := range g.Domains {
		if err := text("", d, maxText); err != nil {
			return at("domains", p.domain+i, err)
		}
		if d != "" && hasBit(g.Missing, i) {
			return at("domains", p.domain+i, wrong("", "expected none where it is missing, got %q", short(d)))
		}
	}
	if g.LateFilter == 0 && g.LateReasons != 0 {
		return wrong("late_reasons", "expected none without a late filter, got %x", g.LateReasons)
	}
	return nil
}

// compareGroups orders by the whole key: of two domains, a missing one stands first.
func compareGroups(a, b *Group) int {
	if c := slices.Compare(a.Key, b.Key); c != 0 {
		return c
	}
	for i := range min(len(a.Domains), len(b.Domains)) {
		if x := hasBit(a.Missing, i); x != hasBit(b.Missing, i) {
			if x {
				return -1
			}
			return 1
		}
		if c := strings.Compare(a.Domains[i], b.Domains[i]); c != 0 {
			return c
		}
	}
	return cmp.Or(
		slices.Compare(a.RowValues, b.RowValues),
		cmp.Compare(a.LateFilter, b.LateFilter),
		cmp.Compare(a.LateReasons, b.LateReasons))
}

// validate checks that the columns are as long as the results say, and what was timed.
func (x *PassColumns) validate(results []*ClassResult) error {
	n := uint64(0)
	for _, r := range results {
		n += uint64(r.GetPasses())
	}
	const ofAll = "passes as in all results"
	if err := cmp.Or(
		length("plugins", len(x.GetPlugins()), n, ofAll),
		length("extension_points", len(x.GetExtensionPoints()), n, ofAll),
		length("nanos", len(x.GetNanos()), n, ofAll),
		length("rows_in", len(x.GetRowsIn()), n, ofAll),
		length("rows_refused", len(x.GetRowsRefused()), n, ofAll)); err != nil {
		return err
	}
	i := 0
	for _, r := range results {
		left := int64(0)
		for end := i + int(r.GetPasses()); i < end; i++ {
			if err := x.validatePass(i, &left); err != nil {
				return err
			}
		}
	}
	return nil
}

// validatePass checks a pass. left is how many rows the pass before it has left.
func (x *PassColumns) validatePass(i int, left *int64) error {
	if err := member("", x.GetPlugins()[i], Plugin_PLUGIN_DYNAMIC_RESOURCES); err != nil {
		return at("plugins", i, err)
	}
	if err := member("", x.GetExtensionPoints()[i], ExtensionPoint_EXTENSION_POINT_SCORE); err != nil {
		return at("extension_points", i, err)
	}
	more := x.GetRowsIn()[i]
	if more < -*left || more > math.MaxUint32-*left {
		return at("rows_in", i, wrong("", "expected %d to %d, got %d", -*left, math.MaxUint32-*left, more))
	}
	*left += more
	if refused := x.GetRowsRefused()[i]; int64(refused) > *left {
		return at("rows_refused", i, wrong("", "expected at most the %d rows that the pass looked at, got %d", *left, refused))
	}
	*left -= int64(x.GetRowsRefused()[i])
	return nil
}
