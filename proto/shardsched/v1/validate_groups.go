package shardschedv1

import (
	"math/bits"
	"slices"
)

// Bounds of what a query's group part is made of.
const (
	// MaxDomainKeys is how many domain keys a query may have: Group.missing has a bit for
	// each.
	MaxDomainKeys = 256
	// MaxRowValues is how many row values a query may have.
	MaxRowValues = 256
	// MaxMeasures is how many measures a query may have.
	MaxMeasures = 512
	// MaxPinned is how many pinned terms a row value may have: more than nodes have labels.
	MaxPinned = 4096
	// MaxCounterWeight is the most that a counter counts with, above or below zero. A row's
	// value stays far below 62 bits with it, and so does what is added up of it.
	MaxCounterWeight = 1 << 20

	maxCounterValue = 1 << 40
	maxPinnedSum    = 1 << 62
)

// counter checks a counter's id.
func counter(field string, id uint32) error {
	if id == 0 {
		return wrong(field, "expected 1 or more, got 0")
	}
	return nil
}

// signed checks a number that may be below zero, but not zero.
func signed(field string, v, limit int64) error {
	if v == 0 || v > limit || v < -limit {
		return wrong(field, "expected a number other than 0 from %d to %d, got %d", -limit, limit, v)
	}
	return nil
}

// Validate checks counter and value.
func (x *CounterValue) Validate() error {
	if err := counter("counter", x.GetCounter()); err != nil {
		return err
	}
	return signed("value", x.GetValue(), maxCounterValue)
}

// sortedCounters checks a list of values: counters strictly ascending.
func sortedCounters(list []*CounterValue) error { return countersIn("counters", list) }

// countersIn is sortedCounters of a field of another name.
func countersIn(field string, list []*CounterValue) error {
	for i, c := range list {
		if err := c.Validate(); err != nil {
			return at(field, i, err)
		}
		if i > 0 && list[i-1].Counter >= c.Counter {
			return at(field, i, wrong("counter", "expected a counter after %d, got %d", list[i-1].Counter, c.Counter))
		}
	}
	return nil
}

// Validate checks that there is a change, and all of them.
func (x *CounterChange) Validate() error {
	if len(x.GetCounters()) == 0 {
		return wrong("counters", "expected at least one, got none")
	}
	return sortedCounters(x.GetCounters())
}

// Validate checks the rows and their values.
func (x *CounterColumn) Validate() error {
	if err := counter("counter", x.GetCounter()); err != nil {
		return err
	}
	if len(x.GetRows()) != len(x.GetValues()) {
		return wrong("values", "expected as many as rows, %d, got %d", len(x.GetRows()), len(x.GetValues()))
	}
	for i, r := range x.GetRows() {
		if err := row("", r); err != nil {
			return at("rows", i, err)
		}
		if i > 0 && x.Rows[i-1] >= r {
			return at("rows", i, wrong("", "expected a row after %d, got %d", x.Rows[i-1], r))
		}
		if err := signed("", x.Values[i], maxCounterValue); err != nil {
			return at("values", i, err)
		}
	}
	if err := x.validatePods(); err != nil {
		return err
	}
	return x.validatePart()
}

// validatePart checks that a part of a column tells of its own rows alone.
func (x *CounterColumn) validatePart() error {
	from, to := x.GetFromRow(), x.GetToRow()
	if to == 0 && from == 0 {
		return nil
	}
	if to <= from || to > MaxRow {
		return wrong("to_row", "expected more than from_row, %d, and at most %d, got %d", from, MaxRow, to)
	}
	for _, part := range []struct {
		field string
		rows  []uint32
	}{{"rows", x.GetRows()}, {"pod_rows", x.GetPodRows()}} { // in order
		if n := len(part.rows); n > 0 && (part.rows[0] < from || part.rows[n-1] >= to) {
			return wrong(part.field, "expected rows from %d on and before %d, got %d to %d", from, to, part.rows[0], part.rows[n-1])
		}
	}
	return nil
}

// Validate checks counter and weight.
func (x *CounterTerm) Validate() error {
	if err := counter("counter", x.GetCounter()); err != nil {
		return err
	}
	return signed("weight", x.GetWeight(), MaxCounterWeight)
}

// Validate checks the keys.
func (x *Inclusion) Validate() error {
	return names("topology_keys", x.GetTopologyKeys())
}

// names checks names in any order.
func names(field string, list []string) error {
	for i, n := range list {
		if err := name("", n); err != nil {
			return at(field, i, err)
		}
	}
	return nil
}

// Validate checks key, counters and inclusion, or what is pinned.
func (x *RowValue) Validate() error {
	if len(x.GetPinned()) > 0 {
		return x.validatePinned()
	}
	if err := text("topology_key", x.GetTopologyKey(), maxText); err != nil {
		return err
	}
	if err := each("counters", x.GetCounters()); err != nil {
		return err
	}
	return in("inclusion", x.GetInclusion().Validate())
}

