package compile

import (
	"encoding/binary"

	"github.com/shardsched/shardsched/coordinator/selector"
)

// writing is bytes that stand for what was written: every list and text is preceded by its
// length, so that nothing else runs together into the same.
type writing struct{ bytes []byte }

func (w *writing) count(n int) { w.bytes = binary.AppendUvarint(w.bytes, uint64(n)) }

func (w *writing) text(t string) {
	w.bytes = selector.AppendText(w.bytes, t)
}

func (w *writing) flag(f bool) {
	b := byte(0)
	if f {
		b = 1
	}
	w.bytes = append(w.bytes, b)
}
