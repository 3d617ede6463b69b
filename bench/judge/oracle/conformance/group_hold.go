package conformance

import (
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
)

// mostHeld is for how many rounds room is held: a round takes a minute, and room is held for ten.
const mostHeld = 10

// reservation is for whom room is held.
type reservation struct {
	podGroup string // empty: for none
	since    int    // round
}

// holds is a log that keeps when our scheduler holds room for a pod group and gives it to others: "+name" and "-name: why", in order. It is
// a logr.LogSink.
type holds struct {
	mu   sync.Mutex
	list []string
}

// Info notes what it keeps, and nothing else.
func (h *holds) Info(_ int, message string, values ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch message {
	case "Hold room for a pod group":
		h.list = append(h.list, "+"+values[1].(klog.ObjectRef).String())
	case "Give room that was held to others":
		h.list = append(h.list, "-"+values[1].(klog.ObjectRef).String()+": "+values[3].(string))
	}
}

func (h *holds) Init(logr.RuntimeInfo)          {}
func (h *holds) Enabled(int) bool               { return true }
func (h *holds) Error(error, string, ...any)    {}
func (h *holds) WithValues(...any) logr.LogSink { return h }
func (h *holds) WithName(string) logr.LogSink   { return h }

// next takes the entries at the head of the log, where they are want.
func (h *holds) next(want ...string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.list) < len(want) || !slices.Equal(h.list[:len(want)], want) {
		return false
	}
	h.list = h.list[len(want):]
	return true
}

// left is what has not been taken.
func (h *holds) left() string {
	if h == nil {
		return ""
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return strings.Join(h.list, ", ")
}

// letGo gives the room that is held to others.
func (r *replay) letGo() {
	for pod := range r.upstream.AllPending() {
		if podGroupOf(pod) == r.held.podGroup {
			r.withdraw(pod)
		}
	}
	r.held = reservation{}
}

// review gives the room to others that is held for too long, or for a pod group that could not start with it, before a round's decisions.
func (r *replay) review(ctx context.Context, round int) {
	if r.held.podGroup == "" {
		return
	}
	var ready []*v1.Pod
	for pod := range r.upstream.AllPending() {
		if podGroupOf(pod) == r.held.podGroup && r.tried(ctx, pod) {
			ready = append(ready, pod)
		}
	}
	waits := false
	if len(ready) > 0 {
		missing := r.upstream.Missing(r.upstream.PodGroup(ready[0]))
		waits = missing > 0 && missing <= len(ready)
	}
	told := "-" + r.held.podGroup + ": " // what ours tells beyond that is a difference
	if !waits && r.holds.next(told+"it does not wait for room") ||
		round-r.held.since >= mostHeld && r.holds.next(told+"it was held for 10m0s") {
		r.letGo()
	}
}

// reserve follows for which pod group an attempt has room held: ours tells, as that goes by what would fit if no other pod were there,
// which upstream does not ask.
func (a *attempt) reserve() {
	if a.holds == nil {
		return
	}
	name, holder := a.decisions[0].PodGroup, a.held.podGroup
	switch {
	case name == holder && a.succeeded() && a.holds.next("-"+name+": it does not wait for room"),
		name == holder && a.holds.next("-"+name+": it would not fit if no other pod were there"):
		a.letGo()
	case name != holder && holder != "" && a.holds.next("-"+holder+": another pod group goes before it", "+"+name),
		holder == "" && a.holds.next("+"+name):
		a.letGo()
		a.held = reservation{name, a.round}
		a.result.Reservations++
	}
	for _, d := range a.decisions {
		if got := d.Held != "" && d.Nominated == d.Held; got && name != a.held.podGroup {
			a.differs(d, "room that is held for its pod group", d.Nominated, "none: it is held for "+a.held.podGroup)
		}
	}
}

func (r *replay) withdraw(pod *v1.Pod) {
	r.upstream.Nominate(pod.UID, "")
	r.api.nominate(pod, "")
}

// podGroupOf is the name of the pod group that a pod is a member of.
func podGroupOf(pod *v1.Pod) string {
	if pod.Spec.SchedulingGroup == nil {
		return ""
	}
	return types.NamespacedName{Namespace: pod.Namespace, Name: *pod.Spec.SchedulingGroup.PodGroupName}.String()
}
