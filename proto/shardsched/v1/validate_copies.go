package shardschedv1

import (
	"math"
	"slices"
)

const (
	// MaxCopies is how many copies a row is said to take at the most.
	MaxCopies = math.MaxInt32
	// MaxCopyKeys is by how many label keys copies may be asked for at once.
	MaxCopyKeys = 16
	// MaxCopyDomains is of how many domains of a key copies are told: a label that is a node's own, as its name, has as many as
	// there are nodes, and an answer with all of them would fit no message.
	MaxCopyDomains = 1 << 16
)

// validateCopies checks the keys that copies are asked for by.
func (x *ClassRequest) validateCopies() error {
	keys := x.GetCopyKeys()
	switch {
	case !x.GetCopies() && len(keys) > 0:
		return wrong("copy_keys", "expected none without copies, got %d", len(keys))
	case x.GetCopies() && x.GetDiagnose():
		return wrong("copies", "expected none with diagnose")
	case len(keys) > MaxCopyKeys:
		return wrong("copy_keys", "expected at most %d, got %d", MaxCopyKeys, len(keys))
	}
	for i, k := range keys {
		if slices.Contains(keys[:i], k) {
			return at("copy_keys", i, wrong("", "expected each key once, got %q again", short(k)))
		}
	}
	return names("copy_keys", keys)
}

// validateRows checks that so many rows may take the copies.
func (x *Copies) validateRows(rows uint32) error {
	if most := int64(rows) * MaxCopies; x.GetTotal() < 0 || x.GetTotal() > most {
		return wrong("total", "expected 0 to %d of %d rows, got %d", most, rows, x.GetTotal())
	}
	if n := len(x.GetKeys()); n > MaxCopyKeys {
		return wrong("keys", "expected at most %d, got %d", MaxCopyKeys, n)
	}
	for i, k := range x.GetKeys() {
		if err := k.validateSums(x.GetTotal()); err != nil {
			return at("keys", i, err)
		}
	}
	return nil
}

// validateSums checks domains and sums, which are no more than the total.
func (x *DomainCopies) validateSums(total int64) error {
	if err := name("key", x.GetKey()); err != nil {
		return err
	}
	n := len(x.GetDomains())
	switch {
	case n > MaxCopyDomains, x.GetMany() && n > 0:
		return wrong("domains", "expected at most %d, none of many, got %d", MaxCopyDomains, n)
	case len(x.GetSums()) != n:
		return wrong("sums", "expected one for each of %d domains, got %d", n, len(x.GetSums()))
	}
	left := total
	for i, d := range x.GetDomains() {
		if err := text("", d, maxText); err != nil {
			return at("domains", i, err)
		}
		if i > 0 && x.GetDomains()[i-1] >= d {
			return at("domains", i, wrong("", "expected domains sorted, each once"))
		}
		sum := x.GetSums()[i]
		if sum < 1 || sum > left {
			return at("sums", i, wrong("", "expected 1 to the %d that are left of the total, got %d", left, sum))
		}
		left -= sum
	}
	return nil
}
