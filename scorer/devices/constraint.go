package devices

import (
	"slices"
	"strings"
)

// constraint is a constraint of one search: what it remembers of the devices taken so far.
type constraint struct {
	attribute string
	distinct  bool
	// applies says of each option of the claim whether the constraint looks at its devices, by the option's place.
	applies []bool
	// values are the attribute's, by content, once some device was added; a content that was not looked at has seen false.
	values   []lookup
	contents int
	// count is how many devices were taken.
	count int
	// match is the value that all have to have.
	match Value
	// last are the values that were last taken for each request: distinct from these only.
	last []lastValue
}

type lookup struct {
	value        Value
	seen, exists bool
}

type lastValue struct {
	request int32
	value   Value
}

// concerns tells whether a constraint looks at the devices of an alternative.
func (c *Constraint) concerns(request *Request, alternative *Alternative) bool {
	if len(c.Requests) == 0 || slices.Contains(c.Requests, request.Name) {
		return true
	}
	return request.Prioritized && slices.ContainsFunc(c.Requests, func(name string) bool {
		parent, sub, ok := strings.Cut(name, "/")
		return ok && parent == request.Name && sub == alternative.Name
	})
}

// value is the attribute's value of a content.
func (c *constraint) value(content *Content, number int32) (Value, bool) {
	if len(c.values) == 0 {
		c.values = resized(c.values, c.contents)
	}
	known := &c.values[number]
	if !known.seen {
		known.value, known.exists = content.Attribute(c.attribute)
		known.seen = true
	}
	return known.value, known.exists
}

// add takes a device in, unless it contradicts the devices before.
func (c *constraint) add(request int32, content *Content, number int32) bool {
	v, ok := c.value(content, number)
	if !ok {
		return false
	}
	if !c.distinct {
		if c.count > 0 && (v.Kind == ValueUnknown || v != c.match) {
			return false
		}
		c.match = v
		c.count++
		return true
	}
	if c.count > 0 && !c.differs(v) {
		return false
	}
	c.remember(request, v)
	c.count++
	return true
}

// differs tells whether a value is none of those remembered.
func (c *constraint) differs(v Value) bool {
	for i := range c.last {
		if v.Kind == ValueUnknown || v == c.last[i].value {
			return false
		}
	}
	return true
}

func (c *constraint) remember(request int32, v Value) {
	for i := range c.last {
		if c.last[i].request == request {
			c.last[i].value = v
			return
		}
	}
	c.last = append(c.last, lastValue{request, v})
}

// remove gives the last device back. Of a request only one value is remembered, so nothing is after this.
func (c *constraint) remove(request int32) {
	c.count--
	for i := range c.last {
		if c.last[i].request == request {
			c.last = slices.Delete(c.last, i, i+1)
			return
		}
	}
}
