package scorer

import features "golang.org/x/sys/cpu"

// vectors tells whether the machine has what the loops of cpu_memory_amd64.s are made of.
func vectors() bool { return features.X86.HasAVX512F && features.X86.HasAVX512DQ }

// scores is scoresGeneric, with vectors where the machine has them.
func (p *cpuMemory) scores(rows bitmap, from int, into []int64) {
	if !vectors() {
		p.scoresGeneric(rows, from, into)
		return
	}
	if n := len(rows); n > 0 {
		_ = p.balance[(from+n)*wordRows-1] // the columns are all as long
		scoresAVX512(p, from*wordRows, into[:n*wordRows])
	}
}

// ceilings is ceilingsGeneric, with vectors where the machine has them.
func (p *cpuMemory) ceilings(rows bitmap, from int, into []int64) {
	if !vectors() {
		p.ceilingsGeneric(rows, from, into)
		return
	}
	if n := len(rows); n > 0 {
		_ = p.shares.skew[(from+n)*wordRows-1] // the columns are all as long
		ceilingsAVX512(p, from*wordRows, into[:n*wordRows])
	}
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

// scoresAVX512 is scoresGeneric for all of the rows from one on; their number is a multiple of 8.
//
//go:noescape
func scoresAVX512(p *cpuMemory, from int, into []int64)

// ceilingsAVX512 is ceilingsGeneric for all of the rows from one on; their number is a multiple of 16.
//
//go:noescape
func ceilingsAVX512(p *cpuMemory, from int, into []int64)

// passAVX512 is passGeneric for all of the rows.
//
//go:noescape
func passAVX512(into []uint64, scores []int64, ties []uint64, score int64, tie uint64)
