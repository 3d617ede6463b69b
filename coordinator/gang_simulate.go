package coordinator

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/shardsched/shardsched/coordinator/answers"
	"github.com/shardsched/shardsched/coordinator/placement"
	"github.com/shardsched/shardsched/coordinator/rules"
	"github.com/shardsched/shardsched/scorer"
)

// maxSimulated is how many members may be tried in domains that are only looked at, for one pod group: some 100 ms. The first domain
// is tried whatever it takes.
//
// Differs from upstream: a pod group whose members differ is not tried in more domains. Those that may take the most are tried first.
const maxSimulated = 1 << 13

// alike tells why the members are not interchangeable, and what domains take can't be told by numbers; "": they are, and the question
// has its copies. An error ends the loop.
func (t *topology) alike(ctx context.Context) (why string, err error) {
	first := &t.attempts[0]
	for i := range t.attempts {
		a := &t.attempts[i]
		switch {
		case a.failed != nil:
			return "one of them has an error", nil
		case a.Class.ID() != first.Class.ID():
			return "they ask for different things", nil
		case priority(a) != priority(first):
			return "their priorities differ", nil
		}
	}
	sums, why, err := t.copies(ctx, first)
	t.question.Copies = sums
	return why, err
}

func priority(a *attempt) int32 {
	if p := a.Pod.Obj.Spec.Priority; p != nil {
		return *p
	}
	return 0
}

// copies are how many pods like one each domain takes, by the tree's keys; or why that can't be told. An error ends the loop.
func (t *topology) copies(ctx context.Context, a *attempt) (of [][]int64, tied string, err error) {
	var found answers.Copies
	a.failed = t.s.guard.Look(a.Class, func() { found, err = t.s.chooser.Copies(ctx, &a.Try, t.keys) })
	switch {
	case a.failed != nil:
		return nil, "one of them has an error", nil
	case err != nil || found.Tied != "":
		return nil, found.Tied, err
	}
	of = make([][]int64, len(t.keys)+1)
	for k, key := range t.keys {
		sums := found.Of(key).Sums
		if found.Of(key).Many {
			return nil, fmt.Sprintf("too many domains of %s take them", key), nil
		}
		for _, value := range t.tree.Values(k) {
			of[k] = append(of[k], sums[value])
		}
	}
	of[len(t.keys)] = []int64{found.Total}
	return of, "", nil
}

// placeAlike places members that are alike.
func (t *topology) placeAlike(ctx context.Context) *gangOutcome {
	plan, err := t.tree.Plan(&t.question)
	if err != nil {
		return t.fails(err)
	}
	if plan.Fits < t.question.Need {
		return t.short(ctx, plan.Domain, int(plan.Fits), "")
	}
	var within []answers.Domain
	for _, s := range plan.Shares {
		for range s.Members {
			within = append(within, t.domain(s.Domain))
		}
	}
	tried := t.attempts
	if t.question.SliceSize > 0 {
		tried = tried[:len(within)]
	}
	o := t.words(t.s.tryGang(ctx, t.group, tried, asked, append(within, t.domain(plan.Domain))...), t.placements())
	return t.leaveOut(t.tell(o, plan.Domain, int(plan.Fits)), t.attempts[len(tried):], fmt.Sprintf(
		"no domain of %s has room for another %d pods", t.asks.SliceKey, t.question.SliceSize), t.refusers()...)
}

// refusers are all plugins that may keep domains from taking another slice of members, which are alike.
func (t *topology) refusers() []string {
	by := []string{rules.TopologyPlacementGenerator}
	c := t.attempts[0].Class
	if c.Rejected != nil {
		return append(by, t.s.chooser.Rejected(c.Rejected, answers.Domain{}).By...)
	}
	for _, p := range c.Query.GetFilters() {
		by = append(by, scorer.PluginName(p))
	}
	return by
}

// short is the outcome where no domain takes enough members, and the best takes so many of those that wait. Without a required key the
// members are tried anywhere: preemption may help them.
func (t *topology) short(ctx context.Context, best placement.Domain, fits int, cut string) *gangOutcome {
	placements := t.placements()
	if t.question.SliceSize > 0 {
		o := t.leaveOut(t.untried(), t.attempts, fmt.Sprintf("%d pods fit in slices of %d in domains of %s", fits,
			t.question.SliceSize, t.asks.SliceKey), t.refusers()...)
		if o.sliced = true; len(t.tree.Values(t.question.Slice)) == 0 {
			o.waits = labelled(t.asks.SliceKey)
		}
		return t.tell(t.words(o, placements), best, fits)
	}
	o := t.words(t.s.tryGang(ctx, t.group, t.attempts, asked, t.domain(best)), placements)
	if cut != "" {
		o.status = cut
	}
	return t.tell(o, best, fits)
}

