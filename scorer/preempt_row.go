package scorer

import (
	"cmp"
	"math"
	"slices"
)

// findLower finds the row's pods of lower priority, most important first.
func (d *dryRun) findLower(row uint32) bool {
	list, now := d.table.placed.ofRow[row], d.asked.NowMicros
	n := len(list)
	for n > 0 && list[n-1].priority < d.asked.Priority {
		n--
	}
	d.lower = list[n:]
	// The row keeps pods that have not started behind the others, which is their place unless
	// others are to start.
	ahead, waiting := false, false
	for i := range d.lower {
		ahead, waiting = ahead || d.lower[i].start >= now, waiting || d.lower[i].start == 0
	}
	if ahead && waiting {
		d.sorted = append(d.sorted[:0], d.lower...)
		slices.SortFunc(d.sorted, func(a, b placedPod) int { return comparePods(&a, &b, now) })
		d.lower = d.sorted
	}
	return len(d.lower) > 0
}

// lowerMatter tells whether filters look at more than resources of the pods of lower
// priority.
func (d *dryRun) lowerMatter() bool {
	if d.reads.plain() {
		return false
	}
	for i := range d.lower {
		if d.matters(&d.lower[i]) {
			return true
		}
	}
	return false
}

// matters is lowerMatter of one pod.
func (d *dryRun) matters(p *placedPod) bool {
	return !d.reads.plain() && (d.met[p.usage] || d.counted[p.counts])
}

// spare finds what the row has beyond the requests once all pods of lower priority are gone, in
// d.slack; its last element is for pods.
func (d *dryRun) spare(row uint32) {
	if d.fit == nil {
		d.slack = d.slack[:0]
		return
	}
	t, n := d.table, len(d.fit.requests)
	d.slack = scratch(d.slack, n+1)
	d.slack[n] = t.allowedPods[row] - t.pods[row] + int64(len(d.lower)) - 1
	for k := range d.fit.requests {
		allocatable, requested := view{t: t, row: row}.amounts(d.fit.requests[k].resourceRef)
		if d.slack[k] = allocatable - requested - d.fit.requests[k].amount; d.fit.requests[k].mapped && allocatable <= 0 {
			d.slack[k] = maxSum // no pod that leaves or returns changes that
		}
	}
	for i := range d.lower {
		for _, x := range d.useOf(&d.lower[i]) {
			d.slack[x.request] += x.amount
		}
	}
}

// judgeSpare is judgeTotals by d.slack instead of what v's pods add up to, for a row that at
// refuses: what is before it and does not look at pods lets the row through as before.
func (e *Evaluator) judgeSpare(d *dryRun, v view, at int) int {
	if v.totals != nil && d.grouped() {
		d.cluster.change(v)
	}
	for i := range d.class.filters {
		if i < at && d.reads.moving>>i&1 == 0 {
			continue
		}
		if i == d.reads.fit {
			if d.short(v.row) {
				return i
			}
			continue
		}
		if e.refuses(d, &d.class.filters[i], v) {
			return i
		}
	}
	return -1
}

// short tells whether resources are missing by d.slack, and leaves which in d.reasons. All
// are unresolvable where one of them is more than the whole node has.
func (d *dryRun) short(row uint32) bool {
	n, beyond, from := len(d.slack)-1, false, len(d.reasons)
	if d.slack[n] < 0 {
		d.reasons = append(d.reasons, d.fit.why[0])
	}
	for k, left := range d.slack[:n] {
		if left >= 0 {
			continue
		}
		d.reasons = append(d.reasons, d.fit.why[2*(k+1)])
		v := view{t: d.table, row: row}
		if allocatable, _ := v.amounts(d.fit.requests[k].resourceRef); d.fit.requests[k].amount > allocatable {
			beyond = true
		}
	}
	for i := range d.reasons[from:] {
		d.reasons[from+i].Unresolvable = beyond
	}
	return len(d.reasons) > from
}

// room tells whether a pod fits into d.slack, of which nothing is below 0.
func (d *dryRun) room(p *placedPod) bool {
	n := len(d.slack) - 1
	if n < 0 {
		return true
	}
	if d.slack[n] < 1 {
		return false
	}
	for _, x := range d.useOf(p) {
		if x.amount > d.slack[x.request] {
			return false
		}
	}
	return true
}

// take takes a pod's share from d.slack.
func (d *dryRun) take(p *placedPod) {
	n := len(d.slack) - 1
	if n < 0 {
		return
	}
	for _, x := range d.useOf(p) {
		d.slack[x.request] -= x.amount
	}
	d.slack[n]--
}

// classify finds the pods whose eviction violates a budget, were all of them evicted in
// order.
func (d *dryRun) classify() {
	d.violating, d.victim = scratch(d.violating, len(d.lower)), scratch(d.victim, len(d.lower))
	for i := range d.lower {
		d.violating[i] = false
		for _, b := range d.budgets[d.lower[i].budgets] {
			if d.left[b]--; d.left[b] < 0 {
				d.violating[i] = true
			}
		}
	}
	for i := range d.lower {
		for _, b := range d.budgets[d.lower[i].budgets] {
			d.left[b] = d.asked.Budgets[b].Allowed
		}
	}
}

// reprieve takes those pods back with which the row still takes the pod at hand, of the
// violating ones or of the others, and marks the rest as victims.
func (e *Evaluator) reprieve(d *dryRun, row uint32, check *RowCheck, violating bool) {
	whole := check != nil || d.reads.others
	for i := range d.lower {
		if d.violating[i] != violating {
			continue
		}
		p := &d.lower[i]
		switch {
		case whole:
			d.victim[i] = !e.returnsWhole(d, row, p, check)
		case !d.room(p):
			d.victim[i] = true
		case d.matters(p) && !e.returns(d, row, p):
			d.victim[i] = true
		default:
			d.victim[i] = false
			d.take(p)
		}
	}
}

