package console

import "encoding/json"

// table is what the template "table" shows.
type table struct {
	Caption string
	// ID is an anchor; empty: none.
	ID      string
	Columns []column
	Rows    [][]cell
	// Empty stands where there is no row.
	Empty string
	// Command is the command line that shows the same, Download the address of the same as a file; empty: there is none.
	Command, Download string
	// LeftOut says what is not shown, for there is too much; empty: all is.
	LeftOut string
}

type column struct {
	Name string
	// Number has it aligned on the right.
	Number bool
	// Help says more; empty: the name says it.
	Help string
}

// cell is one value of a table.
type cell struct {
	Text string
	// Link is where it leads; empty: nowhere.
	Link string
	// Detail stands below it, smaller.
	Detail string
	// State is good, warn or bad, which is told by a sign, too; empty: none.
	State string
	// Head names the row. Number is aligned on the right.
	Head, Number bool
}

func head(text string) cell   { return cell{Text: text, Head: true} }
func words(text string) cell  { return cell{Text: text} }
func number(text string) cell { return cell{Text: text, Number: true} }

func (c cell) to(link string) cell      { c.Link = link; return c }
func (c cell) below(detail string) cell { c.Detail = detail; return c }
func (c cell) marked(state string) cell { c.State = state; return c }

// fact is a value with its name, for the template "facts".
type fact struct {
	Name string
	Cell cell
}

// filters is what the template "filters" shows: a form that makes the query of the page.
type filters struct {
	Label  string
	Fields []field
	// Clear is the page without filters; empty: none is set.
	Clear string
}

// field is one input of a form. With options it is a choice.
type field struct {
	Name, Label, Value, Hint string
	Options                  []option
}

type option struct {
	Value, Text string
	Chosen      bool
}

// choice is a field of options, value and text in turn.
func choice(name, label, value string, pairs ...string) field {
	f := field{Name: name, Label: label, Value: value}
	for i := 0; i+1 < len(pairs); i += 2 {
		f.Options = append(f.Options, option{Value: pairs[i], Text: pairs[i+1], Chosen: pairs[i] == value})
	}
	return f
}

// chart is what the template "chart" shows: lines over time.
type chart struct {
	Title string
	// Sentence says what is seen, for who does not see it.
	Sentence string
	X        []float64 // seconds since 1970
	Series   []series
}

type series struct {
	Name   string    `json:"name"`
	Unit   string    `json:"unit"`
	Values []float64 `json:"values"`
}

// JSON is what assets/charts.js reads.
func (c chart) JSON() (string, error) {
	text, err := json.Marshal(struct {
		X      []float64 `json:"x"`
		Series []series  `json:"series"`
	}{c.X, c.Series})
	return string(text), err
}
