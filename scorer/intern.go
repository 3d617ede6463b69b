package scorer

// interned gives equal contents one number, and forgets a content when its last
// row lets go of it. Number 0 is the empty content and is always there.
type interned[T any] struct {
	byKey    map[string]uint32
	contents []T
	keys     []string
	refs     []uint32
	free     []uint32
	// text is the bytes of the keys.
	text int64
}

func newInterned[T any]() interned[T] {
	return interned[T]{byKey: map[string]uint32{}, contents: make([]T, 1), keys: make([]string, 1), refs: make([]uint32, 1)}
}

// acquire returns the number of the content with that key, building the content if it
// is new.
func (n *interned[T]) acquire(key []byte, build func() T) uint32 {
	if len(key) == 0 {
		return 0
	}
	if id, ok := n.byKey[string(key)]; ok {
		n.refs[id]++
		return id
	}
	var id uint32
	if last := len(n.free) - 1; last >= 0 {
		id, n.free = n.free[last], n.free[:last]
	} else {
		id = uint32(len(n.refs))
		var none T
		n.contents, n.keys, n.refs = append(n.contents, none), append(n.keys, ""), append(n.refs, 0)
	}
	n.contents[id], n.keys[id], n.refs[id] = build(), string(key), 1
	n.byKey[n.keys[id]] = id
	n.text += int64(len(key))
	return id
}

// hold takes hold of a content once more.
func (n *interned[T]) hold(id uint32) {
	if id != 0 {
		n.refs[id]++
	}
}

// release lets go of a content.
func (n *interned[T]) release(id uint32) {
	if id == 0 {
		return
	}
	if n.refs[id]--; n.refs[id] > 0 {
		return
	}
	n.text -= int64(len(n.keys[id]))
	delete(n.byKey, n.keys[id])
	var none T
	n.contents[id], n.keys[id] = none, ""
	n.free = append(n.free, id)
}

// memory estimates what the dictionary takes: the keys, their contents (about as
// long as the keys) and the bookkeeping.
func (n *interned[T]) memory() int64 {
	return 2*n.text + int64(len(n.refs))*(mapEntryBytes+16+24+4)
}

// mapEntryBytes is about what an entry of a map from string to a number takes, without
// the text.
const mapEntryBytes = 40
