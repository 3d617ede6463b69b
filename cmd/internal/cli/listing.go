package cli

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
	"google.golang.org/protobuf/proto"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	kubejson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/client-go/util/jsonpath"

	"github.com/shardsched/shardsched/cmd/internal/plainjson"
)

// listing is how an answer of many things is chosen, sorted and written, by kubectl's flags.
type listing struct {
	output, sortBy          string
	selector, fieldSelector string
	noHeaders               bool

	// What parse makes of these.
	form     string             // empty, wide, name, json, yaml, jsonpath or custom-columns
	template *jsonpath.JSONPath // of jsonpath
	columns  []pathColumn       // of custom-columns
	order    *jsonpath.JSONPath // of --sort-by; nil: none
	labels   labels.Selector
	fields   fields.Selector
}

// pathColumn is a column of -o custom-columns.
type pathColumn struct {
	header string
	path   *jsonpath.JSONPath
}

func (l *listing) addFlags(fs *pflag.FlagSet) {
	fs.StringVarP(&l.output, "output", "o", "", "form of the answer: wide, name, json, yaml, jsonpath=TEMPLATE, "+
		"custom-columns=HEADER:PATH,…; empty: a table")
	fs.BoolVar(&l.noHeaders, "no-headers", false, "leave out the table's first line")
	fs.StringVar(&l.sortBy, "sort-by", "", "sort by the field that a JSONPath names, such as .spec.priority")
	l.addSelectors(fs)
}

func (l *listing) addSelectors(fs *pflag.FlagSet) {
	fs.StringVarP(&l.selector, "selector", "l", "", "only objects with these labels, such as app=web,tier!=cache")
	fs.StringVar(&l.fieldSelector, "field-selector", "", "only those with these fields, such as spec.nodeName=n1")
}

// parse reads the flags.
func (l *listing) parse() (err error) {
	form, argument, has := strings.Cut(l.output, "=")
	if err := oneOf("output", form, "", "wide", "name", "json", "yaml", "jsonpath", "custom-columns"); err != nil {
		return err
	}
	if needs := form == "jsonpath" || form == "custom-columns"; needs != has || needs && argument == "" {
		return usagef("--output: %q: want jsonpath=TEMPLATE or custom-columns=HEADER:PATH,…, and nothing behind any other form", l.output)
	}
	switch l.form = form; form {
	case "jsonpath":
		l.template, err = pathOf("--output", argument)
	case "custom-columns":
		err = l.parseColumns(argument)
	}
	if err != nil {
		return err
	}
	if l.sortBy != "" {
		if l.order, err = pathOf("--sort-by", relaxed(l.sortBy)); err != nil {
			return err
		}
	}
	if l.labels, err = labels.Parse(l.selector); err != nil {
		return usagef("--selector: %w", err)
	}
	if l.fields, err = fields.ParseSelector(l.fieldSelector); err != nil {
		return usagef("--field-selector: %w", err)
	}
	return nil
}

func (l *listing) parseColumns(text string) error {
	for part := range strings.SplitSeq(text, ",") {
		header, path, ok := strings.Cut(part, ":")
		if !ok || header == "" || path == "" {
			return usagef("--output: custom-columns: %q is not HEADER:PATH, such as NODE:.spec.nodeName", part)
		}
		p, err := pathOf("--output: custom-columns", relaxed(path))
		if err != nil {
			return err
		}
		l.columns = append(l.columns, pathColumn{header, p})
	}
	return nil
}

// pathOf reads a JSONPath template. What it names need not be there.
func pathOf(flag, text string) (*jsonpath.JSONPath, error) {
	p := jsonpath.New(flag).AllowMissingKeys(true)
	if err := p.Parse(text); err != nil {
		return nil, usagef("%s: %q: %w", flag, text, err)
	}
	return p, nil
}

// relaxed makes a template of a path as kubectl takes it: {.a.b}, .a.b or a.b.
func relaxed(path string) string {
	if strings.HasPrefix(path, "{") {
		return path
	}
	return "{." + strings.TrimPrefix(path, ".") + "}"
}

// selects tells whether something is left out of all.
func (l *listing) selects() bool { return l.selector != "" || l.fieldSelector != "" }

// isTable tells whether the answer is a table of our own columns.
func (l *listing) isTable() bool { return l.form == "" || l.form == "wide" }

// checkFields refuses a field selector with a field that things of a type do not have. Those of a message are checked by keeps.
func (l *listing) checkFields(like any) error {
	for _, r := range l.fields.Requirements() {
		if _, ok := leaf(reflect.TypeOf(like), strings.Split(r.Field, ".")); !ok {
			return usagef("--field-selector: there is no field %q, or it is no single value", r.Field)
		}
	}
	return nil
}

