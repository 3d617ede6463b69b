package devices

import (
	"cmp"
	"slices"
)

// Diagnosis is why a search finds no devices for a demand: the first request that can't be met beside all those before it, and
// what keeps each device from it.
type Diagnosis struct {
	// Verdict is the search's. Where devices are allocated, there is nothing more to tell.
	Verdict Verdict
	// Text is that of a fatal search.
	Text Text
	// CutOff says that the budget was used up: this is what was found until then.
	CutOff bool
	// Claim and Request are that request's, by the demand.
	Claim, Request int32
	// Lacks has an entry for each alternative of the request that was looked at; none where the search is fatal for another
	// reason than its budget.
	Lacks []Lack
	// Steps are those that the diagnosis took.
	Steps int64
}

// Lack is what one alternative of a request lacks.
type Lack struct {
	Alternative int32
	// Wanted is how many devices it needs; Found the most that could be had at once.
	Wanted, Found int64
	// Limit says that its claim would get more than MaxResults.
	Limit bool
	// Devices is how many devices the node reaches, InClass how many of them the class selects.
	Devices, InClass int
	// Causes are why the others were not had, each with the number of its devices. Each device counts once; those that the class
	// does not select count where it selects none.
	Causes []CauseCount
	// Nearest are some of the others: one for each cause, as many as there is room for.
	Nearest []Missed
}

// CauseCount is how many devices one cause keeps from an alternative; a cause of pools counts pools.
type CauseCount struct {
	Cause
	Devices int
}

// Missed is one device that was not had.
type Missed struct {
	// Device is its number; -1: a pool of which no device can be had.
	Device, Pool int32
	Cause        Cause
	// Short is what is missing of a counter, or of a capacity.
	Short Amount
	// Has is the device's value of a constraint's attribute, and Others the value that the devices before it have.
	Has, Others Value
	// ByClaim and ByRequest are whose it is, where the same pod has taken it.
	ByClaim, ByRequest int32
}

// Cause is why a device can't be had. Causes that are == are one.
type Cause struct {
	Kind CauseKind
	// Class says that a selector is the class's. Index is the selector's.
	Class bool
	Index int32
	// Name is that of an attribute, a capacity or a counter; Set the counter's set.
	Set, Name string
	Taint     Taint
	// Why is that of an invalid pool.
	Why string
}

// CauseKind is a kind of cause, the nearest to success first.
type CauseKind uint8

const (
	// CauseTogether: the device could be had by itself, not with what follows.
	CauseTogether CauseKind = iota
	// CauseMatch, CauseDistinct: a constraint wants the value of the devices before, or another.
	CauseMatch
	CauseDistinct
	// CauseNoAttribute: a constraint looks at an attribute that the device lacks.
	CauseNoAttribute
	CauseCounter
	CauseTaint
	// CauseCapacity: the device has too little of it left; CausePortion: it gives no such portion; CauseNoCapacity: it has none.
	CauseCapacity
	CausePortion
	CauseNoCapacity
	// CauseTaken: the same pod has taken it.
	CauseTaken
	// CauseInUse: other claims have it.
	CauseInUse
	// CauseGate: it needs a feature that is off.
	CauseGate
	CauseSelector
	CauseIncomplete
	CauseInvalid
)

// nearest is how many devices a lack names.
const nearest = 4

// watch follows a search, and may stop it.
type watch struct {
	// claim and request are the last that the search came to.
	claim, request int32
	// most is how many devices each alternative of the request got at once; -1: it was not looked at.
	most []int64
	// stop has the search end as if it had found all, where this alternative has that many devices.
	stop        bool
	alternative int32
	has         int64
}

// sees is called where an option has so many devices; true: the search is to stop.
func (w *watch) sees(o *option, has int64, alternatives int) (stop bool) {
	at := cmp.Or(cmp.Compare(o.claim, w.claim), cmp.Compare(o.request, w.request))
	switch {
	case w.stop:
		return at == 0 && o.alternative == w.alternative && has == w.has
	case at > 0 || w.most == nil:
		w.claim, w.request = o.claim, o.request
		w.most = slices.Repeat([]int64{-1}, alternatives)
	case at < 0:
		return false
	}
	w.most[o.alternative] = max(w.most[o.alternative], has)
	return false
}

