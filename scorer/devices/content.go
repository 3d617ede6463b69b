package devices

import (
	"slices"
	"strings"
)

// attribute finds an attribute by its qualified name: the name itself, or the name without the driver's domain.
func (c *Content) attribute(qualified string) (Value, bool) {
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
