package openb

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// Node is one line of a node list.
type Node struct {
	Name      string
	MilliCPU  int64
	MemoryMiB int64
	GPUs      int64
	Model     string // empty: no GPU
}

// Pod is one line of a pod list.
type Pod struct {
	Name      string
	MilliCPU  int64
	MemoryMiB int64
	GPUs      int64
	// GPUMilli is the share of each GPU in thousandths: 1000 is a whole one.
	GPUMilli int64
	// Models are those that the pod may run on, each once; none: any.
	Models []string
	QoS    string
}

// whole is a whole GPU in thousandths.
const whole = 1000

// maxAmount bounds what a field may hold: more than any machine has, and far from
// overflow.
const maxAmount = 1 << 40

// ReadNodes reads a node list; name is what errors call it.
func ReadNodes(r io.Reader, name string) ([]Node, error) {
	var nodes []Node
	err := read(r, name, []string{"sn", "cpu_milli", "memory_mib", "gpu", "model"}, func(row *row) {
		n := Node{Name: row.name("sn"), MilliCPU: row.amount("cpu_milli"), MemoryMiB: row.amount("memory_mib"), GPUs: row.amount("gpu"),
			Model: row.text("model")}
		if n.GPUs == 0 && n.Model != "" || n.GPUs > 0 && n.Model == "" {
			row.fail("model", "%q with %d GPUs", n.Model, n.GPUs)
		}
		nodes = append(nodes, n)
	})
	return nodes, err
}

// ReadPods reads a pod list. The columns after gpu_milli may be missing, as in the
// multigpu files.
func ReadPods(r io.Reader, name string) ([]Pod, error) {
	var pods []Pod
	err := read(r, name, []string{"name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli"}, func(row *row) {
		p := Pod{
			Name: row.name("name"), MilliCPU: row.amount("cpu_milli"), MemoryMiB: row.amount("memory_mib"),
			GPUs: row.amount("num_gpu"), GPUMilli: row.amount("gpu_milli"), QoS: row.text("qos"),
		}
		for model := range strings.SplitSeq(row.text("gpu_spec"), "|") {
			if model != "" && !slices.Contains(p.Models, model) {
				p.Models = append(p.Models, model)
			}
		}
		switch {
		case p.GPUs > 1 && p.GPUMilli != whole:
			row.fail("gpu_milli", "%d of each of %d GPUs: a share is of one GPU", p.GPUMilli, p.GPUs)
		case p.GPUs == 1 && (p.GPUMilli < 1 || p.GPUMilli > whole):
			row.fail("gpu_milli", "%d is not between 1 and %d", p.GPUMilli, whole)
		}
		pods = append(pods, p)
	})
	return pods, err
}

// row is one line with its columns by name.
type row struct {
	file    string
	line    int
	columns map[string]int
	fields  []string
	seen    map[string]int // names to their lines
	err     error          // the first
}

// read calls each for every line after the header.
func read(r io.Reader, name string, required []string, each func(*row)) error {
	reader := csv.NewReader(r)
	reader.ReuseRecord = true
	header, err := reader.Read()
	if errors.Is(err, io.EOF) {
		return fmt.Errorf("%s: the file is empty, want a header with %s", name, strings.Join(required, ","))
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, csvError(err))
	}
	row := &row{file: name, columns: map[string]int{}, seen: map[string]int{}}
	for i, column := range header {
		row.columns[strings.TrimSpace(strings.TrimPrefix(column, "\ufeff"))] = i
	}
	for _, column := range required {
		if _, ok := row.columns[column]; !ok {
			return fmt.Errorf("%s:1: the header lacks %s, got %s", name, column, strings.Join(header, ","))
		}
	}
	for {
		row.fields, err = reader.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%s:%w", name, csvError(err))
		}
		row.line, _ = reader.FieldPos(0)
		if each(row); row.err != nil {
			return row.err
		}
	}
}

// csvError words a parse error as line: problem.
func csvError(err error) error {
	if pe := (*csv.ParseError)(nil); errors.As(err, &pe) {
		return fmt.Errorf("%d: column %d: %w", pe.Line, pe.Column, pe.Err)
	}
	return fmt.Errorf(" %w", err)
}

func (r *row) fail(column, format string, a ...any) {
	if r.err == nil {
		r.err = fmt.Errorf("%s:%d: %s: %s", r.file, r.line, column, fmt.Sprintf(format, a...))
	}
}

// text is a column's value; empty where the file has no such column.
func (r *row) text(column string) string {
	if i, ok := r.columns[column]; ok {
		return strings.TrimSpace(r.fields[i])
	}
	return ""
}

// name is a value that no other line has.
func (r *row) name(column string) string {
	v := strings.Clone(r.text(column))
	if v == "" {
		r.fail(column, "is empty")
	} else if first, twice := r.seen[v]; twice {
		r.fail(column, "%q is given twice; first at line %d", v, first)
	}
	r.seen[v] = r.line
	return v
}

func (r *row) amount(column string) int64 {
	text := r.text(column)
	n, err := strconv.ParseInt(text, 10, 64)
	switch {
	case err != nil:
		r.fail(column, "%q is not a whole number", text)
	case n < 0 || n > maxAmount:
		r.fail(column, "%d is not between 0 and %d", n, int64(maxAmount))
	}
	return n
}
