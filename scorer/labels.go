package scorer

import (
	"encoding/binary"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// labelIndex holds the labels of all rows: a column for each key. Which keys a row
// has is interned, for nodes mostly have the same ones.
type labelIndex struct {
	byKey   map[string]uint32
	columns []*labelColumn // nil: a freed column
	free    []uint32
	// keySets are lists of columns in the order of their keys; rowKeys is the list
	// of each row.
	keySets interned[[]uint32]
	rowKeys []uint32
	encoded []byte // scratch
}

// labelColumn is one key: its dictionary of values, and each row's value. Value 0
// is "no such label".
type labelColumn struct {
	key     string
	rows    ids
	values  []string
	refs    []uint32
	byValue map[string]uint32
	free    []uint32
	text    int64
}

func newLabelIndex() labelIndex {
	return labelIndex{byKey: map[string]uint32{}, keySets: newInterned[[]uint32]()}
}

// column finds a key's column; nil where no row has the key.
func (x *labelIndex) column(key string) *labelColumn {
	if i, ok := x.byKey[key]; ok {
		return x.columns[i]
	}
	return nil
}

// set gives a row its labels, instead of those it had.
func (x *labelIndex) set(row uint32, labels []*pb.Label, capacity int) {
	x.encoded = x.encoded[:0]
	for _, l := range labels {
		i := x.open(l.GetKey())
		x.columns[i].set(row, l.GetValue(), capacity)
		x.encoded = binary.LittleEndian.AppendUint32(x.encoded, i)
	}
	before := x.rowKeys[row]
	x.rowKeys[row] = x.keySets.acquire(x.encoded, func() []uint32 { return decodeList(x.encoded) })
	if x.rowKeys[row] != before {
		x.dropOthers(row, x.keySets.contents[before], x.keySets.contents[x.rowKeys[row]])
	}
	x.keySets.release(before)
}

// dropOthers takes from a row the labels of those columns of before that are not in
// now. Both are in the order of their keys.
func (x *labelIndex) dropOthers(row uint32, before, now []uint32) {
	for _, i := range before {
		for len(now) > 0 && x.columns[now[0]].key < x.columns[i].key {
			now = now[1:]
		}
		if len(now) > 0 && now[0] == i {
			continue
		}
		x.columns[i].unset(row)
		x.closeIfEmpty(i)
	}
}

// open finds a key's column or begins one.
func (x *labelIndex) open(key string) uint32 {
	if i, ok := x.byKey[key]; ok {
		return i
	}
	var i uint32
	if last := len(x.free) - 1; last >= 0 {
		i, x.free = x.free[last], x.free[:last]
	} else {
		i = uint32(len(x.columns))
		x.columns = append(x.columns, nil)
	}
	x.columns[i] = &labelColumn{key: key, values: make([]string, 1), refs: make([]uint32, 1), byValue: map[string]uint32{}}
	x.byKey[key] = i
	return i
}

func (x *labelIndex) closeIfEmpty(i uint32) {
	c := x.columns[i]
	if c.rows.used > 0 {
		return
	}
	delete(x.byKey, c.key)
	x.columns[i] = nil
	x.free = append(x.free, i)
}

// appendTo appends the row's labels, sorted by key.
func (x *labelIndex) appendTo(row uint32, labels []*pb.Label) []*pb.Label {
	for _, i := range x.keySets.contents[x.rowKeys[row]] {
		c := x.columns[i]
		labels = append(labels, &pb.Label{Key: c.key, Value: c.values[c.rows.at(row)]})
	}
	return labels
}

func (x *labelIndex) grow(capacity int) {
	x.rowKeys = lengthened(x.rowKeys, capacity)
	for _, c := range x.columns {
		if c != nil {
			c.rows.grow(capacity)
		}
	}
}

func (x *labelIndex) memory() int64 {
	n := x.keySets.memory() + int64(4*cap(x.rowKeys)+8*cap(x.columns))
	for _, c := range x.columns {
		if c != nil {
			n += columnBytes + int64(len(c.key)) + c.rows.memory() + c.text + int64(len(c.values))*(mapEntryBytes+16+4)
		}
	}
	return n
}

// columnBytes is about what a label column takes besides rows and values.
const columnBytes = 400

// set gives a row a value.
func (c *labelColumn) set(row uint32, value string, capacity int) {
	id, known := c.byValue[value]
	if known && c.rows.at(row) == id {
		return
	}
	if !known {
		id = c.newValue(value)
	}
	c.refs[id]++
	c.letGo(c.rows.set(row, id, capacity))
}

// unset takes the row's value.
func (c *labelColumn) unset(row uint32) { c.letGo(c.rows.set(row, 0, 0)) }

func (c *labelColumn) newValue(value string) uint32 {
	var id uint32
	if last := len(c.free) - 1; last >= 0 {
		id, c.free = c.free[last], c.free[:last]
	} else {
		id = uint32(len(c.values))
		c.values, c.refs = append(c.values, ""), append(c.refs, 0)
	}
	c.values[id] = value
	c.byValue[value] = id
	c.text += int64(len(value))
	return id
}

func (c *labelColumn) letGo(id uint32) {
	if id == 0 {
		return
	}
	if c.refs[id]--; c.refs[id] > 0 {
		return
	}
	c.text -= int64(len(c.values[id]))
	delete(c.byValue, c.values[id])
	c.values[id] = ""
	c.free = append(c.free, id)
}

// lookup is the row's value for a key.
func (x *labelIndex) lookup(row uint32, key string) (value string, present bool) {
	c := x.column(key)
	if c == nil {
		return "", false
	}
	id := c.rows.at(row)
	return c.values[id], id != 0
}

func decodeList(b []byte) []uint32 {
	list := make([]uint32, len(b)/4)
	for i := range list {
		list[i] = binary.LittleEndian.Uint32(b[4*i:])
	}
	return list
}
