package console

import (
	"cmp"
	"fmt"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// spreadShown is a topology spread constraint, drawn: a bar for each domain, and a line that no bar may pass.
type spreadShown struct {
	Title, Sentence string
	Bars            []barShown
	// Height is of the drawing, Limit where the line is; 0: there is none.
	Height, Limit int
	LeftOut       string
}

// barShown is the pods of a domain.
type barShown struct {
	Name, Pods             string
	Y, TextY, Width, TextX int
	Full                   bool
}

const (
	barsFrom, barsWide, barHeight = 180, 360, 22
)

func spreads(list []*pb.SpreadConstraint) (out []spreadShown) {
	for _, c := range list {
		out = append(out, spreadOf(c))
	}
	return out
}

func spreadOf(c *pb.SpreadConstraint) spreadShown {
	least, self := c.GetLeast(), int64(0)
	if c.GetDomainsTotal() < c.GetMinDomains() {
		least = 0
	}
	if c.GetSelfMatch() {
		self = 1
	}
	hard := c.GetWhenUnsatisfiable() == "DoNotSchedule"
	limit := least + int64(c.GetMaxSkew())
	out := spreadShown{Title: fmt.Sprintf("%s, maxSkew %d, %s", c.GetTopologyKey(), c.GetMaxSkew(), c.GetWhenUnsatisfiable())}
	most, full := limit, uint32(0)
	for _, d := range c.GetDomains() {
		most = max(most, d.GetPods()+self)
		if hard && d.GetPods()+self > limit {
			full += d.GetDomains()
		}
	}
	width := func(n int64) int { return int(barsWide * n / max(most, 1)) }
	told := uint32(0)
	for i, d := range c.GetDomains() {
		told += d.GetDomains()
		out.Bars = append(out.Bars, barShown{
			Name: cmp.Or(d.GetName(), plural(d.GetDomains(), "domain")), Pods: count(d.GetPods()), Y: i*barHeight + 3, TextY: i*barHeight + 16,
			Width: max(width(d.GetPods()), 1), TextX: barsFrom + width(d.GetPods()) + 6, Full: hard && d.GetPods()+self > limit,
		})
	}
	out.Height = len(out.Bars) * barHeight
	if hard {
		out.Limit = barsFrom + width(limit)
	}
	switch {
	case len(out.Bars) == 0 && hard:
		out.Sentence = "There is no domain: no node that counts has the label."
	case len(out.Bars) == 0:
		out.Sentence = "What it counts is not told: each node is a domain, and none is refused."
	case hard:
		const text = "The fewest pods of a domain are %d, so no domain may have more than %d: %d of %s can not take one more."
		out.Sentence = fmt.Sprintf(text, least, limit, full, plural(c.GetDomainsTotal(), "domain"))
		if c.GetDomainsTotal() < c.GetMinDomains() {
			out.Sentence = fmt.Sprintf("There are fewer than minDomains (%d), so it counts as if one were empty. ", c.GetMinDomains()) + out.Sentence
		}
	default:
		out.Sentence = fmt.Sprintf("The fewest pods of %s are %d; domains with fewer are preferred.",
			plural(c.GetDomainsTotal(), "domain"), c.GetLeast())
	}
	if more := c.GetDomainsTotal() - told; more > 0 {
		out.LeftOut = plural(more, "domain") + " with more pods not drawn."
	}
	return out
}
