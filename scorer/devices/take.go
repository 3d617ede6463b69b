package devices

// taking is one device taken, with all that giving it back has to undo.
type taking struct {
	option *option
	device int32
	// counted says that counters were taken, and constraints how many took the device in.
	counted     bool
	constraints int
	marked      bool
	shared      bool
	result      bool
}

// poolCounters are a pool's counters in a search.
type poolCounters struct {
	known bool
	// overdrawn says that allocated devices consume more of some counter than there is.
	overdrawn   bool
	free, taken []Amount
}

// outcomes of taking a device.
type tookIt uint8

const (
	notTaken tookIt = iota
	taken
	// contradicted: a constraint is against it.
	contradicted
)

// take gives a device that isn't busy to an option, unless counters, taints, constraints or capacities are against it.
func (s *Searcher) take(o *option, n int32) tookIt {
	d := &s.pools.devices[n]
	if len(d.Consumes) > 0 && !s.demand.features.PartitionableDevices {
		return notTaken
	}
	if s.demand.features.DeviceTaints && o.repelling(d.Taints) != nil {
		return notTaken
	}
	t := taking{option: o, device: n}
	multiple := s.multiple(n)
	if len(d.Consumes) > 0 && !(multiple && (has(s.use.holds, n) || s.shares[n] > 0)) {
		if !s.count(d) {
			return notTaken
		}
		t.counted = true
	}
	constraints := s.constraints[o.claim]
	for i := range constraints {
		k := &constraints[i]
		if k.applies[o.place] && !k.add(o.request, s.content(n), d.content) {
			s.revert(&t)
			return contradicted
		}
		t.constraints++
	}
	if o.Mode == AllDevices && !s.enough(o, n) {
		s.revert(&t)
		return notTaken
	}
	r := Result{Request: o.request, Alternative: o.alternative, Device: n, Admin: o.admin, Share: multiple}
	if multiple {
		t.shared = true
		s.share(o, n)
	} else {
		t.marked = true
		s.marks[n]++
	}
	t.result = true
	s.claims[o.claim].Results = append(s.claims[o.claim].Results, r)
	s.takings = append(s.takings, t)
	return taken
}

// share grants a share of a device.
func (s *Searcher) share(o *option, n int32) {
	s.shares[n]++
	capacities := s.content(n).Capacities
	if s.granted[n] == nil && len(capacities) > 0 {
		s.granted[n] = s.amounts.take(len(capacities))
		s.grantees = append(s.grantees, n)
	}
	for i := range capacities {
		amount, _ := capacities[i].portion(o.Alternative)
		s.granted[n][i] = s.granted[n][i].Plus(amount)
	}
}

func (s *Searcher) unshare(o *option, n int32) {
	s.shares[n]--
	capacities := s.content(n).Capacities
	for i := range capacities {
		amount, _ := capacities[i].portion(o.Alternative)
		s.granted[n][i] = s.granted[n][i].Minus(amount)
	}
}

// tellPortions writes into results what shares consume.
func (s *Searcher) tellPortions() {
	for c := range s.claims {
		for i := range s.claims[c].Results {
			r := &s.claims[c].Results[i]
			capacities := s.content(r.Device).Capacities
			if !r.Share || len(capacities) == 0 {
				continue
			}
			r.Consumed = s.portions.take(len(capacities))
			alternative := &s.demand.claims[c].Requests[r.Request].Alternatives[r.Alternative]
			for k := range capacities {
				amount, _ := capacities[k].portion(alternative)
				r.Consumed[k] = Counter{Name: capacities[k].Name, Value: amount}
			}
		}
	}
}

// giveBack undoes the last taking.
func (s *Searcher) giveBack() {
	last := len(s.takings) - 1
	s.revert(&s.takings[last])
	s.takings = s.takings[:last]
}

func (s *Searcher) revert(t *taking) {
	o := t.option
	if t.result {
		results := &s.claims[o.claim].Results
		*results = (*results)[:len(*results)-1]
	}
	if t.shared {
		s.unshare(o, t.device)
	}
	if t.marked {
		s.marks[t.device]--
	}
	for i := t.constraints - 1; i >= 0; i-- {
		if k := &s.constraints[o.claim][i]; k.applies[o.place] {
			k.remove(o.request)
		}
	}
	if t.counted {
		d := &s.pools.devices[t.device]
		sums := s.counters[d.pool].taken
		for _, c := range s.pools.consumed[d.from:d.to] {
			sums[c.counter] = sums[c.counter].Minus(c.value)
		}
	}
}

