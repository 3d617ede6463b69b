package devices

import (
	"slices"
	"strconv"
	"strings"
)

// Attribute finds an attribute by its qualified name: the name itself, or the name without the driver's domain.
func (c *Content) Attribute(qualified string) (Value, bool) {
	if v, ok := c.named(qualified); ok {
		return v, true
	}
	domain, id, ok := strings.Cut(qualified, "/")
	if !ok || domain != c.Driver {
		return Value{}, false
	}
	return c.named(id)
}

func (c *Content) named(name string) (Value, bool) {
	i, ok := slices.BinarySearchFunc(c.Attributes, name, func(a Attribute, name string) int { return strings.Compare(a.Name, name) })
	if !ok {
		return Value{}, false
	}
	return c.Attributes[i].Value, true
}

// Only is a content with those attributes alone that are named, or whose value can make a selector fail: versions and
// unknown values. Selectors that read no others judge both alike. names are qualified and sorted.
func (c *Content) Only(names []string) Content {
	out := *c
	out.Attributes = nil
	for _, a := range c.Attributes {
		qualified := a.Name
		if !strings.Contains(a.Name, "/") {
			qualified = c.Driver + "/" + a.Name
		}
		_, read := slices.BinarySearch(names, qualified)
		if read || a.Value.Kind == ValueVersion || a.Value.Kind == ValueUnknown {
			out.Attributes = append(out.Attributes, a)
		}
	}
	return out
}

// Key is a content as a text: equal contents have equal texts, and no others.
func (c *Content) Key() string {
	b := make([]byte, 0, 256)
	b = strconv.AppendQuote(b, c.Driver)
	b = strconv.AppendBool(b, c.Multiple)
	for _, a := range c.Attributes {
		b = strconv.AppendQuote(append(b, 'a'), a.Name)
		b = strconv.AppendInt(append(b, '0'+byte(a.Value.Kind), ' '), a.Value.Int, 10)
		b = strconv.AppendQuote(b, a.Value.Text)
	}
	for _, x := range c.Capacities {
		b = strconv.AppendQuote(append(b, 'c'), x.Name)
		b = x.Value.append(b)
		if x.Policy != nil {
			b = x.Policy.append(append(b, 'p'))
		}
	}
	return string(b)
}

func (p *Policy) append(b []byte) []byte {
	b = p.Default.append(b)
	if p.Range != nil {
		b = p.Range.Step.append(p.Range.Max.append(p.Range.Min.append(append(b, 'r'))))
	}
	for i := range p.Values {
		b = p.Values[i].append(b)
	}
	return b
}

// append writes an amount, or that there is none.
func (a *Amount) append(b []byte) []byte {
	if a == nil {
		return append(b, '-', ';')
	}
	b = strconv.AppendInt(append(b, '0'+byte(a.Format), ' '), a.High, 10)
	b = strconv.AppendUint(append(b, ' '), a.Low, 10)
	return append(b, ';')
}
