package scorer

// shares are a row's amounts of cpu and memory as shares of what it has, in 21 bytes instead of 49: enough to tell
// what its scores are at most. Irregular rows have zeros.
type shares struct {
	// free is not in use, as LeastAllocated counts it; -1 or more. inverse is 1 / allocatable.
	free, inverse [2][]float32
	// skew is the share of cpu that is in use, less that of memory.
	skew []float32
}

func (s *shares) grow(capacity int) {
	for i := range s.free {
		s.free[i], s.inverse[i] = lengthened(s.free[i], capacity), lengthened(s.inverse[i], capacity)
	}
	s.skew = lengthened(s.skew, capacity)
}

// renew follows a change of a row.
func (s *shares) renew(t *Table, row uint32) {
	irregular := t.derived.irregular.has(row)
	var inUse [2]float64
	for i := range s.free {
		s.free[i][row], s.inverse[i][row] = 0, 0
		if all := t.fixed[i].allocatable.dense[row]; !irregular {
			s.free[i][row] = float32(max(float64(all-t.nonZero[i].dense[row])/float64(all), -1))
			s.inverse[i][row] = float32(1 / float64(all))
			inUse[i] = share(t.fixed[i].requested.dense[row], all)
		}
	}
	s.skew[row] = float32(inUse[cpu] - inUse[memory])
}

func (s *shares) memory() int64 {
	return int64(4 * (2*cap(s.free[cpu]) + 2*cap(s.inverse[cpu]) + cap(s.skew)))
}
