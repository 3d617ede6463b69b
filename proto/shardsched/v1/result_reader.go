package shardschedv1

// Group is one group of a result: its parts of GroupColumns.
type Group struct {
	Rows        uint32
	Key         []int64
	Domains     []string
	Missing     []uint64
	RowValues   []int64
	LateFilter  uint32
	LateReasons uint64
	// Shards, RowRefs, Runs and RunScores are as in the columns. Each reads them.
	Shards    uint32
	RowRefs   []uint64
	Runs      []uint32
	RunScores []int64
}

// Each yields the candidates of a group, best first: the index of the shard among the shards of the request, the row and the score.
func (g *Group) Each(yield func(shard int, row uint32, score int64)) {
	shards, at, score := uint64(max(g.Shards, 1)), 0, int64(0)
	for i, n := range g.Runs[:min(len(g.Runs), len(g.RunScores))] {
		if i == 0 {
			score = g.RunScores[0]
		} else {
			score -= g.RunScores[i]
		}
		for end := min(at+int(n), len(g.RowRefs)); at < end; at++ {
			row := g.RowRefs[at] / shards
			yield(int(g.RowRefs[at]-row*shards), uint32(row), score)
		}
	}
}

// Passes are the passes for one result: its parts of PassColumns.
type Passes struct {
	Plugins         []Plugin
	ExtensionPoints []ExtensionPoint
	Nanos           []uint64
	RowsIn          []int64
	RowsRefused     []uint32
}

// ResultReader reads the columns of a response, one result after the other. It allocates nothing. Columns that are too short
// are read as far as they go. A copy of a reader reads on from the same group.
type ResultReader struct {
	rows, candidates []uint32
	left             Group // parts that were not read yet
	lateFilters      []uint32
	lateReasons      []uint64
	passes           Passes
}

// Reader reads the columns from the first result on.
func (x *EvaluateResponse) Reader() ResultReader {
	g, t := x.GetGroups(), x.GetPasses()
	return ResultReader{
		rows: g.GetRows(), candidates: g.GetCandidates(),
		left: Group{
			Key: g.GetKeys(), Domains: g.GetDomains(), Missing: g.GetMissing(), RowValues: g.GetRowValues(),
			Shards: g.GetShards(), RowRefs: g.GetRowRefs(), Runs: g.GetRuns(), RunScores: g.GetRunScores(),
		},
		lateFilters: g.GetLateFilters(), lateReasons: g.GetLateReasons(),
		passes: Passes{t.GetPlugins(), t.GetExtensionPoints(), t.GetNanos(), t.GetRowsIn(), t.GetRowsRefused()},
	}
}

// Groups is how many groups of a result there are to read, which is the next one.
func (r *ResultReader) Groups(of *ClassResult) int { return min(int(of.GetGroups()), len(r.rows)) }

// Group reads the next group of a result. It is called Groups times for each result.
func (r *ResultReader) Group(of *ClassResult) Group {
	g := Group{
		Rows:      one(&r.rows),
		Key:       take(&r.left.Key, of.GetKeyScores()),
		Domains:   take(&r.left.Domains, of.GetKeyDomains()),
		Missing:   take(&r.left.Missing, missingWords(of)),
		RowValues: take(&r.left.RowValues, of.GetKeyValues()),
	}
	if of.GetLate() {
		g.LateFilter, g.LateReasons = one(&r.lateFilters), one(&r.lateReasons)
	}
	n := one(&r.candidates)
	g.Shards, g.RowRefs = r.left.Shards, take(&r.left.RowRefs, n)
	runs := runsOf(r.left.Runs, n)
	g.Runs, g.RunScores = take(&r.left.Runs, runs), take(&r.left.RunScores, runs)
	return g
}

// runsOf is how many runs the next candidates are.
func runsOf(runs []uint32, candidates uint32) (n uint32) {
	for left := int64(candidates); left > 0 && int(n) < len(runs); n++ {
		left -= int64(runs[n])
	}
	return n
}

// Passes reads the passes for the next result.
func (r *ResultReader) Passes(of *ClassResult) Passes {
	n := of.GetPasses()
	return Passes{
		take(&r.passes.Plugins, n), take(&r.passes.ExtensionPoints, n), take(&r.passes.Nanos, n),
		take(&r.passes.RowsIn, n), take(&r.passes.RowsRefused, n),
	}
}

// Skip passes over the next result.
func (r *ResultReader) Skip(of *ClassResult) {
	for range r.Groups(of) {
		r.Group(of)
	}
	r.Passes(of)
}

// missingWords is how many words tell which domains a group of the result lacks.
func missingWords(of *ClassResult) uint32 { return uint32((uint64(of.GetKeyDomains()) + 63) / 64) }

// take cuts the first n elements off a column, or all that there are.
func take[T any](column *[]T, n uint32) []T {
	k := min(int(n), len(*column))
	first := (*column)[:k:k]
	*column = (*column)[k:]
	return first
}

// one is take of one element; zero at the end.
func one[T any](column *[]T) (v T) {
	if first := take(column, 1); len(first) > 0 {
		v = first[0]
	}
	return v
}
