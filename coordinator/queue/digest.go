package queue

import (
	"encoding/binary"

	"github.com/cespare/xxhash/v2"

	"github.com/shardsched/shardsched/coordinator/selector"
)

// digest makes a fingerprint of texts. What is written is told apart by its length, so that
// no two lists of texts are the same.
type digest struct {
	buf []byte
}

func (d *digest) text(s string) { d.buf = selector.AppendText(d.buf, s) }

func (d *digest) flag(b bool) {
	if b {
		d.number(1)
	} else {
		d.number(0)
	}
}

func (d *digest) number(n uint64) { d.buf = binary.AppendUvarint(d.buf, n) }

// list writes texts with their number.
func (d *digest) list(texts []string) {
	d.number(uint64(len(texts)))
	for _, t := range texts {
		d.text(t)
	}
}

// labels writes a map by key.
func (d *digest) labels(m map[string]string) { d.buf = selector.AppendLabels(d.buf, m) }

// message writes an object of the Kubernetes API, whose encoding sorts its maps.
func (d *digest) message(m interface{ Marshal() ([]byte, error) }) {
	b, err := m.Marshal()
	if err != nil {
		b = nil // none of those that are written can fail
	}
	d.number(uint64(len(b)))
	d.buf = append(d.buf, b...)
}

func (d *digest) sum() uint64 { return xxhash.Sum64(d.buf) }
