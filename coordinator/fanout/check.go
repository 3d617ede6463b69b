package fanout

import (
	"errors"
	"fmt"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
	"github.com/shardsched/shardsched/scorer"
	"github.com/shardsched/shardsched/scorer/scan"
)

// check holds an answer against the attempt: every candidate is a node of a shard
// that was asked for, no class has more rows than those shards, and keys, measures and
// extrema are as the class has them.
func (r *round) check(a *attempt) error {
	nodes := r.f.nodes(a.shards)
	for _, p := range a.pieces {
		for i, result := range p.preemptions {
			if err := r.checkDryRun(a, &r.dry[p.from+i], result, nodes); err != nil {
				return a.session.untrue("dry run of class %x: %w", result.GetClassId(), err)
			}
		}
		columns, tables := p.columns, r.f.tables(p.shards)
		for i, result := range p.results {
			if int(result.GetRows()) > nodes {
				return a.session.untrue("class %x has %d rows of %d", result.GetClassId(), result.GetRows(), nodes)
			}
			ask := r.askOf(a.part, p.from+i)
			if err := checkGroups(tables, &ask, result, &columns); err != nil {
				return a.session.untrue("class %x: %w", result.GetClassId(), err)
			}
		}
	}
	return nil
}

// checkGroups checks the extrema, keys and candidates of one class.
func checkGroups(tables []*scorer.Table, ask *scan.Ask, result *pb.ClassResult, columns *pb.ResultReader) error {
	second, keyLen := ask.Options.Normalise, ask.Class.KeyLen()
	switch n := len(result.GetExtrema()); {
	case ask.Class.HasGroups() && (n > 0 || result.GetOverflow()):
		return fmt.Errorf("%d extrema, overflow %t, of a class that has a group part", n, result.GetOverflow())
	case second && result.GetOverflow():
		return errors.New("an overflow in the second round")
	case n > keyLen, n > 0 && !second && !result.GetOverflow():
		return fmt.Errorf("%d extrema of %d normalised scores, overflow %t", n, keyLen, result.GetOverflow())
	}
	if (result.GetCopies() != nil) != ask.Options.Copies {
		return fmt.Errorf("copies %t, not %t", result.GetCopies() != nil, ask.Options.Copies)
	}
	if second {
		keyLen = 0 // its one group
	}
	if err := checkMeasures(ask.Class.Query().GetMeasures(), result); err != nil {
		return err
	}
	for range columns.Groups(result) {
		g := columns.Group(result)
		if len(g.Key) != keyLen {
			return fmt.Errorf("a key of %d, not %d", len(g.Key), keyLen)
		}
		if err := checkKey(ask, &g); err != nil {
			return err
		}
		if err := checkCandidates(tables, ask, &g); err != nil {
			return err
		}
	}
	return nil
}

// checkCandidates checks that a group offers as many candidates as it has to, each of them a node of a table.
func checkCandidates(tables []*scorer.Table, ask *scan.Ask, g *pb.Group) (err error) {
	want := min(ask.Options.Candidates, int(g.Rows))
	if ask.Class.Closed(g) {
		want = 0
	}
	if n := len(g.RowRefs); n != want {
		return fmt.Errorf("%d candidates of a group of %d rows, not %d", n, g.Rows, want)
	}
	g.Each(func(shard int, row uint32, _ int64) {
		if !tables[shard].HasNode(row) {
			err = fmt.Errorf("candidate without a node: shard %d row %d", tables[shard].Shard(), row)
		}
	})
	return err
}

// checkKey checks the part of a group's key that is not raw scores.
func checkKey(ask *scan.Ask, g *pb.Group) error {
	q := ask.Class.Query()
	switch {
	case len(g.Domains) != len(q.GetDomainKeys()):
		return fmt.Errorf("a key of %d domains, not %d", len(g.Domains), len(q.GetDomainKeys()))
	case len(g.RowValues) != len(q.GetRowValues()):
		return fmt.Errorf("a key of %d row values, not %d", len(g.RowValues), len(q.GetRowValues()))
	case g.LateFilter > 0 && !ask.Options.Diagnose && !ask.Class.FailsPod(g):
		return fmt.Errorf("rows that filter %d refuses, without a diagnosis", g.LateFilter)
	case int(g.LateFilter) > len(q.GetFilters()):
		return fmt.Errorf("rows that filter %d refuses, of %d", g.LateFilter, len(q.GetFilters()))
	}
	return nil
}

// checkMeasures checks that each measure is broken down as the query says, and counts no
// more rows than there are.
func checkMeasures(want []*pb.Measure, result *pb.ClassResult) error {
	if len(result.GetMeasures()) != len(want) {
		return fmt.Errorf("%d measures, not %d", len(result.GetMeasures()), len(want))
	}
	for i, m := range result.GetMeasures() {
		n, domains, values := len(m.GetRows()), 0, 0
		switch want[i].GetBy() {
		case pb.Breakdown_BREAKDOWN_DOMAIN:
			domains = n
		case pb.Breakdown_BREAKDOWN_VALUE:
			values = n
		default:
			n = 1
		}
		if len(m.GetRows()) != n || len(m.GetDomains()) != domains || len(m.GetValues()) != values {
			return fmt.Errorf("measure %d: %d rows, %d domains, %d values of %s", i, len(m.GetRows()), len(m.GetDomains()),
				len(m.GetValues()), want[i].GetBy())
		}
		rows := uint64(m.GetMissingRows())
		for _, r := range m.GetRows() {
			rows += uint64(r)
		}
		if rows > uint64(result.GetRows()) {
			return fmt.Errorf("measure %d: %d rows of %d", i, rows, result.GetRows())
		}
	}
	return nil
}
