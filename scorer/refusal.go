package scorer

import "slices"

// WhyRefused tells why the filters refuse a row, were some of its pods gone, by their numbers, and
// others there that check.Join adds; nothing where they let it through. Of p the measures of the
// whole cluster are read, and of check only Join and Adjust; it may be nil. The reasons, those of the
// first filter that refuses, hold until the evaluator's next use. p must not be changed between calls.
func (e *Evaluator) WhyRefused(t *Table, row uint32, c *Class, p *Preemption, gone []uint64, check *RowCheck) []Reason {
	if !t.HasNode(row) {
		return nil
	}
	d := e.dryRun(t, c, p)
	d.reasons, d.sorted = d.reasons[:0], d.sorted[:0]
	for _, x := range t.placed.ofRow[row] {
		if slices.Contains(gone, x.number) {
			d.sorted = append(d.sorted, x)
		}
	}
	d.lower = d.sorted
	d.begin(row)
	d.remove(row, true)
	var adjust func(*Verdict)
	if check != nil && check.Join != nil {
		check.Join(&d.totals)
		adjust = check.Adjust
	}
	e.judgeTotals(d, view{t, row, &d.totals, e}, 0, adjust)
	return d.reasons
}
