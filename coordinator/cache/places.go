package cache

// places is a list in no order. Each of it knows its place, so that it is taken out at once; a map of them
// would take several times as much.
type places[T any] []*T

// podList is pods in no order.
type podList = places[pod]

func onNode(p *pod) *int32      { return &p.onNode }
func inNamespace(p *pod) *int32 { return &p.inNamespace }
func ofAll(p *pod) *int32       { return &p.ofAll }
func ofKind(p *pod) *int32      { return &p.ofKind }

// add puts one at the end. at is where it keeps its place.
func (l *places[T]) add(p *T, at func(*T) *int32) {
	*at(p) = int32(len(*l))
	*l = append(*l, p)
}

// remove takes one out that is there: the last one takes its place.
func (l *places[T]) remove(p *T, at func(*T) *int32) {
	list := *l
	last := list[len(list)-1]
	list[*at(p)], *at(last) = last, *at(p)
	list[len(list)-1] = nil
	*l = list[:len(list)-1]
}
