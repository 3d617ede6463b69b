package collector

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
)

// Trace is the spans of one trace.
type Trace struct {
	ID string
	// Root is the span without a parent; nil: it was not received.
	Root *Span
	// Below are the spans below each, by its id, in the order of their times.
	Below map[string][]*Span
	// Orphans have a parent that was not received.
	Orphans []*Span
}

// Traces puts spans together, in the order of their roots' times.
func Traces(spans []*Span) []*Trace {
	byTrace := map[string][]*Span{}
	for _, s := range spans {
		byTrace[s.Trace] = append(byTrace[s.Trace], s)
	}
	var out []*Trace
	for id, list := range byTrace {
		out = append(out, newTrace(id, list))
	}
	begin := func(t *Trace) time.Time {
		if t.Root == nil {
			return time.Time{}
		}
		return t.Root.Start
	}
	slices.SortFunc(out, func(a, b *Trace) int { return cmp.Or(begin(a).Compare(begin(b)), cmp.Compare(a.ID, b.ID)) })
	return out
}

func newTrace(id string, spans []*Span) *Trace {
	t := &Trace{ID: id, Below: map[string][]*Span{}}
	known := map[string]bool{}
	for _, s := range spans {
		known[s.ID] = true
	}
	for _, s := range spans {
		switch {
		case s.Parent == "":
			t.Root = s
		case !known[s.Parent]:
			t.Orphans = append(t.Orphans, s)
		default:
			t.Below[s.Parent] = append(t.Below[s.Parent], s)
		}
	}
	for _, list := range t.Below {
		slices.SortStableFunc(list, func(a, b *Span) int { return cmp.Or(a.Start.Compare(b.Start), a.End.Compare(b.End)) })
	}
	return t
}

// Each calls f for each span that hangs on the root, parents first.
func (t *Trace) Each(f func(parent, s *Span)) {
	var walk func(parent, s *Span)
	walk = func(parent, s *Span) {
		f(parent, s)
		for _, child := range t.Below[s.ID] {
			walk(s, child)
		}
	}
	if t.Root != nil {
		walk(nil, t.Root)
	}
}

// Find gives the spans of a name.
func (t *Trace) Find(name string) []*Span {
	var out []*Span
	t.Each(func(_, s *Span) {
		if s.Name == name {
			out = append(out, s)
		}
	})
	return out
}

// Check tells what is wrong with a trace: no root, a span without its parent, or one that
// reaches out of its parent's time.
func (t *Trace) Check() []string {
	var faults []string
	fault := func(format string, a ...any) {
		faults = append(faults, "trace "+t.ID+": "+fmt.Sprintf(format, a...))
	}
	if t.Root == nil {
		fault("no root")
	}
	for _, s := range t.Orphans {
		fault("%s of %s: its parent %s is missing", s.Name, s.Service, s.Parent)
	}
	t.Each(func(parent, s *Span) {
		if s.End.Before(s.Start) {
			fault("%s: it ends %v before it begins", s.Name, s.Start.Sub(s.End))
		}
		if parent == nil {
			return
		}
		if s.Start.Before(parent.Start) {
			fault("%s begins %v before its parent %s", s.Name, parent.Start.Sub(s.Start), parent.Name)
		}
		if s.End.After(parent.End) {
			fault("%s ends %v after its parent %s", s.Name, s.End.Sub(parent.End), parent.Name)
		}
	})
	return faults
}

// Render writes a trace as a tree: each span with when it began, counted from the root's
// begin, how long it took, whose it is where that changes, and its attributes.
func (t *Trace) Render(w io.Writer) error {
	b := &strings.Builder{}
	fmt.Fprintf(b, "trace %s\n", t.ID)
	if t.Root != nil {
		t.render(b, t.Root, "", "", "")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (t *Trace) render(b *strings.Builder, s *Span, lead, below, service string) {
	fmt.Fprintf(b, "%s%s  +%s %s", lead, s.Name, micros(s.Start.Sub(t.Root.Start)), micros(s.End.Sub(s.Start)))
	if s.Service != service {
		fmt.Fprintf(b, "  [%s]", s.Service)
	}
	for _, k := range slices.Sorted(maps.Keys(s.Attributes)) {
		fmt.Fprintf(b, " %s=%v", strings.TrimPrefix(k, "shardsched."), s.Attributes[k])
	}
	for _, l := range s.Links {
		fmt.Fprintf(b, " link=%s", l)
	}
	if s.Error != "" {
		fmt.Fprintf(b, " ERROR %s", s.Error)
	}
	b.WriteString("\n")
	children := t.Below[s.ID]
	for i, child := range children {
		branch, trunk := "├─ ", "│  "
		if i == len(children)-1 {
			branch, trunk = "└─ ", "   "
		}
		t.render(b, child, below+branch, below+trunk, s.Service)
	}
}

func micros(d time.Duration) string { return d.Round(time.Microsecond).String() }