// Diagnose tells why Search finds no devices. It searches once for the request, and once for each of its alternatives, each time
// within the budget.
func (s *Searcher) Diagnose(pools *Pools, use *Use, demand *Demand, budget int64) Diagnosis {
	w := &watch{}
	s.watch = w
	defer func() { s.watch = nil }()
	out := s.Search(pools, use, demand, budget)
	d := Diagnosis{Verdict: out.Verdict, Text: out.Text, CutOff: out.Exhausted, Claim: w.claim, Request: w.request, Steps: out.Steps}
	if out.Verdict == Allocated || out.Verdict == Fatal && !out.Exhausted {
		return d
	}
	w.stop = true
	for a, has := range w.most {
		if has < 0 {
			continue
		}
		w.alternative, w.has = int32(a), has
		s.begin(pools, use, demand, budget)
		if s.prepare() != found || s.claim(0) != found {
			continue // the budget ends here, as before
		}
		o := &s.options[s.firstOption[w.claim][w.request]+int32(a)]
		d.Lacks = append(d.Lacks, s.lack(o, has))
		d.CutOff = d.CutOff || s.steps > s.budget
		d.Steps += s.steps
	}
	return d
}

// lack tells why an option gets no more devices than it has, as the search stands.
func (s *Searcher) lack(o *option, has int64) Lack {
	l := Lack{Alternative: o.alternative, Wanted: o.need, Found: has}
	l.Limit = o.need-has > int64(MaxResults-len(s.claims[o.claim].Results))
	var missed []Missed
	for i := range s.pools.pools {
		p := &s.pools.pools[i]
		kind := CauseIncomplete
		if p.state == PoolInvalid {
			kind = CauseInvalid
		}
		if p.state != PoolReady {
			missed = append(missed, Missed{Device: -1, Pool: int32(i), Cause: Cause{Kind: kind, Why: p.why}})
		}
	}
	for n := range s.pools.Devices() {
		d := &s.pools.devices[n]
		if d.reach != reached {
			continue
		}
		l.Devices++
		m := Missed{Device: n, Pool: d.pool}
		if s.miss(o, &m) {
			l.InClass++
		}
		if s.steps > s.budget {
			break
		}
		switch {
		case s.has(o, n):
		case m.Cause.Kind != CauseTogether:
			missed = append(missed, m)
		case o.Mode == AllDevices:
			l.Found++
		case !l.Limit:
			missed = append(missed, m)
		}
	}
	if l.InClass > 0 {
		missed = slices.DeleteFunc(missed, func(m Missed) bool { return m.Cause.Class })
	}
	l.tell(missed)
	return l
}

// tell counts causes, and names some devices.
func (l *Lack) tell(missed []Missed) {
	slices.SortStableFunc(missed, func(a, b Missed) int { return cmp.Compare(a.Cause.Kind, b.Cause.Kind) })
	var more []Missed
	for _, m := range missed {
		i := slices.IndexFunc(l.Causes, func(c CauseCount) bool { return c.Cause == m.Cause })
		switch {
		case i < 0:
			l.Causes = append(l.Causes, CauseCount{m.Cause, 1})
			l.Nearest = append(l.Nearest, m)
			continue
		case len(more) < nearest:
			more = append(more, m)
		}
		l.Causes[i].Devices++
	}
	l.Nearest = append(l.Nearest, more...)
	l.Nearest = l.Nearest[:min(len(l.Nearest), nearest)]
}

// has tells whether an option has taken a device.
func (s *Searcher) has(o *option, n int32) bool {
	return slices.ContainsFunc(s.takings, func(t taking) bool { return t.option == o && t.device == n })
}

// miss finds why an option can't have a device: selectors first, since a device that they refuse is none of those asked for. It
// tells whether the class selects the device.
func (s *Searcher) miss(o *option, m *Missed) (inClass bool) {
	inClass = s.refused(o.ClassSelectors, m)
	m.Cause.Class = !inClass
	if !inClass || !s.refused(o.Selectors, m) {
		return inClass
	}
	d := &s.pools.devices[m.Device]
	features := &s.demand.features
	switch {
	case d.Conditioned && !features.BindingConditions, len(d.Consumes) > 0 && !features.PartitionableDevices:
		m.Cause.Kind = CauseGate
	case s.busy(o, m.Device):
		s.owner(m)
	case features.ConsumableCapacity && s.shortOfCapacity(o, m):
	case features.DeviceTaints && o.repelling(d.Taints) != nil:
		m.Cause.Kind, m.Cause.Taint = CauseTaint, *o.repelling(d.Taints)
	case s.shortOfCounter(d, m):
	default:
		s.constrained(o, m)
	}
	return true
}

