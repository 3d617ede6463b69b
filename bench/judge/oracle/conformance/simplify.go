package conformance

import (
	"bytes"
	"encoding/json"
	"maps"
	"reflect"
	"slices"

	"github.com/shardsched/shardsched/bench/judge/oracle"
)

// simplify takes from each object, and from the configuration, what it can do without.
func (k *shrinker) simplify() {
	for i := range k.best.Rounds {
		for j := range k.best.Rounds[i] {
			if k.best.Rounds[i][j].Type == Set {
				k.prune(func(s *Scenario, n int) (fewer, ok bool) { return s.Rounds[i][j].without(n) })
			}
		}
	}
	if k.best.Config != nil {
		k.prune(func(s *Scenario, n int) (fewer, ok bool) {
			small := &Configuration{}
			fewer, ok = pruned(s.Config, small, n)
			s.Config = small
			return fewer, ok
		})
	}
}

// prune leaves out part after part. without leaves out the n-th; fewer says that there
// are not so many, ok that what is left is still of use.
func (k *shrinker) prune(without func(s *Scenario, n int) (fewer, ok bool)) {
	for n := 0; ; {
		s := k.best.clone()
		fewer, ok := without(s, n)
		if fewer {
			return
		}
		if ok && k.accept(s) {
			k.steps++
		} else {
			n++
		}
	}
}

// without makes the event's object one without its n-th part.
func (e *Event) without(n int) (fewer, ok bool) {
	small := newOf(e.Object)
	if fewer, ok = pruned(e.Object, small, n); fewer || !ok {
		return fewer, false
	}
	// What tells objects apart stays, where the metadata is gone as a whole.
	small.SetName(e.Object.GetName())
	small.SetNamespace(e.Object.GetNamespace())
	small.SetUID(e.Object.GetUID())
	before, err := json.Marshal(e.Object)
	e.Object = small
	return false, err == nil && !same(small, before)
}

// newOf is an empty object of the same kind.
func newOf(obj oracle.Object) oracle.Object {
	return reflect.New(reflect.TypeOf(obj).Elem()).Interface().(oracle.Object)
}

// pruned makes of small what from is without its n-th part, counted from the outermost
// ones inwards.
func pruned(from, small any, n int) (fewer, ok bool) {
	text, err := json.Marshal(from)
	if err != nil {
		return true, false
	}
	var tree any
	if err := json.Unmarshal(text, &tree); err != nil {
		return true, false
	}
	level := []any{tree}
	for len(level) > 0 {
		var next []any
		for i := range level {
			if n -= cut(level[i], n, &next); n < 0 {
				return false, decode(tree, small) && !same(small, text)
			}
		}
		level = next
	}
	return true, false
}

func decode(tree, into any) bool {
	text, err := json.Marshal(tree)
	return err == nil && json.Unmarshal(text, into) == nil
}

// same tells whether what was taken away comes back by itself.
func same(small any, before []byte) bool {
	after, err := json.Marshal(small)
	return err == nil && bytes.Equal(after, before)
}

// cut takes the n-th part of a part away, if it has so many, and returns more than n then;
// otherwise how many it has. The parts of its parts come behind next.
func cut(part any, n int, next *[]any) int {
	switch part := part.(type) {
	case map[string]any:
		keys := slices.Sorted(maps.Keys(part))
		optional := slices.DeleteFunc(slices.Clone(keys), required)
		if n < len(optional) {
			delete(part, optional[n])
			return n + 1
		}
		for _, key := range keys {
			*next = append(*next, children(part, key)...)
		}
		return len(optional)
	case *list:
		if n < len(part.items()) {
			part.drop(n)
			return n + 1
		}
		*next = append(*next, part.items()...)
		return len(part.items())
	}
	return 0
}

// required tells of fields that no API server lets an object be without, or that tell which of two
// pods is the more important: what is simpler than that shows something else.
func required(key string) bool {
	return slices.Contains([]string{
		"accessModes", "action", "allocationMode", "capacity", "cel", "claimName", "count", "device", "deviceClassName",
		"driver", "exactly", "expression",
		"key", "kind", "maxSkew", "name", "namespace", "nodeID", "operator", "pdName", "pool", "provisioner",
		"request", "resourceSliceCount", "schedulerName", "spec",
		"startTime", "status", "storage", "topologyKey", "uid", "value", "values", "volumeHandle", "volumeID",
		"volumeBindingMode", "weight", "whenUnsatisfiable",
	}, key)
}

// list is a list in a map, which must be told where an item is gone.
type list struct {
	in  map[string]any
	key string
}

func (l *list) items() []any { return l.in[l.key].([]any) }

func (l *list) drop(n int) { l.in[l.key] = slices.Delete(slices.Clone(l.items()), n, n+1) }

func children(in map[string]any, key string) []any {
	switch child := in[key].(type) {
	case map[string]any:
		return []any{child}
	case []any:
		return []any{&list{in, key}}
	}
	return nil
}
