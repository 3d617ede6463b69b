package queue

import (
	"fmt"
	"math/bits"

	v1 "k8s.io/api/core/v1"
)

// Plugin is what the queue knows of a plugin: which events may make a pod schedulable that it
// rejected, and whether it holds pods back.
type Plugin struct {
	Name   string
	Events []Registration
	// PreEnqueue holds a pod back as long as it returns a message; nil for most plugins.
	PreEnqueue func(*v1.Pod) string
}

// Registration names events that may help the pods that a plugin rejected.
type Registration struct {
	Resource Resource
	Actions  Action
	// Helps tells whether one of these events helps a pod; nil: always.
	Helps func(*Pod, *Event) bool
}

// set is a set of plugins, a bit for each.
type set uint64

const (
	// unknown stands for every plugin that the queue was not told of. Any event may help a
	// pod that one of them rejected.
	unknown set = 1 << 63
	// maxPlugins is how many plugins a queue can be told of.
	maxPlugins = 63
)

// index is the number of the only plugin of a set.
func (s set) index() int { return bits.TrailingZeros64(uint64(s)) }

// len is how many plugins a set holds.
func (s set) len() int { return bits.OnesCount64(uint64(s)) }

// hook is a registration of one plugin for one kind of event.
type hook struct {
	plugin set
	helps  func(*Pod, *Event) bool
}

// rules are the plugins, by what the queue asks of them.
type rules struct {
	plugins []Plugin
	names   map[string]set
	hooks   [resources][actions][]hook
	// interest holds the plugins of hooks.
	interest [resources][actions]set
}

func newRules(plugins []Plugin) (*rules, error) {
	if len(plugins) > maxPlugins {
		return nil, fmt.Errorf("queue: %d plugins, expected at most %d", len(plugins), maxPlugins)
	}
	r := &rules{plugins: plugins, names: make(map[string]set, len(plugins))}
	for i := range plugins {
		p, bit := &plugins[i], set(1)<<i
		if _, twice := r.names[p.Name]; twice {
			return nil, fmt.Errorf("queue: plugin %s is given twice", p.Name)
		}
		r.names[p.Name] = bit
		for _, reg := range p.Events {
			r.register(bit, reg)
		}
		r.registerImplied(bit)
	}
	return r, nil
}

func (r *rules) register(plugin set, reg Registration) {
	kinds := []Resource{reg.Resource}
	if reg.Resource == AnyPod {
		kinds = []Resource{AssignedPod, PendingPod}
	}
	for _, kind := range kinds {
		for a := range actions {
			if reg.Actions&(1<<a) != 0 {
				r.hooks[kind][a] = append(r.hooks[kind][a], hook{plugin: plugin, helps: reg.Helps})
				r.interest[kind][a] |= plugin
			}
		}
	}
}

// registerImplied registers a plugin that waits for new nodes, and not for their taints, for
// every change of taints: a new node has often a taint that goes a moment later.
func (r *rules) registerImplied(plugin set) {
	if r.interest[Node][Add.index()]&plugin != 0 && r.interest[Node][UpdateNodeTaint.index()]&plugin == 0 {
		r.register(plugin, Registration{Resource: Node, Actions: UpdateNodeTaint})
	}
}

// set turns names to a set.
func (r *rules) set(names []string) set {
	var out set
	for _, n := range names {
		bit, ok := r.names[n]
		if !ok {
			bit = unknown
		}
		out |= bit
	}
	return out
}

// interested are the plugins whose pods an event may help.
func (r *rules) interested(e *Event) set {
	return r.interest[e.resource][e.action.index()] | unknown
}

// helps tells whether an event helps a pod that these plugins rejected: one of them has
// to say so.
func (r *rules) helps(rejectors set, p *Pod, e *Event) bool {
	if rejectors&unknown != 0 {
		return true
	}
	for _, h := range r.hooks[e.resource][e.action.index()] {
		if h.plugin&rejectors != 0 && (h.helps == nil || h.helps(p, e)) {
			return true
		}
	}
	return false
}

// gate finds the first plugin that holds a pod back, the one that did so before first.
func (r *rules) gate(p *Pod) (plugin, message string) {
	if p.Gated != "" {
		if g := r.names[p.Gated]; g != 0 {
			if m := r.plugins[g.index()].PreEnqueue(p.Obj); m != "" {
				return p.Gated, m
			}
		}
	}
	for i := range r.plugins {
		if f := r.plugins[i].PreEnqueue; f != nil {
			if m := f(p.Obj); m != "" {
				return r.plugins[i].Name, m
			}
		}
	}
	return "", ""
}
