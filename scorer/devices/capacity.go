package devices

import "slices"

// asked is what an alternative asks of the capacity of a name.
func (a *Alternative) asked(name string) (Amount, bool) {
	for i := range a.Capacities {
		if a.Capacities[i].Name == name {
			return a.Capacities[i].Value, true
		}
	}
	return Amount{}, false
}

// asksUnknown tells whether an alternative asks for a capacity that a device lacks.
func (a *Alternative) asksUnknown(c *Content) bool {
	return slices.ContainsFunc(a.Capacities, func(asked Counter) bool {
		return !slices.ContainsFunc(c.Capacities, func(x Capacity) bool { return x.Name == asked.Name })
	})
}

// portion is what an allocation takes of the capacity, and whether its policy allows as much.
func (c *Capacity) portion(a *Alternative) (Amount, bool) {
	amount, asked := a.asked(c.Name)
	switch {
	case !asked && (c.Policy == nil || c.Policy.Default == nil):
		amount = c.Value
	case !asked:
		amount = *c.Policy.Default
	}
	if c.Policy == nil {
		return amount, true
	}
	if asked {
		amount = c.Policy.roundedUp(amount)
	}
	return amount, c.Policy.allows(amount)
}

// roundedUp is the smallest portion that is not less than an amount; beyond the largest portion, the amount itself.
func (p *Policy) roundedUp(amount Amount) Amount {
	if p.Range != nil && p.Range.Min != nil {
		return p.Range.roundedUp(amount)
	}
	for _, portion := range p.Values {
		if amount.Compare(portion) <= 0 {
			return portion
		}
	}
	return amount
}

// roundedUp counts steps in whole numbers.
func (r *Range) roundedUp(amount Amount) Amount {
	if amount.Compare(*r.Min) < 0 {
		return *r.Min
	}
	if r.Step == nil || r.Step.Ceil() == 0 {
		return amount
	}
	smallest, step := r.Min.Ceil(), r.Step.Ceil()
	beyond := amount.Ceil() - smallest
	steps := beyond / step
	if beyond%step != 0 {
		steps++
	}
	return Units(smallest+steps*step, BinarySI)
}

// allows tells whether an amount is a portion. The default is one in any case, as the API server sees to.
func (p *Policy) allows(amount Amount) bool {
	switch {
	case p.Default != nil && amount == *p.Default:
		return true
	case p.Range != nil:
		return p.Range.allows(amount)
	case len(p.Values) > 0:
		return slices.ContainsFunc(p.Values, func(v Amount) bool { return v.Compare(amount) == 0 })
	}
	return true
}

func (r *Range) allows(amount Amount) bool {
	if r.Max != nil && amount.Compare(*r.Max) > 0 {
		return false
	}
	if r.Step == nil || r.Step.Ceil() == 0 {
		return true
	}
	smallest := int64(0)
	if r.Min != nil {
		smallest = r.Min.Ceil()
	}
	return (amount.Ceil()-smallest)%r.Step.Ceil() == 0
}

// enough tells whether a device has what an alternative takes of its capacities, beside what shares hold of them: held
// by allocated claims, and granted in this search, capacity by capacity.
func (a *Alternative) enough(c *Content, held []Counter, granted []Amount) bool {
	if len(a.Capacities) > 0 && a.asksUnknown(c) {
		return false
	}
	for i := range c.Capacities {
		capacity := &c.Capacities[i]
		amount, allowed := capacity.portion(a)
		if !allowed {
			return false
		}
		for _, h := range held {
			if h.Name == capacity.Name {
				amount = amount.Plus(h.Value)
			}
		}
		if granted != nil {
			amount = amount.Plus(granted[i])
		}
		if amount.Compare(capacity.Value) > 0 {
			return false
		}
	}
	return true
}
