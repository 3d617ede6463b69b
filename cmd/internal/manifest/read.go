package manifest

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	goruntime "runtime"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// DefaultMaxBytes is how much is read at once where Options do not say.
const DefaultMaxBytes = 1 << 30

// Options say how an input is read.
type Options struct {
	// Stdin is what the path "-" stands for.
	Stdin io.Reader
	// Namespace is that of objects that name none; empty: default.
	Namespace string
	// Check fills in an object's defaults and finds what makes it unusable by itself,
	// with the fields that are at fault; nil: nothing does. It is called on several
	// goroutines, once for each object.
	Check func(runtime.Object) field.ErrorList
	// Strict makes errors of custom resources. Otherwise they are skipped and counted.
	Strict bool
	// Override lets an object take the place of an earlier one of its name. Otherwise the second is an error, unless it is
	// a manifest for what a cluster has. OverrideFlag is what users say for it, for messages; empty: they can't.
	Override     bool
	OverrideFlag string
	// First are objects that stand before those of the paths, such as a cluster's; From is where they come from, for messages.
	First []runtime.Object
	From  string
	// MaxBytes bounds the input in all; 0: DefaultMaxBytes.
	MaxBytes int64
}

// Set is a whole input.
type Set struct {
	// Objects in the order of the input.
	Objects []Object
	// Skipped counts, by kind, objects of Kubernetes that have no say in scheduling, Custom custom resources, and Applied manifests
	// that are applied to what a cluster has.
	Skipped, Custom, Applied map[string]int
	// Autoscalers are skipped, too: a simulation does not play them, and may say so.
	Autoscalers []Autoscaler
}

// Notes are lines about what was skipped, and what was applied.
func (s *Set) Notes() (notes []string) {
	for _, x := range []struct {
		counts map[string]int
		what   string // with a place for how many
	}{
		{s.Skipped, "skipped %d of kinds that have no say in scheduling"},
		{s.Custom, "skipped %d of kinds that are not Kubernetes' own"},
		{s.Applied, "applied %d to what the cluster has"},
	} {
		total, parts := 0, make([]string, 0, len(x.counts))
		for _, kind := range mostFirst(x.counts) {
			total += x.counts[kind]
			parts = append(parts, fmt.Sprintf("%s %d", kind, x.counts[kind]))
		}
		if total > 0 {
			notes = append(notes, fmt.Sprintf(x.what+": %s", total, strings.Join(parts, ", ")))
		}
	}
	return notes
}

// mostFirst are the keys in the order of their counts.
func mostFirst(counts map[string]int) []string {
	return slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b))
	})
}

// Read reads all that the paths stand for: files, folders, "-". What is wrong
// goes to the report; the error is the report's, or that a path can't be read.
func Read(paths []string, o Options, report *Report) (*Set, error) {
	o.Namespace = cmp.Or(o.Namespace, "default")
	o.MaxBytes = cmp.Or(o.MaxBytes, DefaultMaxBytes)
	sources, err := open(paths, o)
	if err != nil {
		return nil, err
	}
	var documents []*document
	for _, s := range sources {
		more, err := split(s)
		if e := (*Error)(nil); errors.As(err, &e) {
			report.Add(e)
			continue
		}
		if len(more) == 0 && s.named {
			report.Add(&Error{Position: Position{File: s.name}, Problem: "it is empty: there is no object in it"})
		}
		documents = append(documents, more...)
	}
	r := &reader{kinds: newKinds(), namespace: o.Namespace, check: o.Check, lenient: report.SkipInvalid}
	outcomes := each(o.First, func(obj runtime.Object) *outcome { return r.given(obj, o.From) })
	a := &assembly{report: report, strict: o.Strict, override: o.Override, overrideFlag: o.OverrideFlag, seen: map[identity]int{}}
	set := a.assemble(append(outcomes, each(documents, r.document)...))
	return set, report.Err()
}

// each does something with all of a list on all cores, and keeps the order.
func each[T, R any](all []T, do func(T) R) []R {
	const chunk = 64
	out := make([]R, len(all))
	var group errgroup.Group
	group.SetLimit(goruntime.GOMAXPROCS(0))
	for start := 0; start < len(all); start += chunk {
		end := min(start+chunk, len(all))
		group.Go(func() error {
			for i := start; i < end; i++ {
				out[i] = do(all[i])
			}
			return nil
		})
	}
	group.Wait()
	return out
}

// identity is what no two objects share.
type identity struct{ kind, namespace, name string }

// assembly joins outcomes: what needs the whole input is decided here.
type assembly struct {
	report           *Report
	strict, override bool
	overrideFlag     string
	objects          []Object // those that another takes the place of have no value any more
	seen             map[identity]int
}

func (a *assembly) assemble(outcomes []*outcome) *Set {
	defined := map[schema.GroupKind]bool{}
	for _, o := range outcomes {
		for _, k := range o.custom {
			defined[k] = true
		}
	}
	set := &Set{Skipped: map[string]int{}, Custom: map[string]int{}, Applied: map[string]int{}}
	for _, o := range outcomes {
		for _, e := range o.warnings {
			a.report.Note(e)
		}
		for _, e := range o.errors {
			a.report.Add(e)
		}
		for _, f := range o.foreign {
			if a.strict && !defined[f.kind] {
				a.report.Add(f.err)
				continue
			}
			set.Custom[f.kind.Kind]++
		}
		for _, k := range o.skipped {
			set.Skipped[k.Kind]++
		}
		set.Autoscalers = append(set.Autoscalers, o.scalers...)
		for _, obj := range o.objects {
			a.take(obj)
		}
	}
	set.Objects = slices.DeleteFunc(a.objects, func(o Object) bool { return o.Value == nil })
	for _, o := range set.Objects {
		if o.Over != nil {
			set.Applied[o.Kind]++
		}
	}
	return set
}

// take adds an object, in the place of an earlier one of its name where it may take that.
func (a *assembly) take(obj Object) {
	key := identity{obj.Kind, obj.Namespace, obj.Name}
	if i, twice := a.seen[key]; twice && obj.Name != "" {
		first := a.objects[i]
		switch {
		case applies(obj, first) && first.Over == nil:
			obj.Over = &first
		case a.override:
			obj.Over = first.Over
		default:
			problem := fmt.Sprintf("given twice; first at %s", first.Position("metadata.name"))
			if a.overrideFlag != "" {
				problem += fmt.Sprintf("; %s takes the later one", a.overrideFlag)
			}
			a.report.Add(obj.Error("metadata.name", problem))
			return
		}
		if obj.Over != nil {
			obj.applyTo(obj.Over.Value)
		}
		a.objects[i].Value = nil
	}
	a.seen[key] = len(a.objects)
	a.objects = append(a.objects, obj)
}