// leaf is the type of the value that a path of JSON names leads to; false: it leads to none.
func leaf(t reflect.Type, path []string) (reflect.Type, bool) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if reflect.PointerTo(t).Implements(reflect.TypeFor[json.Marshaler]()) { // a time, or a quantity
		return t, len(path) == 0
	}
	if len(path) == 0 {
		switch t.Kind() {
		case reflect.Struct, reflect.Map, reflect.Slice, reflect.Interface:
			return nil, false
		}
		return t, true
	}
	if t.Kind() == reflect.Map {
		return leaf(t.Elem(), path[1:])
	}
	if t.Kind() != reflect.Struct {
		return nil, false
	}
	for f := range t.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case name == path[0]:
			return leaf(f.Type, path[1:])
		case name == "" && f.Anonymous:
			if found, ok := leaf(f.Type, path); ok {
				return found, true
			}
		}
	}
	return nil, false
}

// tree is a thing as JSON has it.
func tree(x any) (any, error) {
	var text []byte
	var err error
	if m, is := x.(proto.Message); is {
		text, err = plainjson.Marshal(m)
	} else {
		text, err = json.Marshal(x)
	}
	if err != nil {
		return nil, err
	}
	var out any
	return out, kubejson.Unmarshal(text, &out)
}

// keeps tells whether the selectors choose a thing.
func (l *listing) keeps(x any, has labels.Set) (bool, error) {
	if !l.labels.Matches(has) {
		return false, nil
	}
	if l.fields.Empty() {
		return true, nil
	}
	t, err := tree(x)
	if err != nil {
		return false, err
	}
	values := fields.Set{}
	for _, r := range l.fields.Requirements() {
		path := strings.Split(r.Field, ".")
		text, found := valueAt(t, path)
		if _, message := x.(proto.Message); message && !found {
			return false, usagef("--field-selector: there is no field %q, or it is no single value", r.Field)
		}
		if t, ok := leaf(reflect.TypeOf(x), path); ok && !found && t.Kind() != reflect.Struct { // JSON leaves out what is zero
			text = fmt.Sprint(reflect.Zero(t))
		}
		values[r.Field] = text
	}
	return l.fields.Matches(values), nil
}

// valueAt is a single value of a tree.
func valueAt(t any, path []string) (text string, found bool) {
	for _, name := range path {
		m, ok := t.(map[string]any)
		if !ok {
			return "", false
		}
		if t, found = m[name]; !found {
			return "", false
		}
	}
	switch t.(type) {
	case nil, map[string]any, []any:
		return "", false
	}
	return fmt.Sprint(t), true
}

// choose is what the selectors leave of all, sorted. labelsOf is nil where things of the kind have no labels.
func choose[T any](l *listing, all []T, labelsOf func(T) labels.Set) ([]T, error) {
	if labelsOf == nil {
		if l.selector != "" {
			return nil, usagef("--selector: these have no labels")
		}
		labelsOf = func(T) labels.Set { return nil }
	}
	if t := reflect.TypeFor[T](); t.Kind() == reflect.Struct {
		var like T
		if err := l.checkFields(like); err != nil {
			return nil, err
		}
	}
	kept := make([]T, 0, len(all))
	for _, x := range all {
		keep, err := l.keeps(x, labelsOf(x))
		if err != nil {
			return nil, err
		}
		if keep {
			kept = append(kept, x)
		}
	}
	return kept, sortBy(l, kept)
}

// labelsOf are those of an object.
func labelsOf(obj runtime.Object) labels.Set { return obj.(metav1.Object).GetLabels() }

// sortBy sorts by --sort-by; what has no such field comes first.
func sortBy[T any](l *listing, all []T) error {
	if l.order == nil || len(all) == 0 {
		return nil
	}
	type keyed struct {
		key any
		of  T
	}
	list, found := make([]keyed, 0, len(all)), false
	for _, x := range all {
		t, err := tree(x)
		if err != nil {
			return err
		}
		results, err := l.order.FindResults(t)
		if err != nil {
			return fmt.Errorf("--sort-by: %w", err)
		}
		k := keyed{of: x}
		if len(results) > 0 && len(results[0]) > 0 {
			k.key, found = results[0][0].Interface(), true
		}
		list = append(list, k)
	}
	if !found {
		return usagef("--sort-by: nothing has a field %q", l.sortBy)
	}
	slices.SortStableFunc(list, func(a, b keyed) int { return compareValues(a.key, b.key) })
	for i := range list {
		all[i] = list[i].of
	}
	return nil
}

