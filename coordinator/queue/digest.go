package queue

import (
	"crypto/sha256"
	"encoding/binary"

	"github.com/shardsched/shardsched/coordinator/selector"
)

// likeness tells pods apart by what is read of them; zero: by nothing. Pods of other tenants are
// among them, so nobody may be able to make two of them alike.
type likeness [sha256.Size]byte

// digest makes a likeness of texts. What is written is told apart by its length, so that
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

func (d *digest) sum() likeness { return sha256.Sum256(d.buf) }
