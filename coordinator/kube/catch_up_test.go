package kube

import (
	"fmt"
	"maps"
	"strconv"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"
)

// behind is an informer's store that has taken in so many changes of a history.
type behind struct {
	objects map[string]int // by key: the version
	version int
}

func (b *behind) GetByKey(key string) (any, bool, error) {
	version, ok := b.objects[key]
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: key, ResourceVersion: strconv.Itoa(version)}}, ok, nil
}

func (b *behind) ListKeys() []string {
	var keys []string
	for key := range b.objects {
		keys = append(keys, key)
	}
	return keys
}

func (b *behind) LastStoreSyncResourceVersion() string { return strconv.Itoa(b.version) }

// step takes one change in: the version is its number.
func (b *behind) step(c write) {
	b.version = c.version
	if c.gone {
		delete(b.objects, c.key)
	} else {
		b.objects[c.key] = c.version
	}
}

type write struct {
	key     string
	gone    bool
	version int
}

// An informer that has seen all that came before a read lacks nothing of it, and one that
// lacks nothing has each object that the read found, unless it saw that deleted, and none
// that the read knew to be gone.
func TestLagIsWhatTheReadKnowsAndTheInformerDoesNot(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		history := draw(t)
		readAt := rapid.IntRange(0, len(history)).Draw(t, "read at")
		known := rapid.IntRange(0, len(history)).Draw(t, "informer at")
		truth, store := &behind{objects: map[string]int{}, version: 1}, &behind{objects: map[string]int{}, version: 1}
		for _, c := range history[:readAt] {
			truth.step(c)
		}
		for _, c := range history[:known] {
			store.step(c)
		}
		read := &seen{version: strconv.Itoa(truth.version), versions: map[string]string{}}
		for key, version := range truth.objects {
			read.versions[key] = strconv.Itoa(version)
		}
		l := newLag(store, read)
		for _, c := range history[known:] {
			if l.left() == 0 {
				break
			}
			store.step(c)
		}
		if left := l.left(); left != 0 {
			t.Fatalf("an informer that has seen all: got %s, want nothing", l)
		}
		later := map[string]int{} // what happened to objects after the read, as far as the informer knows
		for _, c := range history[readAt:] {
			if c.version <= store.version {
				later[c.key] = c.version
			}
		}
		for key, version := range truth.objects {
			if got := store.objects[key]; got < version && later[key] == 0 {
				t.Fatalf("%s: got version %d, want %d or newer", key, got, version)
			}
		}
		for key, version := range store.objects {
			if _, ok := truth.objects[key]; !ok && version <= truth.version {
				t.Fatalf("%s: got version %d, want it gone as the read at %d knew", key, version, truth.version)
			}
		}
	})
}

// draw makes a history of objects that come, change and go. Versions leave gaps, for other
// kinds count along.
func draw(t *rapid.T) []write {
	var history []write
	there, version := map[string]bool{}, 1
	for range rapid.IntRange(0, 30).Draw(t, "changes") {
		c := write{key: fmt.Sprint(rapid.IntRange(0, 4).Draw(t, "object"))}
		c.gone = there[c.key] && rapid.Bool().Draw(t, "gone")
		there[c.key] = !c.gone
		version += rapid.IntRange(1, 5).Draw(t, "gap")
		c.version = version
		history = append(history, c)
	}
	return history
}

func TestLagNamesAnExample(t *testing.T) {
	l := newLag(&behind{objects: map[string]int{"b": 3}, version: 3}, &seen{version: "5", versions: map[string]string{"a": "4"}})
	if got, want := l.String(), "1 objects to come and 1 to go, such as a"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := maps.Clone(l.doomed); len(got) != 1 {
		t.Errorf("got %v to go, want b", got)
	}
}