func (x *RowValue) validatePinned() error {
	if n := len(x.GetPinned()); n > MaxPinned {
		return wrong("pinned", "expected at most %d, got %d", MaxPinned, n)
	}
	if x.GetTopologyKey() != "" || len(x.GetCounters()) > 0 || x.GetInclusion() != nil {
		return wrong("pinned", "expected none beside topology_key, counters or inclusion")
	}
	return each("pinned", x.GetPinned())
}

// Validate checks key and counters.
func (x *PinnedTerms) Validate() error {
	if err := name("topology_key", x.GetTopologyKey()); err != nil {
		return err
	}
	if len(x.GetCounters()) == 0 {
		return wrong("counters", "expected at least one, got none")
	}
	return each("counters", x.GetCounters())
}

// Validate checks the columns against each other.
func (x *PinnedSums) Validate() error {
	if d, n := len(x.GetDomains()), len(x.GetSums()); d != n {
		return wrong("sums", "expected as many as domains, %d, got %d", d, n)
	}
	for i, n := range x.GetSums() {
		if err := signed("", n, maxPinnedSum); err != nil {
			return at("sums", i, err)
		}
	}
	return sortedTexts("domains", x.GetDomains())
}

// Validate checks the breakdown and what is added up.
func (x *Measure) Validate() error {
	if err := member("by", x.GetBy(), Breakdown_BREAKDOWN_VALUE); err != nil {
		return err
	}
	if x.GetBy() == Breakdown_BREAKDOWN_DOMAIN {
		if err := name("topology_key", x.GetTopologyKey()); err != nil {
			return err
		}
	} else if x.GetTopologyKey() != "" {
		return wrong("topology_key", "expected none for %s, got %q", x.GetBy().String(), short(x.GetTopologyKey()))
	}
	if err := each("counters", x.GetCounters()); err != nil {
		return err
	}
	return in("inclusion", x.GetInclusion().Validate())
}

// measured says what a place has to have.
type measured int

const (
	unmeasured measured = iota // without a measure
	byDomain
	byTotal
	byValue
)

// place checks that a place is in the key, and that its measure is of the right kind.
func (x *Query) place(p *Place, domain, row measured) error {
	kind := domain
	switch in := p.GetIn().(type) {
	case *Place_Domain:
		if int(in.Domain) >= len(x.GetDomainKeys()) {
			return wrong("domain", "expected an index below %d, got %d", len(x.GetDomainKeys()), in.Domain)
		}
	case *Place_RowValue:
		if int(in.RowValue) >= len(x.GetRowValues()) {
			return wrong("row_value", "expected an index below %d, got %d", len(x.GetRowValues()), in.RowValue)
		}
		kind = row
	default:
		return wrong("in", "expected domain or row_value, got none")
	}
	return x.measure("measure", p.GetMeasure(), kind)
}

func (x *Query) measure(field string, i uint32, kind measured) error {
	want := Breakdown_BREAKDOWN_UNSPECIFIED
	switch kind {
	case unmeasured:
		if i != 0 {
			return wrong(field, "expected none, got %d", i)
		}
		return nil
	case byDomain:
		want = Breakdown_BREAKDOWN_DOMAIN
	case byTotal:
		want = Breakdown_BREAKDOWN_TOTAL
	case byValue:
		want = Breakdown_BREAKDOWN_VALUE
	}
	if int(i) >= len(x.GetMeasures()) {
		return wrong(field, "expected an index below %d, got %d", len(x.GetMeasures()), i)
	}
	if by := x.Measures[i].GetBy(); by != want {
		return wrong(field, "expected a measure by %s, got one by %s", want.String(), by.String())
	}
	return nil
}

// unpinned checks that a place is no pinned row value.
func (x *Query) unpinned(p *Place) error {
	if in, ok := p.GetIn().(*Place_RowValue); ok && len(x.GetRowValues()[in.RowValue].GetPinned()) > 0 {
		return wrong("row_value", "expected one that is not pinned, got %d", in.RowValue)
	}
	return nil
}

// places checks a list of places.
func (x *Query) places(field string, list []*Place, domain, row measured) error {
	for i, p := range list {
		if err := x.place(p, domain, row); err != nil {
			return at(field, i, err)
		}
	}
	return nil
}

// validateGroups checks what the group part reads.
func (x *Query) validateGroups() error {
	if err := x.validateKeys(); err != nil {
		return err
	}
	if err := x.validateSpread(); err != nil {
		return in("spread", err)
	}
	a := x.GetInterPodAffinity()
	if err := x.places("required", a.GetRequired(), byDomain, byTotal); err != nil {
		return in("inter_pod_affinity", err)
	}
	for i, p := range a.GetRequired() {
		if err := x.unpinned(p); err != nil {
			return in("inter_pod_affinity", at("required", i, err))
		}
	}
	if err := x.places("anti", a.GetAnti(), byDomain, unmeasured); err != nil {
		return in("inter_pod_affinity", err)
	}
	if err := x.validateAlone(a); err != nil {
		return in("inter_pod_affinity", err)
	}
	if err := x.places("existing_anti", a.GetExistingAnti(), byDomain, unmeasured); err != nil {
		return in("inter_pod_affinity", err)
	}
	return in("inter_pod_affinity", x.places("preferred", a.GetPreferred(), byDomain, unmeasured))
}

