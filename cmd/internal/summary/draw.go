package summary

import (
	"slices"
	"strings"
)

// ANSI sequences.
const (
	bold   = "\x1b[1m"
	red    = "\x1b[31m"
	green  = "\x1b[32m"
	yellow = "\x1b[33m"
	cyan   = "\x1b[36m"
	plain  = "\x1b[0m"
)

func (p *page) paint(color, text string) string {
	if !p.style.Color {
		return text
	}
	return color + text + plain
}

func (p *page) paintIf(condition bool, color, text string) string {
	if !condition {
		return text
	}
	return p.paint(color, text)
}

func (p *page) arrow() string { return p.choose("→", "->") }
func (p *page) dash() string  { return p.choose("–", "-") }

func (p *page) choose(unicode, ascii string) string {
	if p.style.Unicode {
		return unicode
	}
	return ascii
}

// bar draws a share between 0 and 1.
func (p *page) bar(share float64, width int) string {
	filled := min(width, int(share*float64(width)+0.5))
	return strings.Repeat(p.choose("█", "#"), filled) + strings.Repeat(p.choose("░", "."), width-filled)
}

// histogram draws each bin as one character, its height relative to the highest; a
// bin that is not empty never looks empty.
func (p *page) histogram(bins []uint32) string {
	levels := []rune(p.choose(" ▁▂▃▄▅▆▇█", " .:-=+*#%@"))
	highest := uint64(1)
	if len(bins) > 0 {
		highest = max(1, uint64(slices.Max(bins)))
	}
	var b strings.Builder
	top := uint64(len(levels) - 1)
	for _, n := range bins {
		b.WriteRune(levels[(uint64(n)*top+highest-1)/highest])
	}
	return b.String()
}
