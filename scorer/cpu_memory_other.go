//go:build !amd64

package scorer

func (p *cpuMemory) addLeast(rows bitmap, from, to int, weight int64, into []int64) {
	p.addLeastGeneric(rows, from, to, weight, into)
}

func (p *cpuMemory) addBalance(rows bitmap, from, to int, weight int64, into []int64) {
	p.addBalanceGeneric(rows, from, to, weight, into)
}

func (b *bar) pass(rows bitmap, scores []int64, ties []uint64, into bitmap) {
	b.passGeneric(rows, scores, ties, into)
}
