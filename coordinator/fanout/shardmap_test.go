package fanout

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// anybody refuses nothing.
func anybody(uint32, int) bool { return false }

// named gives the shards out and names the owners.
func named(shards, replicas int, members []Member) [][]string {
	out := make([][]string, shards)
	for s, list := range owners(shards, replicas, members, anybody) {
		for _, m := range list {
			out[s] = append(out[s], members[m].ID)
		}
	}
	return out
}

func drawMembers(t *rapid.T) []Member {
	n := rapid.IntRange(0, 9).Draw(t, "members")
	members := make([]Member, n)
	for i := range members {
		members[i] = Member{ID: fmt.Sprintf("w%d", i), Cores: rapid.Uint32Range(0, 64).Draw(t, "cores")}
	}
	return members
}

func TestEveryShardHasDistinctOwnersWhateverTheOrderOfMembers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		members := drawMembers(t)
		shards, replicas := rapid.IntRange(1, 80).Draw(t, "shards"), rapid.IntRange(1, 4).Draw(t, "replicas")
		got := named(shards, replicas, members)
		for s, list := range got {
			if want := min(replicas, len(members)); len(list) != want {
				t.Fatalf("shard %d has owners %v, want %d", s, list, want)
			}
			if distinct := slices.Compact(slices.Sorted(slices.Values(list))); len(distinct) != len(list) {
				t.Fatalf("shard %d has owners %v, want each once", s, list)
			}
		}
		if diff := cmp.Diff(got, named(shards, replicas, rapid.Permutation(members).Draw(t, "order"))); diff != "" {
			t.Fatalf("the owners depend on the order of members (-one +other):\n%s", diff)
		}
	})
}

func TestOnlyTheShardsOfTheMemberThatJoinsOrLeavesMove(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		members := append(drawMembers(t), Member{ID: "joiner", Cores: rapid.Uint32Range(1, 64).Draw(t, "cores")})
		shards, replicas := rapid.IntRange(1, 80).Draw(t, "shards"), rapid.IntRange(1, 3).Draw(t, "replicas")
		without := named(shards, replicas, members[:len(members)-1])
		with := named(shards, replicas, members)
		for s := range with {
			at := slices.Index(with[s], "joiner")
			if at < 0 {
				if diff := cmp.Diff(without[s], with[s]); diff != "" {
					t.Fatalf("shard %d is not the joiner's and moved (-without +with):\n%s", s, diff)
				}
				continue
			}
			rest := slices.Delete(slices.Clone(with[s]), at, at+1)
			if want := without[s][:len(rest)]; !slices.Equal(rest, want) {
				t.Fatalf("shard %d beside the joiner: got %v, want the first of %v", s, rest, without[s])
			}
		}
	})
}

func TestSharesFollowCores(t *testing.T) {
	const shards = 40000
	members := []Member{{ID: "a", Cores: 1}, {ID: "b", Cores: 2}, {ID: "c", Cores: 8}, {ID: "d", Cores: 0}}
	count := map[string]int{}
	for _, list := range named(shards, 1, members) {
		count[list[0]]++
	}
	for _, m := range members {
		want := float64(max(m.Cores, 1)) / 12
		if got := float64(count[m.ID]) / shards; math.Abs(got-want) > 0.01 {
			t.Errorf("member %s with %d of 12 cores: got a share of %.3f, want %.3f", m.ID, m.Cores, got, want)
		}
	}
}

func TestARefusedShardGoesToTheNextInTheRanking(t *testing.T) {
	members := []Member{{ID: "a", Cores: 4}, {ID: "b", Cores: 4}, {ID: "c", Cores: 4}}
	ranking := owners(16, 3, members, anybody)
	got := owners(16, 2, members, func(shard uint32, m int) bool { return shard == 5 && m == ranking[5][0] })
	for s := range got {
		want := ranking[s][:2]
		if s == 5 {
			want = ranking[s][1:]
		}
		if !slices.Equal(got[s], want) {
			t.Errorf("owners of shard %d: got %v, want %v", s, got[s], want)
		}
	}
}

func BenchmarkOwners(b *testing.B) {
	members := make([]Member, 32)
	for i := range members {
		members[i] = Member{ID: fmt.Sprintf("worker-%d", i), Cores: 16}
	}
	b.ReportAllocs()
	for b.Loop() {
		owners(256, 2, members, anybody)
	}
}
