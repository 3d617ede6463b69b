package fanout

import (
	"math"

	"github.com/cespare/xxhash/v2"
)

// Member is a worker as its registration describes it.
type Member struct {
	// ID is unique to one life of one worker process.
	ID string
	// Address is its host:port.
	Address string
	// Cores is its weight; 0 counts as 1.
	Cores   uint32
	Version string
	// OtherRules: it is of another version than this build, and not asked.
	OtherRules bool
}

// owners gives each shard to the replicas members that rank highest for it, as
// indices of members, first to last. It is rendezvous hashing weighted by cores:
// a member's rank for a shard depends on nothing but the two, so when one joins
// or leaves only the shards that it takes or leaves move. Where refused says so,
// a member is passed over for a shard.
func owners(shards, replicas int, members []Member, refused func(shard uint32, member int) bool) [][]int {
	seeds := make([]uint64, len(members))
	for i := range members {
		seeds[i] = xxhash.Sum64String(members[i].ID)
	}
	replicas = min(replicas, len(members))
	flat := make([]int, shards*replicas)
	ranks := make([]float64, 0, replicas+1)
	out := make([][]int, shards)
	for s := range out {
		best := flat[s*replicas : s*replicas : (s+1)*replicas]
		ranks = ranks[:0]
		for m := range members {
			if refused(uint32(s), m) {
				continue
			}
			best, ranks = insert(best, ranks, members, m, rank(seeds[m], uint32(s), members[m].Cores))
		}
		out[s] = best
	}
	return out
}

// insert puts member m in its place among the best, which has no more elements than
// its capacity.
func insert(best []int, ranks []float64, members []Member, m int, r float64) ([]int, []float64) {
	at := len(best)
	for at > 0 && (r < ranks[at-1] || r == ranks[at-1] && members[m].ID < members[best[at-1]].ID) {
		at--
	}
	if at == cap(best) {
		return best, ranks
	}
	if len(best) < cap(best) {
		best, ranks = append(best, 0), append(ranks, 0)
	}
	copy(best[at+1:], best[at:])
	copy(ranks[at+1:], ranks[at:])
	best[at], ranks[at] = m, r
	return best, ranks
}

// rank is lower the better. It is the time of an exponential clock whose rate is
// the weight: the member whose clock rings first has the shard, with a
// probability of its weight over all weights.
func rank(seed uint64, shard, cores uint32) float64 {
	h := mix(seed ^ mix(uint64(shard)+0x9e3779b97f4a7c15))
	u := (float64(h>>11) + 0.5) / (1 << 53) // in (0, 1)
	return -math.Log(u) / float64(max(cores, 1))
}

// mix is a bijection that spreads every bit over all (the finaliser of
// MurmurHash3).
func mix(x uint64) uint64 {
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	x *= 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}
