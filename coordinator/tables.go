package coordinator

import (
	"github.com/shardsched/shardsched/coordinator/cache"
	"github.com/shardsched/shardsched/scorer"
)

// tables are the coordinator's own copies of the shards.
type tables struct{ *cache.Cache }

// all yields the tables.
func (t tables) all(yield func(*scorer.Table) bool) {
	for i := range t.NumShards() {
		if !yield(t.Table(i)) {
			return
		}
	}
}

// Candidate gives a row with a score the columns of the tie rule.
func (t tables) Candidate(row cache.Row, score int64) scorer.Candidate {
	return t.Table(int(row.Shard)).Candidate(row.Index, score)
}
