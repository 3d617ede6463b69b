package compile

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/shardsched/shardsched/internal/lru"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// keptIdentities is how many queries keep their ids: those of all classes that are kept, and of
// answers that outlive them.
const keptIdentities = 4 * keptClasses

// digest is that of a query and what it is for.
type digest [sha256.Size]byte

// use tells what a query is for. A class that counts nothing has the same query as its base, and
// still an answer of its own.
type use byte

const (
	asAsked use = iota
	asBase
)

// identities numbers queries. What a query says comes from pods, so equal queries are found by a
// digest that no author of pods can make collide. A number stands for one query for ever: a query
// that was not seen for long gets a new number.
type identities struct {
	numbers *lru.Cache[digest, uint64]
	last    uint64
	encoded []byte
}

func newIdentities() identities {
	return identities{numbers: lru.New[digest, uint64](keptIdentities, keptIdentities*lru.EntryBytes, nil)}
}

// identify gives a query without an id its id, and tells how long its encoding is.
func (x *identities) identify(q *pb.Query, u use) (size int, err error) {
	rest, size, err := x.rest(q, u)
	if err != nil {
		return 0, err
	}
	more, err := x.number(q, rest)
	return size + more, err
}

// rest is the digest of all that a query asks but its requests, which variants have in common. size is how long the encoding is.
func (x *identities) rest(q *pb.Query, u use) (d digest, size int, err error) {
	x.encoded = append(x.encoded[:0], byte(u))
	err = x.encode(q.With(nil, nil)) // q itself may be read by others
	return sha256.Sum256(x.encoded), len(x.encoded) - 1, err
}

// number gives a query its id, by its requests and the digest of the rest. size is how long the encoding of the requests is.
func (x *identities) number(q *pb.Query, rest digest) (size int, err error) {
	x.encoded = append(x.encoded[:0], rest[:]...)
	if q.Fit != nil {
		x.encoded = append(x.encoded, 1)
		if err := x.encode(q.Fit); err != nil {
			return 0, err
		}
	}
	x.encoded = binary.BigEndian.AppendUint64(x.encoded, uint64(len(x.encoded)))
	if q.Balanced != nil {
		x.encoded = append(x.encoded, 1)
		if err := x.encode(q.Balanced); err != nil {
			return 0, err
		}
	}
	key := digest(sha256.Sum256(x.encoded))
	id, known := x.numbers.Get(key)
	if !known {
		x.last++
		id = x.last
		x.numbers.Add(key, id, 0)
	}
	q.ClassId = id
	return len(x.encoded) - len(rest) - 8, nil
}

// encode appends a message to what is encoded: equal messages are equal bytes.
func (x *identities) encode(m proto.Message) (err error) {
	x.encoded, err = proto.MarshalOptions{Deterministic: true}.MarshalAppend(x.encoded, m)
	if err != nil {
		return fmt.Errorf("encode query: %w", err)
	}
	return nil
}