// validateAlone checks that the row values that a pod of the class makes above 0 are of its own terms.
func (x *Query) validateAlone(a *InterPodAffinityQuery) error {
	for i, value := range a.GetAlone() {
		own := slices.ContainsFunc(a.GetAnti(), func(p *Place) bool {
			in, ok := p.GetIn().(*Place_RowValue)
			return ok && in.RowValue == value
		})
		if !own || i > 0 && a.Alone[i-1] >= value {
			return at("alone", i, wrong("", "expected row values of anti, ascending, got %d", value))
		}
	}
	return nil
}

// validateKeys checks domain keys, row values and measures.
func (x *Query) validateKeys() error {
	for _, l := range []struct {
		field    string
		n, limit int
	}{
		{"domain_keys", len(x.GetDomainKeys()), MaxDomainKeys},
		{"row_values", len(x.GetRowValues()), MaxRowValues},
		{"measures", len(x.GetMeasures()), MaxMeasures},
	} {
		if l.n > l.limit {
			return wrong(l.field, "expected at most %d, got %d", l.limit, l.n)
		}
	}
	if err := names("domain_keys", x.GetDomainKeys()); err != nil {
		return err
	}
	for i, k := range x.GetDomainKeys() {
		for _, before := range x.DomainKeys[:i] {
			if before == k {
				return at("domain_keys", i, wrong("", "expected each key once, got %q again", short(k)))
			}
		}
	}
	if err := each("row_values", x.GetRowValues()); err != nil {
		return err
	}
	return each("measures", x.GetMeasures())
}

// validateSpread checks the constraints.
func (x *Query) validateSpread() error {
	for i, c := range x.GetSpread().GetHard() {
		if err := x.place(c.GetPlace(), byDomain, byValue); err != nil {
			return at("hard", i, in("place", err))
		}
		if err := x.unpinned(c.GetPlace()); err != nil {
			return at("hard", i, in("place", err))
		}
		if err := within("max_skew", int64(c.GetMaxSkew()), 1, maxInt32); err != nil {
			return at("hard", i, err)
		}
		if err := within("min_domains", int64(c.GetMinDomains()), 1, maxInt32); err != nil {
			return at("hard", i, err)
		}
	}
	for i, c := range x.GetSpread().GetSoft() {
		if err := x.place(c.GetPlace(), byDomain, unmeasured); err != nil {
			return at("soft", i, in("place", err))
		}
		if err := x.unpinned(c.GetPlace()); err != nil {
			return at("soft", i, in("place", err))
		}
		if err := within("max_skew", int64(c.GetMaxSkew()), 1, maxInt32); err != nil {
			return at("soft", i, err)
		}
	}
	return nil
}

const maxInt32 = 1<<31 - 1

// Validate checks the columns against each other. What a measure is broken down by the
// query tells.
func (x *MeasureResult) Validate() error {
	rows := len(x.GetRows())
	switch domains, values, sums := len(x.GetDomains()), len(x.GetValues()), len(x.GetSums()); {
	case values > 0 && (domains > 0 || sums > 0):
		return wrong("values", "expected either values or sums, got both")
	case values > 0 && values != rows:
		return wrong("values", "expected as many as rows, %d, got %d", rows, values)
	case values == 0 && sums != rows:
		return wrong("sums", "expected as many as rows, %d, got %d", rows, sums)
	case values == 0 && domains != rows && (domains > 0 || rows != 1):
		return wrong("domains", "expected as many as rows, %d, got %d", rows, domains)
	}
	if err := sortedTexts("domains", x.GetDomains()); err != nil {
		return err
	}
	for i := 1; i < len(x.GetValues()); i++ {
		if x.Values[i-1] >= x.Values[i] {
			return at("values", i, wrong("", "expected a value after %d, got %d", x.Values[i-1], x.Values[i]))
		}
	}
	return nil
}

// sortedTexts checks texts, empty ones allowed: strictly ascending.
func sortedTexts(field string, list []string) error {
	for i, v := range list {
		if err := text("", v, maxText); err != nil {
			return at(field, i, err)
		}
		if i > 0 && list[i-1] >= v {
			return at(field, i, wrong("", "expected a text after %q, got %q", short(list[i-1]), short(v)))
		}
	}
	return nil
}

// hasBit tells whether bit i of a list of words is set.
func hasBit(words []uint64, i int) bool { return i/64 < len(words) && words[i/64]>>(i%64)&1 != 0 }

// bitLen is the number of the last bit that is set, plus one.
func bitLen(words []uint64) int {
	for i := len(words) - 1; i >= 0; i-- {
		if words[i] != 0 {
			return 64*i + bits.Len64(words[i])
		}
	}
	return 0
}
