package scorer

import (
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strings"
)

// check tells whether the table's parts agree with each other: rows without a node
// are zero everywhere, and dictionaries hold exactly what rows refer to.
func (t *Table) check() error {
	if n := t.live.count(); n != t.nodes || len(t.byName) != n {
		return fmt.Errorf("got %d nodes and %d names, want %d live rows", t.nodes, len(t.byName), n)
	}
	text := int64(0)
	for row := range uint32(t.capacity) {
		text += int64(len(t.names[row]))
		if t.live.has(row) {
			if at, ok := t.byName[t.names[row]]; !ok || at != row {
				return fmt.Errorf("name %q of row %d leads to row %d, %t", t.names[row], row, at, ok)
			}
		} else if left := t.leftover(row); left != "" {
			return fmt.Errorf("row %d holds no node but has %s", row, left)
		}
	}
	for name := range t.scalars {
		text += int64(len(name))
	}
	if text != t.textBytes {
		return fmt.Errorf("got %d bytes of names, want %d", t.textBytes, text)
	}
	for _, check := range []func() error{t.checkLabels, t.checkTaints, t.checkImages, t.checkResources, t.checkPods, t.checkDerived, t.checkDevices} {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

func (t *Table) leftover(row uint32) string {
	var left []string
	add := func(what string, has bool) {
		if has {
			left = append(left, what)
		}
	}
	add("a name", t.names[row] != "" || t.hashes[row] != 0)
	add("the cordon", t.unschedulable.has(row))
	add("pods", t.pods[row] != 0 || t.allowedPods[row] != 0)
	add("a decision", t.lastDecision[row] != 0)
	add("numbered pods", t.placed.ofRow[row] != nil)
	add("ports", len(t.ports[row]) != 0)
	add("devices", t.devices != nil && (t.devices.rows[row] != nil || t.devices.states.at(row) != 0))
	add("taints", t.taints.ofRow[row] != 0)
	add("images", len(t.images.ofRow[row]) != 0)
	add("labels", t.labels.rowKeys[row] != 0)
	for _, c := range t.labels.columns {
		add("a label", c != nil && c.rows.at(row) != 0)
	}
	for r := range t.resources {
		add(r.name, r.allocatable.at(row) != 0 || r.requested.at(row) != 0)
	}
	add("non-zero requests", t.nonZero[cpu].at(row) != 0 || t.nonZero[memory].at(row) != 0)
	return strings.Join(left, ", ")
}

// checkDerived computes what follows from other columns anew.
func (t *Table) checkDerived() error {
	d := &t.derived
	for w, word := range t.live {
		least := [2]int64{math.MaxInt64, math.MaxInt64}
		for ; word != 0; word &= word - 1 {
			row := uint32(w*wordRows + bits.TrailingZeros64(word))
			if got, want := d.ties[row], tieOf(t.lastDecision[row], t.hashes[row]); got != want {
				return fmt.Errorf("row %d: got tie %x, want %x", row, got, want)
			}
			if got, want := d.full.has(row), t.pods[row] >= t.allowedPods[row]; got != want {
				return fmt.Errorf("row %d: got full %t, want %t", row, got, want)
			}
			advising := slices.ContainsFunc(t.taints.of(row), taint.advises)
			forbidding := slices.ContainsFunc(t.taints.of(row), func(x taint) bool { return !x.advises() })
			if a, f := t.taints.advising.has(row), t.taints.forbidding.has(row); a != advising || f != forbidding {
				return fmt.Errorf("row %d: got advising %t and forbidding %t, want %t and %t", row, a, f, advising, forbidding)
			}
			var shares []float64
			irregular := false
			for i, r := range t.fixed[:2] {
				all, used := r.allocatable.at(row), r.requested.at(row)
				if all != 0 {
					shares = append(shares, share(used, all))
				}
				least[i] = min(least[i], all-used)
				irregular = irregular || all == 0 || all > maxExact || used > maxRegular || t.nonZero[i].at(row) > maxRegular
			}
			if got, want := int64(d.balance[row]), balanceOf(deviation(shares)); got != want {
				return fmt.Errorf("row %d: got balance %d, want %d", row, got, want)
			}
			if got := d.irregular.has(row); got != irregular {
				return fmt.Errorf("row %d: got irregular %t, want %t", row, got, irregular)
			}
		}
		for i := range least {
			if got := d.free[i].amount[w]; got != least[i] {
				return fmt.Errorf("word %d: got %d free of %s at least, want %d", w, got, t.fixed[i].name, least[i])
			}
		}
	}
	return nil
}

func (t *Table) checkLabels() error {
	sets := make([]uint32, len(t.labels.keySets.refs))
	for row := range t.live.all {
		sets[t.labels.rowKeys[row]]++
	}
	if err := checkRefs("label keys", sets, t.labels.keySets.refs, len(t.labels.keySets.free)); err != nil {
		return err
	}
	used := 0
	for i, c := range t.labels.columns {
		if c == nil {
			continue
		}
		used++
		refs, text, n := make([]uint32, len(c.refs)), int64(0), 0
		for row := range t.live.all {
			id := c.rows.at(row)
			refs[id]++
			n += asInt(id != 0)
			if has := slices.Contains(t.labels.keySets.contents[t.labels.rowKeys[row]], uint32(i)); has != (id != 0) {
				return fmt.Errorf("row %d: label %s has value %d, but the row's keys say %t", row, c.key, id, has)
			}
		}
		for _, v := range c.values {
			text += int64(len(v))
		}
		if n == 0 || n != c.rows.used || text != c.text || t.labels.byKey[c.key] != uint32(i) {
			return fmt.Errorf("label %s: got %d rows and %d bytes, want %d and %d", c.key, c.rows.used, c.text, n, text)
		}
		if err := checkRefs("label "+c.key, refs, c.refs, len(c.free)); err != nil {
			return err
		}
		if len(c.byValue) != len(c.values)-1-len(c.free) {
			return fmt.Errorf("label %s: got %d values, want %d", c.key, len(c.byValue), len(c.values)-1-len(c.free))
		}
	}
	if used != len(t.labels.byKey) || used+len(t.labels.free) != len(t.labels.columns) {
		return fmt.Errorf("got %d keys and %d free columns, want %d of %d", len(t.labels.byKey), len(t.labels.free), used, len(t.labels.columns))
	}
	return nil
}

// checkRefs compares counted references with kept ones; number 0 is not counted.
func checkRefs(what string, want, got []uint32, free int) error {
	dead := 0
	for id := 1; id < len(want); id++ {
		if want[id] != got[id] {
			return fmt.Errorf("%s: entry %d: got %d references, want %d", what, id, got[id], want[id])
		}
		dead += asInt(want[id] == 0)
	}
	if dead != free {
		return fmt.Errorf("%s: got %d free entries, want %d", what, free, dead)
	}
	return nil
}

func (t *Table) checkTaints() error {
	refs := make([]uint32, len(t.taints.lists.refs))
	for row := range t.live.all {
		refs[t.taints.ofRow[row]]++
	}
	return checkRefs("taints", refs, t.taints.lists.refs, len(t.taints.lists.free))
}

func (t *Table) checkImages() error {
	counts := make([]int, len(t.images.images))
	for row := range t.live.all {
		for _, i := range t.images.ofRow[row] {
			counts[i]++
			if !t.images.images[i].has(row) {
				return fmt.Errorf("image %s does not know row %d", t.images.images[i].name, row)
			}
		}
	}
	dead, text := 0, int64(0)
	for i, m := range t.images.images {
		text += int64(len(m.name))
		if m.n != counts[i] || m.n != len(m.list)+m.bits.count() {
			return fmt.Errorf("image %s: got %d rows, want %d", m.name, m.n, counts[i])
		}
		dead += asInt(m.n == 0)
	}
	if text != t.images.text {
		return fmt.Errorf("images: got %d bytes of names, want %d", t.images.text, text)
	}
	if dead != len(t.images.free) || len(t.images.byName) != len(counts)-dead {
		return fmt.Errorf("got %d free and %d named images, want %d and %d", len(t.images.free), len(t.images.byName), dead, len(counts)-dead)
	}
	return nil
}

func (t *Table) checkResources() error {
	for i, r := range t.fixed {
		if r.index != i || r.allocatable.dense == nil || r.requested.dense == nil {
			return fmt.Errorf("resource %s: got index %d, want %d", r.name, r.index, i)
		}
	}
	rows := map[*resource]int{}
	for row, list := range t.scalarsOf {
		if !slices.IsSortedFunc(list, func(a, b *resource) int { return strings.Compare(a.name, b.name) }) {
			return fmt.Errorf("row %d: the scalars are not in order", row)
		}
		for _, r := range list {
			rows[r]++
		}
	}
	for name, r := range t.scalars {
		n := 0
		for row := range uint32(t.capacity) {
			n += asInt(r.isOn(row))
		}
		if r.name != name || n == 0 || n != r.rows || n != rows[r] {
			return fmt.Errorf("scalar %s: %d rows have some of it, %d name it, got %d", name, n, rows[r], r.rows)
		}
	}
	if len(rows) != len(t.scalars) {
		return fmt.Errorf("rows have %d scalars, want %d", len(rows), len(t.scalars))
	}
	return nil
}

func (t *Table) checkPods() error {
	s := &t.placed
	usages, counts, budgets := make([]uint32, len(s.usages.refs)), make([]uint32, len(s.counts.refs)), make([]uint32, len(s.budgets.refs))
	slots := 0
	for row, list := range s.ofRow {
		if !slices.IsSortedFunc(list, func(a, b placedPod) int { return comparePods(&a, &b, math.MaxInt64) }) {
			return fmt.Errorf("row %d: the pods are not in order", row)
		}
		slots += cap(list)
		for i := range list {
			usages[list[i].usage]++
			counts[list[i].counts]++
			budgets[list[i].budgets]++
		}
	}
	if slots != s.slots {
		return fmt.Errorf("got room for %d pods, want %d", s.slots, slots)
	}
	if err := checkRefs("usages", usages, s.usages.refs, len(s.usages.free)); err != nil {
		return err
	}
	if err := checkRefs("counts", counts, s.counts.refs, len(s.counts.free)); err != nil {
		return err
	}
	return checkRefs("budgets", budgets, s.budgets.refs, len(s.budgets.free))
}

// checkDevices makes each row's state anew, and counts what refers to dictionaries.
func (t *Table) checkDevices() error {
	d := t.devices
	if d == nil {
		return nil
	}
	states, inventories, contents := map[uint32]uint32{}, map[uint32]uint32{}, map[uint32]uint32{}
	for row := range t.live.all {
		if got, want := t.deviceState(row).digest, d.newState(view{t: t, row: row}); got != want.digest && (want.inventory != nil || len(want.reach) > 0) {
			return fmt.Errorf("row %d: got state %x, want %x", row, got, want.digest)
		}
		states[d.states.at(row)]++
	}
	for row, r := range d.rows {
		if r.inventory == 0 && len(r.uses) == 0 || len(r.names) != len(d.inventoryOf(r).slices) {
			return fmt.Errorf("row %d has %d names of %d slices and %d uses", row, len(r.names), len(d.inventoryOf(r).slices), len(r.uses))
		}
		inventories[r.inventory]++
	}
	for id := range inventories {
		for _, c := range d.inventories.contents[id].held() {
			contents[c]++
		}
	}
	for _, h := range d.shared.held {
		for _, c := range h.contents {
			contents[c]++
		}
	}
	for _, x := range []struct {
		what string
		refs []uint32
		want map[uint32]uint32
	}{{"states", d.interned.refs, states}, {"inventories", d.inventories.refs, inventories}, {"contents", d.contents.refs, contents}} {
		for id, n := range x.refs {
			if id != 0 && n != x.want[uint32(id)] {
				return fmt.Errorf("%s: number %d is held %d times, want %d", x.what, id, n, x.want[uint32(id)])
			}
		}
	}
	return nil
}

// held are the contents of an inventory; nil is none.
func (x *inventory) held() []uint32 {
	if x == nil {
		return nil
	}
	return x.contents
}
