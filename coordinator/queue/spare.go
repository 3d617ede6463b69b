package queue

// A hint may meet a bug of ours, or of an out-of-tree plugin's, with a pod or an event. Then it is as if it had said what has the pod
// tried again: what is lost is an attempt. Config.Met is told.
//
//	If, Helps         the event helps
//	Labels            it helps the plugin's pods, each bucket as a whole
//	Touches           all of the plugin's pods are asked
//	Topics, Alike     the pod is in no bucket with others, and any event helps it
//	PreEnqueue        the plugin holds the pod back, with that as its message

// gateMet is the message of a plugin that met a bug where it was asked whether it holds a pod back.
const gateMet = "the plugin met a bug of its own"

// met recovers from a panic: it tells of it, and calls then. It is deferred.
func (r *rules) met(plugin string, p *Pod, then func()) {
	if r.onPanic == nil {
		return
	}
	if v := recover(); v != nil {
		r.onPanic(plugin, p, v)
		then()
	}
}

func (r *rules) nameOf(plugin set) string { return r.plugins[plugin.index()].Name }

func (r *rules) asksIf(h *hook, e *Event) (may bool) {
	defer r.met(r.nameOf(h.plugin), nil, func() { may = true })
	return h.If(e)
}

func (r *rules) asksHelps(h *hook, p *Pod, e *Event) (helps bool) {
	defer r.met(r.nameOf(h.plugin), p, func() { helps = true })
	return h.plugin&r.asksEach == 0 && p.isLong() || h.Helps(p, e)
}

func (r *rules) asksLabels(h *hook, e *Event) (keys []string) {
	defer r.met(r.nameOf(h.plugin), nil, func() { keys, e.blind = nil, e.blind|h.plugin })
	return h.Labels(e)
}

func (r *rules) asksTouches(h *hook, e *Event) (list []topic, told bool) {
	defer r.met(r.nameOf(h.plugin), nil, func() { list, told = nil, false })
	return h.Touches(e)
}

// asksAlike and asksTopics are false where nothing can be told of the pod.
func (r *rules) asksAlike(plugin *Plugin, p *Pod) (like likeness, told bool) {
	defer r.met(plugin.Name, p, func() { told = false })
	return plugin.Alike(p.Obj), true
}

func (r *rules) asksTopics(plugin *Plugin, reg *Registration, p *Pod) (list []topic, told bool) {
	defer r.met(plugin.Name, p, func() { told = false })
	return reg.Topics(p), true
}

func (r *rules) asksPreEnqueue(plugin *Plugin, p *Pod) (message string) {
	defer r.met(plugin.Name, p, func() { message = gateMet })
	return plugin.PreEnqueue(p.Obj)
}
