package cli

import (
	"fmt"
	"io"
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

// print writes rows, under the headers where it is the first time.
func (t *table) print(rows ...[]string) error {
	for _, row := range rows {
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

// numbered is "1 pod" or "3 pods".
func numbered(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return fmt.Sprintf("%d %s", n, noun)
}
