package compile

import (
	"hash/maphash"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/shardsched/shardsched/internal/lru"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// TestHashesThatCollide compiles pods whose signatures and settings have few hashes: each gets its
// own query, and two have the same id only where they ask the same.
func TestHashesThatCollide(t *testing.T) {
	images, prof, seed := still{"app:v1": 500 * mi}, DefaultProfile("x"), maphash.MakeSeed()
	rapid.Check(t, func(t *rapid.T) {
		c := New()
		bits := rapid.SampledFrom([]uint64{0, 1, 0xff}).Draw(t, "bits")
		c.hash = func(b []byte) uint64 { return maphash.Bytes(seed, b) & bits }
		asked := map[uint64]string{}
		for range rapid.IntRange(2, 40).Draw(t, "pods") {
			p := drawPod(t)
			got, want := mustClass(t, c, p, prof, images), mustClass(t, New(), p, prof, images)
			if definition(got) != definition(want) {
				t.Fatalf("query: want %v, got %v", want.Query, got.Query)
			}
			if before, known := asked[got.ID()]; known && before != definition(got) {
				t.Fatalf("id %x: of two queries, one of them %v", got.ID(), got.Query)
			}
			asked[got.ID()] = definition(got)
		}
	})
}

// TestIDsAreNotGivenOutAgain forgets queries: one that comes again gets another id, never one that stood
// for another query.
func TestIDsAreNotGivenOutAgain(t *testing.T) {
	x := identities{numbers: lru.New[digest, uint64](2, 2*lru.EntryBytes, nil)}
	id := func(node string, u use) uint64 {
		q := &pb.Query{NodeName: node}
		size, err := x.identify(q, u)
		if want := proto.Size(&pb.Query{NodeName: node}); err != nil || size != want {
			t.Fatalf("size of the query for %s: want %d, got %d and error %v", node, want, size, err)
		}
		return q.ClassId
	}
	got := []uint64{id("a", asAsked), id("a", asAsked), id("a", asBase), id("b", asAsked), id("a", asAsked), id("a", asAsked)}
	if want := []uint64{1, 1, 2, 3, 4, 4}; !slices.Equal(got, want) {
		t.Errorf("ids: want %v, got %v", want, got)
	}
}