// count takes a device's counters, if the pool has as much.
func (s *Searcher) count(d *device) bool {
	counters := s.countersOf(d.pool)
	if counters.overdrawn {
		return false
	}
	list := s.pools.consumed[d.from:d.to]
	for _, c := range list {
		counters.taken[c.counter] = counters.taken[c.counter].Plus(c.value)
	}
	for _, c := range list {
		if counters.free[c.counter].Compare(counters.taken[c.counter]) < 0 {
			for _, c := range list {
				counters.taken[c.counter] = counters.taken[c.counter].Minus(c.value)
			}
			return false
		}
	}
	return true
}

// countersOf are a pool's counters, summed up.
func (s *Searcher) countersOf(pool int32) *poolCounters {
	counters := &s.counters[pool]
	if !counters.known {
		s.sumUp(counters, &s.pools.pools[pool])
		s.summedUp = append(s.summedUp, pool)
	}
	return counters
}

// sumUp finds what allocated devices leave of a pool's counters.
//
// Differs from upstream: sums are exact. Upstream adds amounts of 100Ti and more in place, and so changes the slices
// that it reads them from.
func (s *Searcher) sumUp(counters *poolCounters, p *pool) {
	counters.known = true
	counters.free = s.amounts.take(len(p.counters))
	counters.taken = s.amounts.take(len(p.counters))
	for i := range p.counters {
		counters.free[i] = p.counters[i].value
	}
	subtract := func(number int32, list []consumption) {
		if s.use.allocated(number) {
			for _, c := range list {
				counters.free[c.counter] = counters.free[c.counter].Minus(c.value)
			}
		}
	}
	for n := p.first; n < p.end; n++ {
		d := &s.pools.devices[n]
		subtract(n, s.pools.consumed[d.from:d.to])
	}
	for i := range p.others {
		subtract(p.others[i].number, p.others[i].consumes)
	}
	for _, free := range counters.free {
		counters.overdrawn = counters.overdrawn || free.High < 0
	}
}

// repelling is the first taint that keeps pods away and that an alternative does not tolerate; nil: there is none.
func (a *Alternative) repelling(taints []Taint) *Taint {
	for i := range taints {
		if e := taints[i].Effect; (e == "NoSchedule" || e == "NoExecute") && !a.tolerates(&taints[i]) {
			return &taints[i]
		}
	}
	return nil
}

func (a *Alternative) tolerates(taint *Taint) bool {
	for i := range a.Tolerations {
		t := &a.Tolerations[i]
		if t.Effect != "" && t.Effect != taint.Effect || t.Key != "" && t.Key != taint.Key {
			continue
		}
		switch t.Operator {
		case "", "Equal":
			if t.Value == taint.Value {
				return true
			}
		case "Exists":
			return true
		}
	}
	return false
}

// contradiction ends the search: all devices are wanted, and a constraint is against one of them.
func (s *Searcher) contradiction(o *option, n int32) step {
	d := &s.pools.devices[n]
	s.text = Text{Claim: o.claim, Pool: d.pool, Parts: [3]string{
		"claim ", ", request " + o.name + ": cannot add device ", "/" + d.Name + " because a claim constraint would not be satisfied"}}
	return fatal
}

// checkSelectors refuses an allocation whose nodes no single term can name.
func (s *Searcher) checkSelectors() step {
	for c := range s.claims {
		for _, r := range s.claims[c].Results {
			d := &s.pools.devices[r.Device]
			reach := d.slice.Reach
			if reach.Kind == ReachEach {
				reach = d.Device.Reach
			}
			if reach.Kind == ReachThisNode || reach.Kind == ReachName || d.BindsToNode {
				break
			}
			if reach.Kind == ReachSelector && reach.Terms > 1 {
				s.refuse(int32(c), ": unsupported ResourceSlice.NodeSelector with %d terms", reach.Terms)
				s.text.Parts[0], s.text.BareClaim = "create NodeSelector for claim ", true
				return fatal
			}
		}
	}
	return found
}
