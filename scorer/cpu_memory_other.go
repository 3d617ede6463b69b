//go:build !amd64

package scorer

func (p *cpuMemory) scores(rows bitmap, from int, into []int64) { p.scoresGeneric(rows, from, into) }

func (p *cpuMemory) ceilings(rows bitmap, from int, into []int64) {
	p.ceilingsGeneric(rows, from, into)
}

func (b *bar) pass(rows bitmap, scores []int64, ties []uint64, into bitmap) {
	b.passGeneric(rows, scores, ties, into)
}
