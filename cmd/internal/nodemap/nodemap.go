package nodemap

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
	"strings"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// Steps is the highest step of a scale, and FirstClass the number of the first class.
const Steps, FirstClass = 1000, 1 << 15

// Group is what the cells of one group come to.
type Group struct {
	// Values are those of the labels; none: the nodes of all groups that were too many to tell.
	Values []string `json:"values"`
	Nodes  int      `json:"nodes"`
	// Scaled is how many nodes are on the scale. Low, Mean and High are what these come to, in its unit.
	Scaled int     `json:"scaled"`
	Low    float64 `json:"low"`
	Mean   float64 `json:"mean"`
	High   float64 `json:"high"`
	// Classes are those of the other nodes, that of most nodes first.
	Classes []Class `json:"classes,omitempty"`
}

// Class is how many nodes of a group a thing is told of.
type Class struct {
	Text  string `json:"text"`
	Nodes int    `json:"nodes"`
}

// Groups adds the cells of each group up. The error is that of an answer that is no map.
func Groups(m *pb.GetNodeMapResponse) ([]Group, error) {
	cells := m.GetCells()
	out := make([]Group, 0, len(m.GetGroups()))
	for _, g := range m.GetGroups() {
		if uint64(len(cells)) < 2*uint64(g.GetNodes()) {
			return nil, fmt.Errorf("a map of %d cells ends in group %q of %d nodes", len(m.GetCells())/2, strings.Join(g.GetValues(), "/"),
				g.GetNodes())
		}
		group, err := groupOf(m, cells[:2*g.GetNodes()])
		if err != nil {
			return nil, err
		}
		group.Values = g.GetValues()
		out, cells = append(out, group), cells[2*g.GetNodes():]
	}
	if len(cells) > 0 {
		return nil, fmt.Errorf("a map has %d bytes behind its last group", len(cells))
	}
	return out, nil
}

func groupOf(m *pb.GetNodeMapResponse, cells []byte) (g Group, err error) {
	classes := make([]int, len(m.GetClasses()))
	low, high, sum := Steps, 0, 0
	for ; len(cells) > 0; cells = cells[2:] {
		g.Nodes++
		switch cell := int(binary.LittleEndian.Uint16(cells)); {
		case cell <= Steps && m.GetScale() != nil:
			g.Scaled++
			low, high, sum = min(low, cell), max(high, cell), sum+cell
		case cell >= FirstClass && cell-FirstClass < len(classes):
			classes[cell-FirstClass]++
		default:
			return g, fmt.Errorf("a map has a cell %d, which is neither on its scale nor one of its %d classes", cell, len(classes))
		}
	}
	if g.Scaled > 0 {
		value := func(step float64) float64 {
			from, to := float64(m.GetScale().GetLow()), float64(m.GetScale().GetHigh())
			return from + step/Steps*(to-from)
		}
		g.Low, g.Mean, g.High = value(float64(low)), value(float64(sum)/float64(g.Scaled)), value(float64(high))
	}
	for i, n := range classes {
		if n > 0 {
			g.Classes = append(g.Classes, Class{m.GetClasses()[i].GetText(), n})
		}
	}
	slices.SortStableFunc(g.Classes, func(a, b Class) int { return cmp.Compare(b.Nodes, a.Nodes) })
	return g, nil
}

// Name is a group's values, for people.
func Name(values []string) string {
	if len(values) == 0 {
		return "others"
	}
	words := slices.Clone(values)
	for i := range words {
		words[i] = cmp.Or(words[i], "(none)")
	}
	return strings.Join(words, " / ")
}

// Rounded writes a mean: with one digit behind the point where it is below 10.
func Rounded(v float64) string {
	if v < 10 && v != float64(int(v)) {
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return strconv.FormatFloat(v, 'f', 0, 64)
}
