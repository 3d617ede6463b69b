package picture

import (
	"cmp"
	"encoding/xml"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Picture is what is drawn.
type Picture struct {
	// Key is the label by whose values nodes are framed.
	Key   string
	Nodes []Node
	// Gangs are named by the legend, in this order.
	Gangs []Gang
}

// Node is one node, in members of the size that a square stands for.
type Node struct {
	Name, Domain string
	// Members are how many members it has of each gang, by the gangs' places in Picture.Gangs.
	Members map[int]int
	// Others is how many squares other pods take, Free for how many there is room.
	Others, Free int
}

// Gang is a line of the legend.
type Gang struct {
	Name string
	Text string // such as "starts: 8 members"
}

const (
	// maxNodes, maxSquares and maxGangs are how many nodes, squares of each, and lines of the legend are drawn.
	maxNodes, maxSquares, maxGangs = 1024, 32, 16
	// maxText is how many characters of a text are written.
	maxText = 160
	// A square has side pixels, with gap between two; a node has perColumn of them on top of each other, a frame perRow nodes in a row.
	side, gap, perColumn, perRow = 12, 2, 4, 8
	// width is the picture's, and line the height of one of text.
	width, line = 960, 18
)

// colours are those of gangs, in turn. They can be told apart by people who see few colours; letters tell, too.
func colours() []string {
	return []string{"#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#b8a600", "#7a5195"}
}

// letter names a gang in a square.
func letter(gang int) string { return string(rune('A' + gang%26)) }

// Write writes the picture as SVG.
func (p *Picture) Write(w io.Writer) error {
	nodes := slices.Clone(p.Nodes)
	slices.SortStableFunc(nodes, func(a, b Node) int {
		return cmp.Or(strings.Compare(a.Domain, b.Domain), strings.Compare(a.Name, b.Name))
	})
	left := max(len(nodes)-maxNodes, 0)
	nodes = nodes[:len(nodes)-left]
	d := &drawing{x: gap, y: line + gap}
	d.text(gap, line-5, "Nodes by "+p.Key)
	for len(nodes) > 0 {
		n := 1
		for n < len(nodes) && nodes[n].Domain == nodes[0].Domain {
			n++
		}
		d.domain(nodes[:n])
		nodes = nodes[n:]
	}
	d.y += d.high + line
	if left > 0 {
		d.text(gap, d.y, fmt.Sprintf("%d nodes more are not drawn", left))
		d.y += line
	}
	for i, g := range p.Gangs[:min(len(p.Gangs), maxGangs)] {
		d.square(gap, d.y-side+2, i)
		d.text(gap+side+6, d.y, g.Name+": "+g.Text)
		d.y += line
	}
	if more := len(p.Gangs) - maxGangs; more > 0 {
		d.text(gap, d.y, fmt.Sprintf("%d gangs more", more))
		d.y += line
	}
	_, err := fmt.Fprintf(w, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" `+
		`width="%d" height="%d" font-family="sans-serif" font-size="12">
<rect width="100%%" height="100%%" fill="#fff"/>
%s</svg>
`, width, d.y, width, d.y, d.b.String())
	return err
}

// drawing is a picture on its way: where the next frame comes, and how high its row of frames is so far.
type drawing struct {
	b          strings.Builder
	x, y, high int
}

// domain draws the frame of a domain with its nodes.
func (d *drawing) domain(nodes []Node) {
	columns := 1
	for _, n := range nodes {
		columns = max(columns, (n.squares()+perColumn-1)/perColumn)
	}
	nodeWide, nodeHigh := columns*(side+gap)+6, perColumn*(side+gap)+6
	across := min(len(nodes), perRow, max((width-4*gap)/nodeWide, 1))
	wide := max(across*nodeWide+2*gap, 90)
	high := (len(nodes)+across-1)/across*nodeHigh + line + gap
	if d.x+wide > width && d.x > gap {
		d.x, d.y, d.high = gap, d.y+d.high+3*gap, 0
	}
	fmt.Fprintf(&d.b, `<rect x="%d" y="%d" width="%d" height="%d" fill="none" stroke="#888"/>`+"\n", d.x, d.y, wide, high)
	name := nodes[0].Domain
	if name == "" {
		name = "(none)"
	}
	d.text(d.x+4, d.y+line-5, name)
	for i, n := range nodes {
		d.node(n, d.x+gap+i%across*nodeWide, d.y+line+i/across*nodeHigh)
	}
	d.x, d.high = d.x+wide+3*gap, max(d.high, high)
}

func (n *Node) squares() int {
	all := max(n.Others, 0) + max(n.Free, 0)
	for _, m := range n.Members {
		all += m
	}
	return min(max(all, 1), maxSquares)
}

// node draws the squares of a node: members by gang, then what others take, then what is free.
func (d *drawing) node(n Node, x, y int) {
	var gangs []int
	for g := range n.Members {
		gangs = append(gangs, g)
	}
	slices.Sort(gangs)
	at := 0
	put := func(times, what int) {
		for ; times > 0 && at < maxSquares; times, at = times-1, at+1 {
			d.square(x+at/perColumn*(side+gap), y+at%perColumn*(side+gap), what)
		}
	}
	fmt.Fprintf(&d.b, "<g><title>%s</title>\n", escaped(n.Name))
	for _, g := range gangs {
		put(n.Members[g], g)
	}
	put(n.Others, others)
	put(n.Free, free)
	d.b.WriteString("</g>\n")
}

// What a square stands for beside a gang.
const (
	others = -1
	free   = -2
)

func (d *drawing) square(x, y, what int) {
	fill := "#fff"
	switch {
	case what == others:
		fill = "#bbb"
	case what >= 0:
		fill = colours()[what%len(colours())]
	}
	fmt.Fprintf(&d.b, `<rect x="%d" y="%d" width="%d" height="%d" fill="%s" stroke="#999" stroke-width="0.5"/>`+"\n", x, y, side, side, fill)
	if what >= 0 {
		fmt.Fprintf(&d.b, `<text x="%d" y="%d" font-size="9" text-anchor="middle" fill="#fff">%s</text>`+"\n", x+side/2, y+side-3, letter(what))
	}
}

func (d *drawing) text(x, y int, text string) {
	fmt.Fprintf(&d.b, `<text x="%d" y="%d">%s</text>`+"\n", x, y, escaped(text))
}

// escaped is a text as XML has it, cut to what is written of one.
func escaped(text string) string {
	if runes := []rune(text); len(runes) > maxText {
		text = string(runes[:maxText]) + "…"
	}
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(text)) // a Builder takes all
	return b.String()
}
