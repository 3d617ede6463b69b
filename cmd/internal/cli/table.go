package cli

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"
)

// table writes rows in columns whose widths the rows before have set, so that it
// can go on row by row.
type table struct {
	out     io.Writer
	headers []string
	widths  []int
}

func newTable(out io.Writer, headers ...string) *table {
	t := &table{out: out, headers: headers, widths: make([]int, len(headers))}
	t.measure(headers)
	return t
}

func (t *table) measure(row []string) {
	for i, cell := range row {
		t.widths[i] = max(t.widths[i], utf8.RuneCountInString(cell))
	}
}

// print writes rows, under the headers where it is the first time. A cell is somebody else's text: no control character of it reaches the
// terminal, and none ends the row.
func (t *table) print(rows ...[]string) error {
	for _, row := range rows {
		for i, cell := range row {
			row[i] = strings.Map(printable, cell)
		}
		t.measure(row)
	}
	if t.headers != nil {
		rows = append([][]string{t.headers}, rows...)
		t.headers = nil
	}
	var b strings.Builder
	for _, row := range rows {
		line := len(row) - 1
		for i, cell := range row {
			b.WriteString(cell)
			if i < line {
				b.WriteString(strings.Repeat(" ", t.widths[i]-utf8.RuneCountInString(cell)+3))
			}
		}
		b.WriteByte('\n')
	}
	_, err := fmt.Fprint(t.out, b.String())
	return err
}

// leastColumn is how narrow a column gets at the least.
const leastColumn = 16

// fold breaks the cells of some columns at spaces, so that a table is no wider than so many characters: what does not fit goes on in
// rows below, whose other cells are empty. 0: a table may be as wide as it likes.
func fold(width int, headers []string, rows [][]string, columns ...int) [][]string {
	widths := newTable(nil, headers...)
	for _, row := range rows {
		widths.measure(row)
	}
	left := width - 3*(len(headers)-1)
	for i, w := range widths.widths {
		if !slices.Contains(columns, i) {
			left -= w
		}
	}
	// The narrowest first: what they leave is for the others.
	slices.SortFunc(columns, func(a, b int) int { return cmp.Compare(widths.widths[a], widths.widths[b]) })
	for i, column := range columns {
		w := min(widths.widths[column], max(left/(len(columns)-i), leastColumn))
		widths.widths[column] = w
		left -= w
	}
	if width == 0 {
		return rows
	}
	var out [][]string
	for _, row := range rows {
		at := len(out)
		out = append(out, slices.Clone(row))
		for _, column := range columns {
			for i, line := range lines(row[column], widths.widths[column]) {
				if at+i == len(out) {
					out = append(out, make([]string, len(row)))
				}
				out[at+i][column] = line
			}
		}
	}
	return out
}

// lines breaks a text at spaces into lines of so many characters; a longer word has a line of its own.
func lines(text string, width int) (out []string) {
	line := ""
	for _, word := range strings.Split(text, " ") {
		if line != "" && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > width {
			out, line = append(out, line), word
			continue
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	return append(out, line)
}

// numbered is "1 pod" or "3 pods".
func numbered(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return fmt.Sprintf("%d %s", n, noun)
}
