package scorer

// MemoryBytes estimates what the table takes. It walks the columns, not the rows.
func (t *Table) MemoryBytes() int64 {
	const (
		tableBytes    = 2048
		resourceBytes = 200
		// bytes a row of the columns that every table has, without the fixed resources.
		rowBytes = 16 + 8 + 6*8 + 2*24
		portUses = 8 // bytes a row for lists of ports: most rows have few or none
	)
	n := int64(tableBytes) + int64(t.capacity)*(rowBytes+portUses) + int64(t.capacity)/4
	n += t.textBytes + int64(t.nodes)*mapEntryBytes
	for r := range t.resources {
		n += resourceBytes + r.allocatable.memory() + r.requested.memory() + 8*int64(r.rows)
	}
	return n + t.labels.memory() + t.annotations.memory() + t.taints.memory() + t.images.memory() +
		t.counters.memory() + t.traits.memory() + t.placed.memory() + t.derived.memory() + t.devices.memory()
}