// tell has the verdict tell the best domain.
func (t *topology) tell(o *gangOutcome, best placement.Domain, fits int) *gangOutcome {
	o.best, o.bestFits = t.domain(best), int(t.question.Scheduled)+fits
	return o
}

// simulated is what a domain takes.
type simulated struct {
	placement.Domain
	estimate
	fits  int
	score int64
}

// estimate is what is known of a domain before it is tried: no more than so many members fit, and it has room for so many copies of all
// classes.
type estimate struct{ most, room int64 }

// simulate places members that are not alike: it tries them in each domain that may take enough, and lets go of what they hold.
func (t *topology) simulate(ctx context.Context) *gangOutcome {
	t.simulated = t.simulation()
	defer t.endSteps()
	if end := t.bound(ctx); end != nil {
		return end
	}
	scopes := t.candidates(t.question.Required, t.simulated.bounds, t.question.Need, nil)
	for {
		left := maxSimulated
		tried, end := t.tryEach(ctx, scopes, &left, math.MaxInt)
		if end != nil {
			return end
		}
		enough := slices.DeleteFunc(slices.Clone(tried), func(x simulated) bool { return x.fits < needOf(t.group, t.attempts) })
		if len(enough) == 0 {
			return t.simulatedShort(ctx, t.simulated.bounds, tried, len(scopes))
		}
		best, err := t.bestOf(enough)
		if err != nil {
			return t.fails(err)
		}
		if best, end = t.narrow(ctx, t.simulated.bounds, enough, best, &left); end != nil {
			return end
		}
		o := t.tell(t.words(t.s.tryGang(ctx, t.group, t.attempts, asked, t.domain(best.Domain)), t.placements()), best.Domain, best.fits)
		if !o.short() {
			return o
		}
		o.undo(ctx) // a step has seen room that is there no more
		best.fits = o.fit
		t.simulated.tried[best.Domain] = best
		if end = t.step(); end != nil {
			return end
		}
	}
}

// simulatedShort is the outcome where no domain takes enough. All were tried that may, but for a bound of the work.
func (t *topology) simulatedShort(ctx context.Context, bounds [][]estimate, tried []simulated, may int) *gangOutcome {
	if len(tried) == 0 {
		all := t.candidates(t.question.Required, bounds, 0, nil)
		best := slices.MaxFunc(all, func(a, b simulated) int { return cmp.Compare(a.most, b.most) })
		return t.short(ctx, best.Domain, int(best.most), "")
	}
	best := slices.MaxFunc(tried, func(a, b simulated) int { return cmp.Compare(a.fits, b.fits) })
	cut := ""
	if len(tried) < may {
		cut = fmt.Sprintf("0/%d placements are available, %d of %d that may be were not tried, first placement status: %s",
			t.placements(), may-len(tried), may, unschedulableGroup)
	}
	return t.short(ctx, best.Domain, best.fits, cut)
}

// bound finds how many members each domain takes at the most, by the tree's keys: of each class no more than it takes of this class alone.
// A class of which copies can't be told may fit anywhere. An outcome ends all.
func (t *topology) bound(ctx context.Context) (end *gangOutcome) {
	x, counts, firsts := t.simulated, map[uint64]int64{}, []*attempt{}
	for i := range t.attempts {
		a := &t.attempts[i]
		if a.failed != nil {
			continue
		}
		if id := a.Class.ID(); counts[id] == 0 {
			firsts = append(firsts, a)
		}
		counts[a.Class.ID()]++
	}
	for k := len(x.bounds); k <= len(t.keys); k++ {
		x.bounds = append(x.bounds, make([]estimate, len(t.tree.Values(k))))
	}
	for _, a := range firsts[min(x.bounded, len(firsts)):] {
		if a.Class.Rejected == nil {
			if end = t.step(); end == nil {
				end = t.boundBy(ctx, a, counts[a.Class.ID()])
			}
		}
		if end != nil {
			return end
		}
		x.bounded++
	}
	return nil
}

