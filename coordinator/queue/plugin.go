package queue

import (
	"errors"
	"fmt"
	"math/bits"

	v1 "k8s.io/api/core/v1"
)

// Plugin is what the queue knows of a plugin: which events may make a pod schedulable that it
// rejected, and whether it holds pods back.
type Plugin struct {
	Name string
	// AsksEach says that its hints may look at anything of a pod, and at any pod: each is asked
	// by itself.
	AsksEach bool
	// Local says that what the plugin refuses a node for is the node's own: a change of one
	// node makes no other node fit.
	Local bool
	// Room says that what the plugin refuses a node for is too little room: Profiles.Room tells how many pods it would let in.
	Room bool
	// Events are what the plugin waits for, each kind of event once.
	Events []Registration
	// PreEnqueue holds a pod back as long as it returns a message; nil for most plugins.
	PreEnqueue func(*v1.Pod) string
	// Alike is a fingerprint of what the plugin's hints read of a pod beyond what pods of one
	// class have in common. Pods of one class with the same are judged together; nil: all of
	// a class are.
	Alike func(*v1.Pod) likeness
}

// Registration names events that may help the pods that a plugin rejected.
type Registration struct {
	Resource Resource
	Actions  Action
	// If tells whether one of these events can help any pod; nil: it can. It is asked once
	// for all pods.
	If func(*Event) bool
	// Helps tells whether one of these events helps a pod; nil: always.
	Helps func(*Pod, *Event) bool
	// Labels names the pod's own labels, by their keys, that Helps reads for one of these
	// events though Alike does not cover them; nil: none. It needs an Alike.
	Labels func(*Event) []string
	// Topics are what Helps depends on of a pod, and Touches what an event has of that: it is asked only
	// about pods that have a topic in common with the event, about the event's own pod, and about those
	// nominated to its node. Where Touches is false it is asked about all; nil: always.
	Topics  func(*Pod) []topic
	Touches func(*Event) ([]topic, bool)
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
	*Registration
}

// rules are the plugins, by what the queue asks of them.
type rules struct {
	plugins []Plugin
	names   map[string]set
	hooks   [resources][actions][]hook
	// alike are the plugins with an Alike, claims those that wait for claims.
	alike, claims set
	// local are the plugins that are, and fit is NodeResourcesFit.
	local, fit set
	profiles   Profiles // nil: not known
	// outOfTree are plugins besides, asksEach those of all that ask about each pod.
	outOfTree *OutOfTree
	asksEach  set
	// asked are the hints asked since forgetAsked.
	asked asked
	// onPanic is Config.Met; nil: a panic goes on.
	onPanic func(plugin string, p *Pod, panicked any)
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
		if p.AsksEach {
			r.asksEach |= bit
		}
		if p.Local {
			r.local |= bit
		}
		if p.Room {
			r.fit = bit
		}
		if p.Alike != nil {
			r.alike |= bit
		}
		for j := range p.Events {
			if err := r.register(bit, &p.Events[j]); err != nil {
				return nil, fmt.Errorf("queue: plugin %s: %w", p.Name, err)
			}
		}
		r.registerImplied(bit)
	}
	return r, nil
}

func (r *rules) register(plugin set, reg *Registration) error {
	if reg.Labels != nil && r.alike&plugin == 0 {
		return errors.New("reads labels, and has no Alike")
	}
	kinds := []Resource{reg.Resource}
	if reg.Resource == AnyPod {
		kinds = []Resource{AssignedPod, PendingPod}
	}
	for _, kind := range kinds {
		for a := range actions {
			if reg.Actions&(1<<a) == 0 {
				continue
			}
			if r.registered(plugin, kind, a) {
				e := Event{resource: kind, action: 1 << a}
				return fmt.Errorf("%s is registered twice", e.String())
			}
			r.hooks[kind][a] = append(r.hooks[kind][a], hook{plugin, reg})
			if kind == PersistentVolumeClaim && plugin&r.asksEach == 0 {
				r.claims |= plugin
			}
		}
	}
	return nil
}

