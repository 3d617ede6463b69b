package observe

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/shardsched/shardsched/coordinator/groups"
	"github.com/shardsched/shardsched/coordinator/queue"
)

// HeldRoom is the room that is held for a pod group which can't start yet.
type HeldRoom struct {
	PodGroup types.NamespacedName
	// Nodes are how many of its pods would get which node.
	Nodes map[string]int
	// Priority is whose room it is not: that of pods of this priority and below.
	Priority int32
	// Starts is when the pod group may start: pods that end before then may use the room. Zero: unknown, or at any time.
	Starts time.Time
}

// maxHeldNodes is how many nodes are named.
const maxHeldNodes = 10

// text tells who holds what for whom: to the pod group of that name.
func (h *HeldRoom) text(to types.NamespacedName) string {
	whom := "pod group " + h.PodGroup.String()
	if to == h.PodGroup {
		whom = "this pod group"
	}
	if len(h.Nodes) == 0 {
		return fmt.Sprintf("room that becomes free is held for %s", whom)
	}
	pods, names := 0, slices.Sorted(maps.Keys(h.Nodes))
	for _, n := range h.Nodes {
		pods += n
	}
	var list []string
	for _, name := range names[:min(len(names), maxHeldNodes)] {
		list = append(list, fmt.Sprintf("%s (%d)", name, h.Nodes[name]))
	}
	if left := len(names) - len(list); left > 0 {
		list = append(list, fmt.Sprintf("%d more nodes", left))
	}
	except := ""
	if !h.Starts.IsZero() {
		except = ", except pods that end by " + h.Starts.UTC().Format(time.RFC3339)
	}
	return fmt.Sprintf("room for %d pods of %s is held until it starts, from pods of priority %d and below%s, on %s", pods, whom, h.Priority,
		except, strings.Join(list, ", "))
}

// note is what a pod that waits is told of it; "": it is the pod group's own, or may take the room.
func (h *HeldRoom) note(p *queue.Pod) string {
	if h == nil || p.Backfills != nil && p.Backfills.Name() == h.PodGroup || p.Priority > h.Priority || len(h.Nodes) == 0 {
		return ""
	}
	if name, _ := groups.NameOf(p.Obj); name == h.PodGroup {
		return h.text(name)
	}
	return h.text(types.NamespacedName{})
}
