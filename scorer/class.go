package scorer

import (
	"fmt"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// Class is a query made ready for evaluation. It is immutable, shared by goroutines,
// and bound to no table: what it names is looked up in each one.
type Class struct {
	query   *pb.Query
	filters []filterRule
	scores  []scoreTerm
	keyLen  int
}

// scoreTerm is one score plugin of a class.
type scoreTerm struct {
	rule   scoreRule
	weight int64
	// key is the place of the raw score in the group's key; -1 where it is local.
	key           int
	normalisation normalisation
}

// NewClass makes a class of a query, which must not be changed afterwards.
func NewClass(q *pb.Query) (*Class, error) {
	if err := q.Validate(); err != nil {
		return nil, fmt.Errorf("query %d: %w", q.GetClassId(), err)
	}
	c := &Class{query: q}
	if q.GetNarrowed() != nil {
		c.filters = append(c.filters, newNarrowed(q.GetNarrowed()))
	}
	for _, p := range q.GetFilters() {
		c.filters = append(c.filters, newFilter(p, q))
	}
	for _, s := range q.GetScores() {
		rule, n := newScore(s.GetPlugin(), q)
		term := scoreTerm{rule: rule, weight: s.GetWeight(), key: -1, normalisation: n}
		if n != local {
			term.key = c.keyLen
			c.keyLen++
		}
		c.scores = append(c.scores, term)
	}
	return c, nil
}

// ID is the query's class_id.
func (c *Class) ID() uint64 { return c.query.GetClassId() }

// Query is what the class was made of.
func (c *Class) Query() *pb.Query { return c.query }

// KeyLen is the number of normalised plugins among Query.scores: the length of a
// group's key.
func (c *Class) KeyLen() int { return c.keyLen }
