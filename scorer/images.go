package scorer

import (
	"math/bits"
	"slices"
)

// imageIndex holds which images are on which rows, both ways round: a row's
// images, sorted by name, and an image's rows.
type imageIndex struct {
	byName map[string]uint32
	images []image
	free   []uint32
	ofRow  [][]uint32
	text   int64
}

// image is a name with the rows that have it: a sorted list, or a bitmap when that is
// smaller.
type image struct {
	name string
	list []uint32
	bits bitmap
	n    int
}

func newImageIndex() imageIndex { return imageIndex{byName: map[string]uint32{}} }

// find returns the image with that name, nil where no row has it.
func (x *imageIndex) find(name string) *image {
	if i, ok := x.byName[name]; ok {
		return &x.images[i]
	}
	return nil
}

// set gives a row its images, sorted by name, instead of those it had.
func (x *imageIndex) set(row uint32, names []string, capacity int) {
	before := x.ofRow[row]
	if x.same(before, names) {
		return
	}
	var now []uint32
	if len(names) > 0 {
		now = make([]uint32, 0, len(names))
	}
	for _, name := range names {
		i := x.open(name)
		now = append(now, i)
		x.images[i].add(row, capacity)
	}
	x.ofRow[row] = now
	for _, i := range before { // both lists are sorted by name
		for len(now) > 0 && x.images[now[0]].name < x.images[i].name {
			now = now[1:]
		}
		if len(now) == 0 || now[0] != i {
			x.drop(i, row)
		}
	}
}

func (x *imageIndex) same(have []uint32, names []string) bool {
	return slices.EqualFunc(have, names, func(i uint32, name string) bool { return x.images[i].name == name })
}

func (x *imageIndex) open(name string) uint32 {
	if i, ok := x.byName[name]; ok {
		return i
	}
	var i uint32
	if last := len(x.free) - 1; last >= 0 {
		i, x.free = x.free[last], x.free[:last]
	} else {
		i = uint32(len(x.images))
		x.images = append(x.images, image{})
	}
	x.images[i] = image{name: name}
	x.byName[name] = i
	x.text += int64(len(name))
	return i
}

func (x *imageIndex) drop(i, row uint32) {
	m := &x.images[i]
	m.remove(row)
	if m.n > 0 {
		return
	}
	delete(x.byName, m.name)
	x.text -= int64(len(m.name))
	*m = image{}
	x.free = append(x.free, i)
}

// has tells whether a row has an image.
func (m *image) has(row uint32) bool {
	if m.bits != nil {
		return m.bits.has(row)
	}
	_, ok := slices.BinarySearch(m.list, row)
	return ok
}

func (m *image) add(row uint32, capacity int) {
	if m.has(row) {
		return
	}
	m.n++
	if m.bits != nil {
		for len(m.bits) < words(capacity) {
			m.bits = append(m.bits, make(bitmap, words(capacity)-len(m.bits))...)
		}
		m.bits.add(row)
		return
	}
	i, _ := slices.BinarySearch(m.list, row)
	m.list = slices.Insert(m.list, i, row)
	if len(m.list)*32 > capacity {
		m.bits = make(bitmap, words(capacity))
		for _, r := range m.list {
			m.bits.add(r)
		}
		m.list = nil
	}
}

func (m *image) remove(row uint32) {
	if !m.has(row) {
		return
	}
	m.n--
	if m.bits != nil {
		m.bits.remove(row)
		return
	}
	i, _ := slices.BinarySearch(m.list, row)
	m.list = slices.Delete(m.list, i, i+1)
}

// addTo adds v to the number of each row of b that has the image.
func (m *image) addTo(into []int64, v int64, b bitmap) {
	for _, row := range m.list {
		if b.has(row) {
			into[row] += v
		}
	}
	for w, word := range m.bits[:min(len(m.bits), len(b))] {
		for word &= b[w]; word != 0; word &= word - 1 {
			into[w*wordRows+bits.TrailingZeros64(word)] += v
		}
	}
}

func (x *imageIndex) memory() int64 {
	const imageBytes = 16 + 24 + 24 + 8
	n := x.text + int64(len(x.images))*(imageBytes+mapEntryBytes) + int64(24*cap(x.ofRow))
	for i := range x.images {
		// Both ways round an entry takes four bytes.
		m := &x.images[i]
		n += int64(4*m.n + 4*cap(m.list) + 8*cap(m.bits))
	}
	return n
}
