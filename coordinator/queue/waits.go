package queue

import "time"

// Waits is what brings a pending pod its next attempt: whatever of it comes first.
type Waits struct {
	// Plugins are those that rejected the pod, or hold it back, with what they wait for.
	Plugins []PluginWaits
	// BackoffUntil is when its backoff is over; zero: it is.
	BackoffUntil time.Time
	// TriedAnyway is when it is tried without any event; zero: it is not.
	TriedAnyway time.Time
}

// PluginWaits are the events that a plugin waits for, such as "Node Add". Whether one of them
// helps a pod is for the plugin's hint to say.
type PluginWaits struct {
	Plugin string
	Events []string
}

// anyEvent is what a plugin waits for that the queue was not told of.
const anyEvent = "any event"

// Waits tells what a pod of the queue waits for; nothing where it is to be tried now.
func (q *Queue) Waits(p *Pod) Waits {
	var w Waits
	switch p.place {
	case Gated:
		w.Plugins = q.rules.waits([]string{p.Gated})
		return w
	case Unschedulable:
		w.Plugins = q.rules.waits(p.RejectedBy)
		w.TriedAnyway = q.timeout(p)
	case Backoff, ErrorBackoff:
	default:
		return w
	}
	if isBackingOff(p, q.now()) {
		w.BackoffUntil = backoffOver(p)
	}
	return w
}

// waits lists the events that plugins registered for.
func (r *rules) waits(names []string) []PluginWaits {
	out := make([]PluginWaits, 0, len(names))
	for _, name := range names {
		bit, known := r.names[name]
		if !known {
			out = append(out, PluginWaits{name, []string{anyEvent}})
			continue
		}
		x := PluginWaits{Plugin: name}
		for kind := range resources {
			for a := range actions {
				if r.registered(bit, kind, a) {
					x.Events = append(x.Events, kind.name()+" "+actionName(a))
				}
			}
		}
		out = append(out, x)
	}
	return out
}

// Events are all events that a plugin can wait for, as Waits names them.
func Events() (names []string) {
	for kind := range resources {
		for a := range actions {
			names = append(names, kind.name()+" "+actionName(a))
		}
	}
	return names
}
