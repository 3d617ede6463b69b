package compile

import (
	"crypto/sha256"
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
	x.encoded, err = proto.MarshalOptions{Deterministic: true}.MarshalAppend(append(x.encoded[:0], byte(u)), q)
	if err != nil {
		return 0, fmt.Errorf("encode query: %w", err)
	}
	key := digest(sha256.Sum256(x.encoded))
	id, known := x.numbers.Get(key)
	if !known {
		x.last++
		id = x.last
		x.numbers.Add(key, id, 0)
	}
	q.ClassId = id
	return len(x.encoded) - 1, nil
}