// returns takes back what filters beside NodeResourcesFit see of a pod, if they let the row
// through then.
func (e *Evaluator) returns(d *dryRun, row uint32, p *placedPod) bool {
	d.moveCounts(p, +1)
	v := view{d.table, row, &d.totals, e}
	if d.grouped() {
		d.cluster.change(v)
	}
	for _, i := range d.reads.seeing {
		if e.refuses(d, &d.class.filters[i], v) {
			d.moveCounts(p, -1)
			return false
		}
	}
	return true
}

// returnsWhole takes all of a pod back if the row still takes the pod at hand then.
func (e *Evaluator) returnsWhole(d *dryRun, row uint32, p *placedPod, check *RowCheck) bool {
	d.move(p, +1)
	check.moved(p, true)
	if e.judge(d, row, &d.totals, check) < 0 {
		return true
	}
	d.move(p, -1)
	check.moved(p, false)
	return false
}

// newCandidate is the candidate before it has victims.
func (d *dryRun) newCandidate(row uint32) *PreemptionCandidate {
	c, t := &d.candidate, d.table
	*c = PreemptionCandidate{
		Shard: t.shard, Row: row, Victims: c.Victims[:0], EarliestStart: math.MaxInt64,
		LastDecision: t.lastDecision[row], NameHash: t.hashes[row], Name: t.names[row],
	}
	return c
}

// describe makes a candidate of the victims; false: there is none.
func (d *dryRun) describe(row uint32) bool {
	c := d.newCandidate(row)
	for i := range d.lower {
		if !d.victim[i] {
			continue
		}
		p := &d.lower[i]
		if len(c.Victims) == 0 {
			c.TopPriority = p.priority
		}
		if p.priority == c.TopPriority {
			c.EarliestStart = min(c.EarliestStart, p.startOr(d.asked.NowMicros))
		}
		c.Victims = append(c.Victims, p.number)
		c.PrioritySum += uint64(int64(p.priority) + 1<<31)
		c.Violations += asInt(d.violating[i])
	}
	return len(c.Victims) > 0
}

// remove takes the pods of lower priority from d.totals: all of them, or what filters beside
// NodeResourcesFit see.
func (d *dryRun) remove(row uint32, whole bool) {
	d.table.Totals(row, &d.totals)
	s := &d.table.placed
	d.tokens = d.tokens[:0]
	for i := range s.ofRow[row] {
		for _, x := range s.counts.contents[s.ofRow[row][i].counts].shared {
			if d.reads.counts(x.counter) {
				d.tokens = append(d.tokens, tokenHolders{x, 1})
			}
		}
	}
	d.mergeTokens()
	for i := range d.lower {
		switch p := &d.lower[i]; {
		case whole:
			d.move(p, -1)
		case d.matters(p):
			d.moveCounts(p, -1)
		}
	}
}

// mergeTokens makes the row's shared counts one each, sorted: pods may have thousands.
func (d *dryRun) mergeTokens() {
	slices.SortFunc(d.tokens, func(a, b tokenHolders) int { return compareShared(a.sharedCount, b.sharedCount) })
	n := 0
	for _, h := range d.tokens {
		if n > 0 && d.tokens[n-1].sharedCount == h.sharedCount {
			d.tokens[n-1].pods++
			continue
		}
		d.tokens[n] = h
		n++
	}
	d.tokens = d.tokens[:n]
}

func compareShared(a, b sharedCount) int {
	return cmp.Or(cmp.Compare(a.counter, b.counter), cmp.Compare(a.token, b.token))
}

// holders counts who of the row's pods have a shared count.
func (d *dryRun) holders(x sharedCount) *tokenHolders {
	at, _ := slices.BinarySearchFunc(d.tokens, x, func(h tokenHolders, x sharedCount) int { return compareShared(h.sharedCount, x) })
	return &d.tokens[at]
}

// move adds a pod to d.totals, or takes it with sign -1.
func (d *dryRun) move(p *placedPod, sign int64) {
	s, r := &d.table.placed, &d.totals
	u := &s.usages.contents[p.usage]
	r.pods += sign
	for i := range u.nonZero {
		r.nonZero[i] += sign * u.nonZero[i]
	}
	for i := range u.fixed {
		r.requested[i] += sign * u.fixed[i]
	}
	for _, x := range u.scalars {
		r.scalars = addAmount(r.scalars, x.name, sign*x.quantity)
	}
	d.moveCounts(p, sign)
}

// moveCounts is move of ports and counters.
func (d *dryRun) moveCounts(p *placedPod, sign int64) {
	s, r := &d.table.placed, &d.totals
	if ports := s.usages.contents[p.usage].ports; sign > 0 {
		r.ports = takePorts(r.ports, ports)
	} else {
		r.ports = freePorts(r.ports, ports)
	}
	counts := &s.counts.contents[p.counts]
	for _, list := range [...][]counterChange{counts.counts, counts.leaving} {
		for _, c := range list {
			if d.reads.counts(c.id) || d.reads.others {
				r.addCounter(c.id, sign*c.change)
			}
		}
	}
	for _, x := range counts.shared {
		if !d.reads.counts(x.counter) {
			continue
		}
		h := d.holders(x)
		if h.pods += int(sign); h.pods == 0 || h.pods == 1 && sign > 0 {
			r.addCounter(x.counter, sign)
		}
	}
}
