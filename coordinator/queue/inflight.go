package queue

// maxEvents bounds the events kept for pods in flight. A pod that is in flight for longer
// than the last maxEvents is tried again as if one of those forgotten had helped it.
const maxEvents = 1 << 16

// flights are the pods in flight and the events since the first of them took off. A pod that
// is rejected is held against the events since its own take-off: what they changed, its
// attempt has not seen.
type flights struct {
	pods   window[flight]
	events window[*Event]
	live   int
	// moved counts all events, those too that no plugin is interested in.
	moved uint64
	// kinds counts events.
	kinds [Kinds]int
}

type flight struct {
	pod     *Pod   // nil: landed
	tookOff uint64 // the first event since
	since   uint64 // the first event that its attempt has not seen
	moved   uint64 // flights.moved then
}

// takeOff opens a flight.
func (f *flights) takeOff(p *Pod) {
	p.flight = f.pods.end()
	f.pods.push(flight{pod: p, tookOff: f.events.end(), since: f.events.end(), moved: f.moved})
	f.live++
}

// turn has a pod's attempt know all events so far. They are kept as long as those behind it,
// which have not had their turn, may need them.
func (f *flights) turn(p *Pod) {
	fl := f.pods.at(p.flight)
	fl.since, fl.moved = f.events.end(), f.moved
}

// unturn has the attempt of a pod that is given back know none of the events since its take-off.
func (f *flights) unturn(p *Pod) {
	if fl := f.pods.at(p.flight); fl.since != fl.tookOff {
		fl.since, fl.moved = fl.tookOff, f.moved-1
	}
}

// land closes a pod's flight and forgets the events that no other flight needs.
func (f *flights) land(p *Pod) {
	f.pods.at(p.flight).pod = nil
	f.live--
	for f.pods.len() > 0 && f.pods.at(f.pods.first).pod == nil {
		f.pods.trim(f.pods.first + 1)
	}
	if f.pods.len() == 0 {
		f.forget(f.events.end())
		return
	}
	f.forget(max(f.events.first, f.pods.at(f.pods.first).tookOff))
}

// record keeps an event for the pods in flight, if there are any.
func (f *flights) record(e *Event) {
	if f.live == 0 {
		return
	}
	f.events.push(e)
	f.kinds[e.Kind()]++
	if f.events.len() > maxEvents {
		f.forget(f.events.first + maxEvents/2)
	}
}

// forget drops the events before number i.
func (f *flights) forget(i uint64) {
	for at := f.events.first; at < i; at++ {
		f.kinds[(*f.events.at(at)).Kind()]--
	}
	f.events.trim(i)
}

// helped tells whether an event since its take-off may help a pod.
func (f *flights) helped(p *Pod, r *rules) bool {
	fl := f.pods.at(p.flight)
	if fl.since < f.events.first || p.rejectors&unknown != 0 && fl.moved != f.moved {
		return true
	}
	for i := fl.since; i < f.events.end(); i++ {
		if r.helps(p.rejectors&^unknown, p, *f.events.at(i)) {
			return true
		}
	}
	return false
}

// window is a list that grows at its end, shrinks at its front and keeps the numbers of its
// elements. It moves them to the front of its memory once half of that is free.
type window[T any] struct {
	first uint64 // number of items[head]
	head  int
	items []T
}

func (w *window[T]) len() int       { return len(w.items) - w.head }
func (w *window[T]) end() uint64    { return w.first + uint64(w.len()) }
func (w *window[T]) at(i uint64) *T { return &w.items[w.head+int(i-w.first)] }
func (w *window[T]) push(x T)       { w.items = append(w.items, x) }

// trim forgets the elements before number i.
func (w *window[T]) trim(i uint64) {
	n := int(i - w.first)
	clear(w.items[w.head : w.head+n])
	w.first, w.head = i, w.head+n
	if w.head*2 < len(w.items) {
		return
	}
	kept := copy(w.items, w.items[w.head:])
	clear(w.items[kept:])
	w.items, w.head = w.items[:kept], 0
}
