package record

import (
	"bufio"
	"errors"
	"fmt"
	"io"

	"google.golang.org/protobuf/encoding/protodelim"

	"github.com/shardsched/shardsched/coordinator/objects"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// maxRecord bounds one record: an object, with room to spare.
const maxRecord = 16 << 20

// ErrCutOff says that a record ends in the middle: who wrote it was killed. What was read is
// whole as far as it goes.
var ErrCutOff = errors.New("the record is cut off")

// Reader reads a record.
type Reader struct {
	in    counting
	n     int
	begun bool
}

// counting counts the bytes that are read.
type counting struct {
	*bufio.Reader
	n int64
}

func (c *counting) Read(b []byte) (n int, err error) {
	n, err = c.Reader.Read(b)
	c.n += int64(n)
	return n, err
}

func (c *counting) ReadByte() (byte, error) {
	b, err := c.Reader.ReadByte()
	if err == nil {
		c.n++
	}
	return b, err
}

// NewReader reads from in.
func NewReader(in io.Reader) *Reader {
	return &Reader{in: counting{Reader: bufio.NewReaderSize(in, 1<<18)}}
}

// Offset is where the next record begins, in bytes from the first; after an error it is nowhere.
func (r *Reader) Offset() int64 { return r.in.n }

// Next is the next record, checked; io.EOF: there is none, ErrCutOff: it is not whole.
func (r *Reader) Next() (*pb.Record, error) {
	var out pb.Record
	err := protodelim.UnmarshalOptions{MaxSize: maxRecord}.UnmarshalFrom(&r.in, &out)
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		return nil, fmt.Errorf("record %d: %w", r.n+1, ErrCutOff)
	case errors.Is(err, io.EOF):
		return nil, io.EOF
	}
	r.n++
	if err == nil {
		err = out.Validate()
	}
	if err != nil {
		return nil, fmt.Errorf("record %d: %w", r.n, err)
	}
	if r.begun = r.begun || out.GetBegin() != nil; !r.begun {
		return nil, fmt.Errorf("record %d: it comes before any begin", r.n)
	}
	return &out, nil
}

// Object is the object of a change, nil where it is deleted; Objects are those that a
// decision assumed, or that it was taken back with.
func Object(c *pb.RecordChange) (objects.Object, error) {
	if len(c.GetRaw()) == 0 {
		return nil, nil
	}
	obj, err := objects.Decode(c.GetRaw())
	if err != nil {
		return nil, err
	}
	if got, want := objects.RefOf(obj), RefOf(c); got != want {
		return nil, fmt.Errorf("the change of %s holds %s", want, got)
	}
	return obj, nil
}

// Objects decodes a list of objects.
func Objects(raw [][]byte) ([]objects.Object, error) {
	out := make([]objects.Object, len(raw))
	for i := range raw {
		var err error
		if out[i], err = objects.Decode(raw[i]); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// RefOf names the object of a change.
func RefOf(c *pb.RecordChange) objects.Ref {
	return objects.Ref{Kind: objects.Kind(c.GetRef().GetKind()), Namespace: c.GetRef().GetNamespace(), Name: c.GetRef().GetName()}
}
