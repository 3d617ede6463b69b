package whatif

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// Diff is what sets one run apart from another: workloads of which a pod has another fate.
type Diff struct {
	// With names the other run.
	With      string         `json:"with"`
	Workloads []WorkloadDiff `json:"workloads"`
}

// WorkloadDiff is one workload in the other run, Before, and in this one, After.
type WorkloadDiff struct {
	Key
	Placed  Pair `json:"placed"`
	Pending Pair `json:"pending"`
	// New and Gone are pods that only this run has, and only the other.
	New  []string `json:"new,omitempty"`
	Gone []string `json:"gone,omitempty"`
	// Moved are on another node, Lost had one and pend, Found pended and have one, Otherwise pend for another reason.
	Moved     []PodDiff `json:"moved,omitempty"`
	Lost      []PodDiff `json:"lost,omitempty"`
	Found     []PodDiff `json:"found,omitempty"`
	Otherwise []PodDiff `json:"otherwise,omitempty"`
}

// PodDiff is a pod with what both runs say of it: a node, or why there is none.
type PodDiff struct {
	Name   string `json:"name"`
	Before string `json:"before"`
	After  string `json:"after"`
}

// ReadReport reads what -o json has written.
func ReadReport(in io.Reader) (*Report, error) {
	dec := json.NewDecoder(in)
	dec.DisallowUnknownFields()
	r := &Report{}
	if err := dec.Decode(r); err != nil {
		return nil, fmt.Errorf("it is no answer of simulate -o json: %w", err)
	}
	if r.Change == nil || r.Room == nil {
		return nil, errors.New("it is no answer of simulate -o json: change and room are missing")
	}
	return r, nil
}

// Compare says in r what sets it apart from another run.
func (r *Report) Compare(with string, other *Report) {
	r.Diff = &Diff{With: with, Workloads: []WorkloadDiff{}}
	before, after := other.byKey(), r.byKey()
	keys := maps.Clone(before)
	maps.Copy(keys, after)
	for _, key := range slices.SortedFunc(maps.Keys(keys), compareKeys) {
		if d := compareWorkload(key, before[key], after[key]); !d.isSame() {
			r.Diff.Workloads = append(r.Diff.Workloads, d)
		}
	}
}

func (r *Report) byKey() map[Key]*Workload {
	all := map[Key]*Workload{}
	for _, list := range [][]Workload{r.Change, r.Others} {
		for i := range list {
			all[list[i].Key] = &list[i]
		}
	}
	return all
}

// fates are what becomes of a workload's pods. A run that does not tell of the workload leaves the pods as the other one found them.
func fates(w, other *Workload) map[string]Pod {
	all := map[string]Pod{}
	if w != nil {
		for _, p := range w.Pods {
			if !p.Gone {
				all[p.Name] = p
			}
		}
		return all
	}
	for _, p := range other.Pods {
		if !p.New {
			all[p.Name] = Pod{Name: p.Name, Node: p.Was}
		}
	}
	return all
}

func compareWorkload(key Key, a, b *Workload) WorkloadDiff {
	d := WorkloadDiff{Key: key}
	before, after := fates(a, b), fates(b, a)
	for _, p := range before {
		add(&d.Placed.Before, &d.Pending.Before, p)
	}
	for _, p := range after {
		add(&d.Placed.After, &d.Pending.After, p)
	}
	names := maps.Clone(before)
	maps.Copy(names, after)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		was, wasThere := before[name]
		now, isThere := after[name]
		x := PodDiff{name, cmp.Or(was.Node, was.Why), cmp.Or(now.Node, now.Why)}
		switch {
		case !wasThere:
			d.New = append(d.New, name)
		case !isThere:
			d.Gone = append(d.Gone, name)
		case x.Before == x.After:
		case was.Node != "" && now.Node != "":
			d.Moved = append(d.Moved, x)
		case was.Node != "":
			d.Lost = append(d.Lost, x)
		case now.Node != "":
			d.Found = append(d.Found, x)
		default:
			d.Otherwise = append(d.Otherwise, x)
		}
	}
	return d
}

func add(placed, pending *int, p Pod) {
	if p.Node != "" {
		*placed++
	} else {
		*pending++
	}
}

func (d *WorkloadDiff) isSame() bool {
	return len(d.New)+len(d.Gone)+len(d.Moved)+len(d.Lost)+len(d.Found)+len(d.Otherwise) == 0
}

// shownPods is how many pods a line names; the JSON has all of them.
const shownPods = 5

func (d *Diff) rows() [][]string {
	rows := [][]string{{"WORKLOAD", "PLACED", "PENDING", "NEW", "GONE", "MOVED", "LOST", "FOUND", "OTHER REASON"}}
	for _, w := range d.Workloads {
		cells := []string{w.Key.String(), w.Placed.String(), w.Pending.String()}
		for _, n := range []int{len(w.New), len(w.Gone), len(w.Moved), len(w.Lost), len(w.Found), len(w.Otherwise)} {
			cells = append(cells, fmt.Sprint(n))
		}
		rows = append(rows, cells)
	}
	return rows
}

// lines name the pods of each workload that have another fate.
func (d *Diff) lines() (lines []string) {
	for _, w := range d.Workloads {
		for _, x := range []struct {
			what  string
			names []string
		}{{"new", w.New}, {"gone", w.Gone}} {
			if len(x.names) > 0 {
				lines = append(lines, fmt.Sprintf("%s: %s: %s", w.Key, x.what, some(x.names)))
			}
		}
		for _, x := range []struct {
			what string
			pods []PodDiff
		}{{"moved", w.Moved}, {"lost", w.Lost}, {"found", w.Found}, {"other reason", w.Otherwise}} {
			var texts []string
			for _, p := range x.pods {
				texts = append(texts, fmt.Sprintf("%s (%s -> %s)", p.Name, p.Before, p.After))
			}
			if len(texts) > 0 {
				lines = append(lines, fmt.Sprintf("%s: %s: %s", w.Key, x.what, some(texts)))
			}
		}
	}
	return lines
}

func some(texts []string) string {
	if more := len(texts) - shownPods; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(texts[:shownPods], ", "), more)
	}
	return strings.Join(texts, ", ")
}
