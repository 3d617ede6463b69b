package fanout

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// shared gives shards out, of whom kept names who has them, and names the owners.
func shared(shards, replicas int, members []Member, kept [][]string, refused func(uint32, int) bool) [][]string {
	var at [][]int
	if kept != nil {
		at = make([][]int, shards)
		for s, list := range kept {
			for _, id := range list {
				at[s] = append(at[s], slices.IndexFunc(members, func(m Member) bool { return m.ID == id }))
			}
		}
	}
	out := make([][]string, shards)
	for s, list := range share(shards, replicas, members, refused, at) {
		for _, m := range list {
			out[s] = append(out[s], members[m].ID)
		}
	}
	return out
}

// draw draws a question of shared without anybody that has shards yet.
func draw(t *rapid.T) (shards, replicas int, members []Member) {
	members = append(drawMembers(t), Member{ID: "last", Cores: rapid.Uint32Range(0, 64).Draw(t, "cores")})
	return rapid.IntRange(1, 80).Draw(t, "shards"), rapid.IntRange(1, 3).Draw(t, "replicas"), members
}

// firsts counts the shards that each member is first for.
func firsts(given [][]string) map[string]int {
	out := map[string]int{}
	for _, list := range given {
		if len(list) > 0 {
			out[list[0]]++
		}
	}
	return out
}

// mostOf is a member's share of the shards.
func mostOf(shards int, members []Member) map[string]int {
	out, cores := map[string]int{}, 0
	for _, m := range members {
		cores += int(max(m.Cores, 1))
	}
	for _, m := range members {
		out[m.ID] = (shards*int(max(m.Cores, 1)) + cores - 1) / cores
	}
	return out
}

func TestNobodyIsFirstForMoreThanItsShare(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		shards, replicas, members := draw(t)
		given := shared(shards, replicas, members, nil, anybody)
		for s, list := range given {
			if distinct := slices.Compact(slices.Sorted(slices.Values(list))); len(distinct) != min(replicas, len(members)) || len(list) != len(distinct) {
				t.Fatalf("shard %d has owners %v, want %d distinct ones", s, list, min(replicas, len(members)))
			}
		}
		most := mostOf(shards, members)
		for id, n := range firsts(given) {
			if n > most[id] {
				t.Fatalf("%s is first for %d of %d shards, want %d at the most", id, n, shards, most[id])
			}
		}
		order := rapid.Permutation(members).Draw(t, "order")
		if diff := cmp.Diff(given, shared(shards, replicas, order, nil, anybody)); diff != "" {
			t.Fatalf("the owners depend on the order of members (-one +other):\n%s", diff)
		}
		for s, list := range shared(shards, replicas, members, given, anybody) {
			if list[0] != given[s][0] {
				t.Fatalf("shard %d: got owners %v, had %v, though nobody came or went", s, list, given[s])
			}
		}
	})
}

func TestOnlyTheShardsOfAMemberThatLeavesGetAnotherFirst(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		shards, replicas, members := draw(t)
		before := shared(shards, replicas, members, nil, anybody)
		after := shared(shards, replicas, members[:len(members)-1], before, anybody)
		for s := range after {
			if first := before[s][0]; first != "last" && after[s][0] != first {
				t.Fatalf("shard %d: got owners %v, had %v, whose first has not left", s, after[s], before[s])
			}
		}
	})
}

func TestAMemberThatJoinsGetsItsShareFromThoseThatHaveTooMuch(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		shards, _, members := draw(t)
		before := shared(shards, 1, members[:len(members)-1], nil, anybody)
		after := shared(shards, 1, members, before, anybody)
		most, had := mostOf(shards, members), firsts(before)
		for id, n := range firsts(after) {
			if n > most[id] {
				t.Fatalf("%s is first for %d of %d shards, want %d at the most", id, n, shards, most[id])
			}
		}
		left := map[string]int{}
		for s := range after {
			if len(before[s]) > 0 && after[s][0] != before[s][0] {
				left[before[s][0]]++
			}
		}
		for id, n := range left {
			if n != had[id]-most[id] {
				t.Fatalf("%d shards have left %s, which had %d and is to have %d: want as many as are too many", n, id, had[id], most[id])
			}
		}
	})
}

func TestAMemberThatComesBackGetsWhatItHad(t *testing.T) {
	var members []Member
	for i := range 8 {
		members = append(members, Member{ID: fmt.Sprintf("w%d", i), Cores: 4})
	}
	first := shared(64, 1, members, nil, anybody)
	without := shared(64, 1, members[1:], first, anybody)
	back := shared(64, 1, members, without, anybody)
	same := 0
	for s := range back {
		if first[s][0] == "w0" && back[s][0] == "w0" {
			same++
		}
	}
	if got := firsts(back)["w0"]; same < 6 || got != 8 {
		t.Errorf("got %d shards, %d of them among its 8 before, want 8 and most of those", got, same)
	}
}

func TestARefusedShardGoesBeyondTheShareOfTheOnlyOneThatTakesIt(t *testing.T) {
	members := []Member{{ID: "a"}, {ID: "b"}, {ID: "c"}}
	given := shared(12, 2, members, nil, func(_ uint32, m int) bool { return members[m].ID != "b" })
	for s, list := range given {
		if !slices.Equal(list, []string{"b"}) {
			t.Errorf("shard %d has owners %v, want b alone", s, list)
		}
	}
	for s, list := range shared(12, 2, members, given, func(uint32, int) bool { return true }) {
		if len(list) > 0 {
			t.Errorf("shard %d, which all refuse, has owners %v, want none", s, list)
		}
	}
}

func TestACopyIsUsedBeforeAnotherIsMade(t *testing.T) {
	members := []Member{{ID: "a"}, {ID: "b"}, {ID: "c"}, {ID: "d"}}
	before := shared(40, 2, members, nil, anybody)
	after := shared(40, 2, members[:3], before, anybody)
	for s := range after {
		if before[s][0] == "d" && !slices.Contains(before[s], after[s][0]) && firsts(after)[before[s][1]] < 14 {
			t.Errorf("shard %d: %v is first now, of %v before: want the one that has a copy and room", s, after[s], before[s])
		}
	}
}

func BenchmarkShare(b *testing.B) {
	members := make([]Member, 512)
	for i := range members {
		members[i] = Member{ID: fmt.Sprintf("worker-%d", i), Cores: 1}
	}
	b.ReportAllocs()
	for b.Loop() {
		share(2048, 2, members, anybody, nil)
	}
}