// boundBy adds what domains take of a class that so many members have.
func (t *topology) boundBy(ctx context.Context, a *attempt, n int64) (end *gangOutcome) {
	of, tied, err := t.copies(ctx, a)
	if err != nil {
		end = t.s.newOutcome(t.group, t.attempts)
		end.broken = err
		return end
	}
	for k, domains := range t.simulated.bounds {
		for d := range domains {
			room := n
			if tied == "" {
				room = of[k][d]
			}
			b := &domains[d]
			b.most, b.room = b.most+min(n, room), placement.Sum(b.room, room)
		}
	}
	return nil
}

// candidates are the domains of a key that may take so many members, in some of the scopes; no scopes: in any. Those that may take the
// most come first.
func (t *topology) candidates(key int, bounds [][]estimate, members int64, scopes []simulated) []simulated {
	in := map[placement.Domain]bool{}
	for _, s := range scopes {
		in[s.Domain] = true
	}
	var of []simulated
	for at, e := range bounds[key] {
		d := placement.Domain{Key: key, At: at}
		if e.most < members || key == t.question.Required && t.question.Pinned != nil && *t.question.Pinned != d {
			continue
		}
		if scope, inside := t.tree.In(d, t.question.Required); scopes != nil && !(inside && in[scope]) {
			continue
		}
		of = append(of, simulated{Domain: d, estimate: e})
	}
	values := t.tree.Values(key)
	slices.SortFunc(of, func(a, b simulated) int {
		return cmp.Or(-cmp.Compare(a.most, b.most), placement.CompareValues(values[a.At], values[b.At]))
	})
	return of
}

// tryEach tries the members in each domain, until one takes so many, or the bound of the work is reached. An outcome ends all: an
// error, or what has to be waited for.
func (t *topology) tryEach(ctx context.Context, domains []simulated, left *int, until int) (tried []simulated, end *gangOutcome) {
	for _, d := range domains {
		if *left < len(t.attempts) && *left < maxSimulated {
			break
		}
		*left -= len(t.attempts)
		if known, ok := t.simulated.tried[d.Domain]; ok {
			d = known
		} else if end = t.tryIn(ctx, &d); end != nil {
			return nil, end
		}
		if tried = append(tried, d); d.fits >= until {
			break
		}
	}
	return tried, nil
}

// tryIn tries the members in a domain. An outcome ends all.
func (t *topology) tryIn(ctx context.Context, d *simulated) (end *gangOutcome) {
	if end = t.step(); end != nil {
		return end
	}
	o := t.s.tryGang(ctx, t.group, t.attempts, unasked, t.domain(d.Domain))
	if o.broken != nil || o.invalid || o.aside != nil || o.code == gangFailed {
		return o
	}
	d.fits = o.fit
	if t.required != "" {
		d.score = t.fitOf(d.Domain, o.requests)
	}
	o.undo(ctx)
	t.simulated.tried[d.Domain] = *d
	return nil
}

// requests is what the members that fit request of a resource.
func (o *gangOutcome) requests(resource string) (sum int64) {
	for i := range o.members {
		if m := &o.members[i]; m.fits() {
			sum = placement.Sum(sum, requestOf(m.Class.Usage, resource))
		}
	}
	return sum
}

// bestOf is the domain that upstream's plugins choose.
func (t *topology) bestOf(enough []simulated) (simulated, error) {
	candidates := make([]placement.Candidate, len(enough))
	for i, d := range enough {
		candidates[i] = placement.Candidate{
			Value: t.tree.Value(d.Domain), Members: t.question.Scheduled + int64(d.fits), Fit: d.score, Left: d.room - int64(d.fits),
		}
	}
	best, err := placement.Best(candidates, t.question.Weights)
	return enough[best], err
}

// narrow is the domain of the narrowest preferred level that takes as many members as any scope does; if there is none, the best scope.
func (t *topology) narrow(ctx context.Context, bounds [][]estimate, scopes []simulated, best simulated, left *int) (simulated,
	*gangOutcome) {
	target := slices.MaxFunc(scopes, func(a, b simulated) int { return cmp.Compare(a.fits, b.fits) }).fits
	for i, key := range t.question.Preferred {
		level := t.candidates(key, bounds, int64(target), scopes)
		slices.Reverse(level) // the smallest that may do first
		if near := t.question.Near; near != nil {
			level = slices.DeleteFunc(level, func(d simulated) bool { return near[i] == nil || *near[i] != d.Domain })
		}
		tried, end := t.tryEach(ctx, level, left, target)
		if end != nil {
			return best, end
		}
		if n := len(tried); n > 0 && tried[n-1].fits >= target {
			return tried[n-1], nil
		}
	}
	return best, nil
}
