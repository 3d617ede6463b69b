package cache

// podList is pods in no order. Each knows its place, so that it is taken out at once; a map by UID
// would take several times as much.
type podList []*pod

// place is where a pod keeps its place in a list.
type place func(*pod) *int32

func onNode(p *pod) *int32      { return &p.onNode }
func inNamespace(p *pod) *int32 { return &p.inNamespace }
func ofAll(p *pod) *int32       { return &p.ofAll }

func (l *podList) add(p *pod, at place) {
	*at(p) = int32(len(*l))
	*l = append(*l, p)
}

// has tells whether a pod is in the list.
func (l podList) has(p *pod, at place) bool {
	i := int(*at(p))
	return i < len(l) && l[i] == p
}

// remove takes a pod out that is there: the last one takes its place.
func (l *podList) remove(p *pod, at place) {
	list := *l
	last := list[len(list)-1]
	list[*at(p)], *at(last) = last, *at(p)
	list[len(list)-1] = nil
	*l = list[:len(list)-1]
}
