package groups

// Tally counts all pod groups, kept with every change of one.
type Tally struct {
	// States is how many pod groups are in each state.
	States [States]int
	// Deficit is how many more members unschedulable pod groups need room for, in all.
	Deficit int
}

// Tally counts all pod groups.
func (g *Groups) Tally() Tally {
	if g == nil {
		return Tally{}
	}
	return g.tally
}

// share is what a pod group adds to a tally.
type share struct {
	state   State
	deficit int
}

func (t *Tally) add(s share, by int) {
	t.States[s.state] += by
	t.Deficit += by * s.deficit
}

// count brings the tally up to date after a change of a pod group.
func (g *Groups) count(x *Group) {
	if g == nil {
		return
	}
	now := share{state: x.state()}
	if now.state == Unschedulable && x.verdict != nil {
		now.deficit = max(x.verdict.Need, 1) - x.verdict.Fit
	}
	if x.counted {
		g.tally.add(x.share, -1)
	}
	g.tally.add(now, 1)
	x.share, x.counted = now, true
	g.note(x)
}

// uncount takes a pod group that is dropped out of the tally.
func (g *Groups) uncount(x *Group) {
	if x.counted {
		g.tally.add(x.share, -1)
		x.counted = false
	}
}