func (r *rules) registered(plugin set, kind Resource, action int) bool {
	for _, h := range r.hooks[kind][action] {
		if h.plugin == plugin {
			return true
		}
	}
	return false
}

// registerImplied registers a plugin that waits for new nodes, and not for their taints, for
// every change of taints: a new node has often a taint that goes a moment later.
func (r *rules) registerImplied(plugin set) {
	taint := UpdateNodeTaint.index()
	if r.registered(plugin, Node, Add.index()) && !r.registered(plugin, Node, taint) {
		r.hooks[Node][taint] = append(r.hooks[Node][taint], hook{plugin, &Registration{Resource: Node, Actions: UpdateNodeTaint}})
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

// hooked tells whether any plugin waits for events of this kind.
func (r *rules) hooked(e *Event) bool { return len(r.hooks[e.resource][e.action.index()]) > 0 }

// interested are the plugins whose pods an event may help.
func (r *rules) interested(e *Event) set {
	if e.judged {
		return e.concerns
	}
	e.judged, e.concerns = true, unknown
	for _, h := range r.hooks[e.resource][e.action.index()] {
		if h.If == nil || r.asksIf(&h, e) {
			e.concerns |= h.plugin
		}
	}
	return e.concerns
}

// helps tells whether an event helps a pod that these plugins rejected: one of them has
// to say so.
func (r *rules) helps(rejectors set, p *Pod, e *Event) bool {
	if rejectors&unknown != 0 {
		return true
	}
	rejectors &= r.interested(e)
	if rejectors == 0 {
		return false
	}
	for _, h := range r.hooks[e.resource][e.action.index()] {
		if h.plugin&rejectors == 0 {
			continue
		}
		helps := h.Helps == nil || e.blind&h.plugin != 0 || r.asksHelps(&h, p, e)
		r.asked.note(h.plugin, helps)
		if helps {
			return true
		}
	}
	return false
}

// reads are the labels of pods that the plugins' hints read for an event.
func (r *rules) reads(e *Event) (readers set, keys []string) {
	for _, h := range r.hooks[e.resource][e.action.index()] {
		if h.Labels == nil || e.concerns&h.plugin == 0 {
			continue
		}
		if k := r.asksLabels(&h, e); len(k) > 0 {
			readers, keys = readers|h.plugin, append(keys, k...)
		}
	}
	return readers, keys
}

// likeness is a fingerprint of what the hints of these plugins read of a pod beyond its
// class; false: that can not be told.
func (r *rules) likeness(rejectors set, p *Pod) (like likeness, told bool) {
	rejectors &= r.alike
	if rejectors == 0 {
		return likeness{}, true
	}
	var d digest
	for ; rejectors != 0; rejectors &= rejectors - 1 {
		one, told := r.asksAlike(&r.plugins[rejectors.index()], p)
		if !told {
			return likeness{}, false
		}
		d.buf = append(d.buf, one[:]...)
	}
	return d.sum(), true
}

// gate finds the first plugin that holds a pod back, the one that did so before first.
func (r *rules) gate(p *Pod) (plugin, message string) {
	if p.Gated != "" {
		if g := r.names[p.Gated]; g&r.asksEach != 0 {
			if plugin, message = r.gateOutOfTree(p); plugin != "" {
				return plugin, message
			}
		} else if g != 0 {
			if m := r.asksPreEnqueue(&r.plugins[g.index()], p); m != "" {
				return p.Gated, m
			}
		}
	}
	for i := range r.plugins {
		if r.plugins[i].PreEnqueue != nil {
			if m := r.asksPreEnqueue(&r.plugins[i], p); m != "" {
				return r.plugins[i].Name, m
			}
		}
	}
	if r.names[p.Gated]&r.asksEach != 0 {
		return "", "" // they were asked
	}
	return r.gateOutOfTree(p)
}
