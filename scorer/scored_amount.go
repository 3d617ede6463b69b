package scorer

// Label is the value that a row's node has for a label key.
func (t *Table) Label(row uint32, key string) (value string, has bool) {
	return t.labels.lookup(row, key)
}

// ScoredAmount is Amount as NodeResourcesFit scores it: of cpu and memory, pods request the defaults where they name none.
func (t *Table) ScoredAmount(row uint32, resource string) (allocatable, requested int64) {
	ref := newResourceRef(resource)
	r := t.resource(ref)
	if r == nil {
		return 0, 0
	}
	if ref.fixed == cpu || ref.fixed == memory {
		return r.allocatable.at(row), t.nonZero[ref.fixed].at(row)
	}
	return r.allocatable.at(row), r.requested.at(row)
}
