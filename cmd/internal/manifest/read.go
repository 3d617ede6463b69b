package manifest

import (
	"cmp"
	"errors"
	"fmt"
	"io"
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
	// MaxBytes bounds the input in all; 0: DefaultMaxBytes.
	MaxBytes int64
}

// Set is a whole input.
type Set struct {
	// Objects in the order of the input.
	Objects []Object
	// Skipped counts the kinds that have no say in scheduling, most first.
	Skipped []Skip
}

// Skip is a kind that was skipped.
type Skip struct {
	Kind  string
	Count int
}

// Note is one line about what was skipped; empty: nothing was.
func (s *Set) Note() string {
	if len(s.Skipped) == 0 {
		return ""
	}
	total, parts := 0, make([]string, 0, len(s.Skipped))
	for _, k := range s.Skipped {
		total += k.Count
		parts = append(parts, fmt.Sprintf("%d %s", k.Count, k.Kind))
	}
	noun := "objects that have"
	if total == 1 {
		noun = "object that has"
	}
	return fmt.Sprintf("skipped %d %s no say in scheduling: %s", total, noun, strings.Join(parts, ", "))
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
		documents = append(documents, more...)
	}
	r := &reader{kinds: newKinds(), namespace: o.Namespace, check: o.Check, lenient: report.SkipInvalid}
	set := assemble(readAll(documents, r), report)
	return set, report.Err()
}

// readAll reads documents on all cores and keeps their order.
func readAll(documents []*document, r *reader) []*outcome {
	const chunk = 64
	out := make([]*outcome, len(documents))
	var group errgroup.Group
	group.SetLimit(goruntime.GOMAXPROCS(0))
	for start := 0; start < len(documents); start += chunk {
		end := min(start+chunk, len(documents))
		group.Go(func() error {
			for i := start; i < end; i++ {
				out[i] = r.document(documents[i])
			}
			return nil
		})
	}
	group.Wait()
	return out
}

// identity is what no two objects share.
type identity struct{ kind, namespace, name string }

// assemble joins outcomes: what needs the whole input is decided here.
func assemble(outcomes []*outcome, report *Report) *Set {
	custom := map[schema.GroupKind]bool{}
	for _, o := range outcomes {
		for _, k := range o.custom {
			custom[k] = true
		}
	}
	set, skipped, seen := &Set{}, map[string]int{}, map[identity]Object{}
	for _, o := range outcomes {
		for _, e := range o.warnings {
			report.Note(e)
		}
		for _, e := range o.errors {
			report.Add(e)
		}
		for _, u := range o.unknown {
			if custom[u.kind] {
				skipped[u.kind.Kind]++
				continue
			}
			report.Add(u.err)
		}
		for _, k := range o.skipped {
			skipped[k.Kind]++
		}
		for _, obj := range o.objects {
			key := identity{obj.Kind, obj.Namespace, obj.Name}
			if first, twice := seen[key]; twice && obj.Name != "" {
				report.Add(obj.Error("metadata.name", fmt.Sprintf("given twice; first at %s", first.Position("metadata.name"))))
				continue
			}
			seen[key] = obj
			set.Objects = append(set.Objects, obj)
		}
	}
	for kind, n := range skipped {
		set.Skipped = append(set.Skipped, Skip{kind, n})
	}
	slices.SortFunc(set.Skipped, func(a, b Skip) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Kind, b.Kind))
	})
	return set
}
