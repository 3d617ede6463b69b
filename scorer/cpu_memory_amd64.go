package scorer

import features "golang.org/x/sys/cpu"

// vectors tells whether the machine has what the loops of cpu_memory_amd64.s are made of.
func vectors() bool { return features.X86.HasAVX512F && features.X86.HasAVX512DQ }

func (p *cpuMemory) addLeast(rows bitmap, from, to int, weight int64, into []int64) {
	if !vectors() {
		p.addLeastGeneric(rows, from, to, weight, into)
		return
	}
	from, to = from*wordRows, to*wordRows
	addLeastAVX512(into[from:to], p.usedA[from:to], p.allA[from:to], p.usedB[from:to], p.allB[from:to], p.requestA, p.requestB, weight)
}

func (p *cpuMemory) addBalance(rows bitmap, from, to int, weight int64, into []int64) {
	if !vectors() {
		p.addBalanceGeneric(rows, from, to, weight, into)
		return
	}
	from, to = from*wordRows, to*wordRows
	addBalanceAVX512(into[from:to], p.usedA[from:to], p.allA[from:to], p.usedB[from:to], p.allB[from:to], p.balance[from:to],
		p.requestA, p.requestB, weight)
}

func (b *bar) pass(rows bitmap, scores []int64, ties []uint64, into bitmap) {
	if !vectors() {
		b.passGeneric(rows, scores, ties, into)
		return
	}
	n := len(rows) * wordRows
	passAVX512(into[:len(rows)], scores[:n], ties[:n], b.score, b.tie)
	for w, word := range rows {
		into[w] &= word
	}
}

// addLeastAVX512 is addLeastGeneric for all of the rows; their number is a multiple of 8.
//
//go:noescape
func addLeastAVX512(into, usedA, allA, usedB, allB []int64, requestA, requestB, weight int64)

// addBalanceAVX512 is addBalanceGeneric for all of the rows; their number is a multiple of 8.
//
//go:noescape
func addBalanceAVX512(into, usedA, allA, usedB, allB []int64, balance []uint8, requestA, requestB, weight int64)

// passAVX512 is passGeneric for all of the rows.
//
//go:noescape
func passAVX512(into []uint64, scores []int64, ties []uint64, score int64, tie uint64)