// refused tells whether all selectors match, or else notes the first that does not. One that fails would end a search, so the
// search did not come to it, and there is another cause.
func (s *Searcher) refused(selectors []Selector, m *Missed) (match bool) {
	content := s.content(m.Device)
	for i, selector := range selectors {
		j := selector.Judge(content)
		s.spend(j.Steps + evaluationSteps)
		if !j.Match && j.Error == "" {
			m.Cause.Kind, m.Cause.Index = CauseSelector, int32(i)
			return false
		}
	}
	return true
}

// owner notes who has a device that is busy.
func (s *Searcher) owner(m *Missed) {
	m.Cause.Kind = CauseInUse
	for i := range s.takings {
		if t := &s.takings[i]; t.device == m.Device && t.marked {
			m.Cause.Kind, m.ByClaim, m.ByRequest = CauseTaken, t.option.claim, t.option.request
		}
	}
}

// shortOfCapacity is the counterpart of Alternative.enough.
func (s *Searcher) shortOfCapacity(o *option, m *Missed) bool {
	content := s.content(m.Device)
	for i := range o.Capacities {
		asked := &o.Capacities[i]
		if !slices.ContainsFunc(content.Capacities, func(x Capacity) bool { return x.Name == asked.Name }) {
			m.Cause.Kind, m.Cause.Name = CauseNoCapacity, asked.Name
			return true
		}
	}
	for i := range content.Capacities {
		capacity := &content.Capacities[i]
		amount, allowed := capacity.portion(o.Alternative)
		if !allowed {
			m.Cause.Kind, m.Cause.Name = CausePortion, capacity.Name
			return true
		}
		for _, h := range s.use.held[m.Device] {
			if h.Name == capacity.Name {
				amount = amount.Plus(h.Value)
			}
		}
		if granted := s.granted[m.Device]; granted != nil {
			amount = amount.Plus(granted[i])
		}
		if amount.Compare(capacity.Value) > 0 {
			m.Cause.Kind, m.Cause.Name, m.Short = CauseCapacity, capacity.Name, amount.Minus(capacity.Value)
			return true
		}
	}
	return false
}

// shortOfCounter is the counterpart of Searcher.count.
func (s *Searcher) shortOfCounter(d *device, m *Missed) bool {
	if len(d.Consumes) == 0 || s.multiple(m.Device) && (has(s.use.holds, m.Device) || s.shares[m.Device] > 0) {
		return false
	}
	counters := s.countersOf(d.pool)
	for i := range counters.free {
		wanted := counters.taken[i]
		for _, c := range s.pools.consumed[d.from:d.to] {
			if int(c.counter) == i {
				wanted = wanted.Plus(c.value)
			}
		}
		if counters.free[i].Compare(wanted) < 0 {
			of := &s.pools.pools[d.pool].counters[i]
			m.Cause.Kind, m.Cause.Set, m.Cause.Name, m.Short = CauseCounter, of.set, of.name, wanted.Minus(counters.free[i])
			m.Short.Format = of.value.Format
			return true
		}
	}
	return false
}

// constrained finds the constraint that is against a device.
func (s *Searcher) constrained(o *option, m *Missed) {
	number := s.pools.devices[m.Device].content
	for i := range s.constraints[o.claim] {
		k := &s.constraints[o.claim][i]
		if !k.applies[o.place] {
			continue
		}
		v, ok := k.value(s.content(m.Device), number)
		m.Cause.Index, m.Cause.Name, m.Has, m.Others = int32(i), k.attribute, v, k.match
		switch {
		case !ok:
			m.Cause.Kind = CauseNoAttribute
			return
		case !k.distinct && k.count > 0 && (v.Kind == ValueUnknown || v != k.match):
			m.Cause.Kind = CauseMatch
			return
		case k.distinct && k.count > 0 && !k.differs(v):
			m.Cause.Kind = CauseDistinct
			return
		}
	}
	m.Cause.Index, m.Cause.Name = 0, ""
}