// compareValues compares numbers and quantities by what they amount to, all else as text.
func compareValues(a, b any) int {
	if a == nil || b == nil {
		return cmp.Compare(present(a), present(b))
	}
	x, y := fmt.Sprint(a), fmt.Sprint(b)
	if m, err := strconv.ParseFloat(x, 64); err == nil {
		if n, err := strconv.ParseFloat(y, 64); err == nil {
			return cmp.Compare(m, n)
		}
	}
	if m, err := resource.ParseQuantity(x); err == nil {
		if n, err := resource.ParseQuantity(y); err == nil {
			return m.Cmp(n)
		}
	}
	return strings.Compare(x, y)
}

func present(x any) int {
	if x == nil {
		return 0
	}
	return 1
}

// newTable makes a table, without its headers where --no-headers asks for that.
func (l *listing) newTable(out io.Writer, headers ...string) *table {
	if l.noHeaders {
		return &table{out: out, widths: make([]int, len(headers))}
	}
	return newTable(out, headers...)
}

// pathTable is a table of the columns of -o custom-columns.
func (l *listing) pathTable(out io.Writer) *table {
	var headers []string
	for _, c := range l.columns {
		headers = append(headers, c.header)
	}
	return l.newTable(out, headers...)
}

// pathRow is a row of it.
func (l *listing) pathRow(x any) ([]string, error) {
	t, err := tree(x)
	if err != nil {
		return nil, err
	}
	row := make([]string, 0, len(l.columns))
	for _, c := range l.columns {
		results, err := c.path.FindResults(t)
		if err != nil {
			return nil, fmt.Errorf("--output: column %s: %w", c.header, err)
		}
		var values []string
		for _, r := range results {
			for _, v := range r {
				values = append(values, textOf(v.Interface()))
			}
		}
		row = append(row, cmp.Or(strings.Join(values, ","), "<none>"))
	}
	return row, nil
}

// textOf is a value in one line.
func textOf(x any) string {
	switch x.(type) {
	case nil:
		return ""
	case map[string]any, []any:
		if text, err := json.Marshal(x); err == nil {
			return string(text)
		}
	}
	return fmt.Sprint(x)
}

// printTemplate writes what -o jsonpath makes of a thing.
func (l *listing) printTemplate(out io.Writer, x any) error {
	t, err := tree(x)
	if err != nil {
		return err
	}
	if err := l.template.Execute(out, t); err != nil {
		return fmt.Errorf("--output: %w", err)
	}
	return nil
}

// view is how things that are no objects are shown: messages, or structures of ours.
type view[T any] struct {
	name    func(T) string // as -o name prints it; no two have the same
	headers []string
	row     func(T) []string
	empty   string // says that there is nothing
}

// things writes an answer. all is the whole, for json, yaml and jsonpath; list is what it lists.
func things[T any](l *listing, s Streams, all any, list []T, v *view[T]) error {
	if done, err := l.whole(s.Out, all); done {
		return err
	}
	if len(list) == 0 && l.form != "name" {
		_, err := fmt.Fprintln(s.Err, v.empty)
		return err
	}
	t := newPrinted(l, v)
	var rows []cells
	for _, x := range list {
		r, err := t.cells(x)
		if err != nil {
			return err
		}
		rows = append(rows, r)
	}
	return t.print(s.Out, rows...)
}

// whole writes an answer as one document, where that is asked for.
func (l *listing) whole(out io.Writer, answer any) (done bool, err error) {
	switch l.form {
	case "json", "yaml":
		if m, is := answer.(proto.Message); is {
			return true, printMessage(out, l.form, m)
		}
		return true, printObject(out, l.form, answer)
	case "jsonpath":
		return true, l.printTemplate(out, answer)
	}
	return false, nil
}

// cells are how a thing is shown: a row of a table, or one text.
type cells []string

// printed is a list of things that is written row by row.
type printed[T any] struct {
	l     *listing
	v     *view[T]
	table *table
}

func newPrinted[T any](l *listing, v *view[T]) *printed[T] { return &printed[T]{l: l, v: v} }

func (p *printed[T]) cells(x T) (cells, error) {
	switch p.l.form {
	case "name":
		return cells{p.v.name(x) + "\n"}, nil
	case "custom-columns":
		return p.l.pathRow(x)
	case "", "wide":
		return p.v.row(x), nil
	}
	var b strings.Builder
	_, err := p.l.whole(&b, x)
	return cells{b.String()}, err
}

func (p *printed[T]) print(out io.Writer, rows ...cells) error {
	if len(rows) == 0 {
		return nil
	}
	switch {
	case p.l.isTable() && p.table == nil:
		p.table = p.l.newTable(out, p.v.headers...)
	case p.l.form == "custom-columns" && p.table == nil:
		p.table = p.l.pathTable(out)
	}
	if p.table == nil {
		for _, r := range rows {
			if _, err := io.WriteString(out, r[0]); err != nil {
				return err
			}
		}
		return nil
	}
	lines := make([][]string, 0, len(rows))
	for _, r := range rows {
		lines = append(lines, r)
	}
	return p.table.print(lines...)
}
