package journal

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"google.golang.org/protobuf/proto"
	"k8s.io/apimachinery/pkg/types"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

func commitOf(seq uint64, members ...string) *Commit {
	c := &Commit{PodGroup: types.NamespacedName{Namespace: "d", Name: "g"}, Term: 7, Seq: seq}
	for _, m := range members {
		uid, node, _ := strings.Cut(m, " ")
		c.Members = append(c.Members, &pb.GangMember{Uid: uid, Node: node})
	}
	return c
}

func written(c *Commit) (out []string) {
	for _, m := range c.Members {
		out = append(out, m.GetUid()+" "+m.GetNode())
	}
	return out
}

// A gang of the most members, with the longest names, is kept in parts that fit into a request.
func TestTheLargestCommitIsKeptInParts(t *testing.T) {
	var members []string
	for i := range 8192 {
		members = append(members, fmt.Sprintf("%036d %0253d", i, i))
	}
	c := commitOf(3, members...)
	parts := c.parts()
	if len(parts) != 10 || len(c.Keys) != 10 {
		t.Errorf("got %d parts under %d keys, want 10", len(parts), len(c.Keys))
	}
	for key, part := range parts {
		if n := proto.Size(part); n > commitBytes+1024 {
			t.Errorf("part %s has %d bytes, want %d about", key, n, commitBytes)
		}
		if err := part.Validate(); err != nil {
			t.Errorf("part %s: %v", key, err)
		}
	}
	all := Commits(parts)
	if len(all) != 1 || !slices.Equal(written(&all[0]), members) || !slices.Equal(all[0].Keys, c.Keys) {
		t.Fatalf("got %d commits, want one with all members in order", len(all))
	}
	delete(parts, c.Keys[4])
	if all = Commits(parts); len(all) != 1 || len(all[0].Members) != 0 || len(all[0].Keys) != 9 {
		t.Errorf("without a part: got %d members under %d keys, want none, and 9 keys to delete", len(all[0].Members), len(all[0].Keys))
	}
}

func TestTheNewestCommitTellsWhereAMemberGoes(t *testing.T) {
	parts := commitOf(3, "a n1", "b n2").parts()
	maps.Copy(parts, commitOf(20, "b n3", "c n4").parts())
	parts["d/g/odd"] = nil
	parts["odd"] = nil
	all := Commits(parts)
	if len(all) != 2 || all[0].PodGroup.Name != "" || len(all[0].Members) != 0 {
		t.Fatalf("got %+v, want what can't be read as a commit without members, and one more", all)
	}
	if got, want := strings.Join(written(&all[1]), ", "), "a n1, b n3, c n4"; got != want || len(all[1].Keys) != 3 {
		t.Errorf("got %s under keys %q, want %s, and the keys of all", got, all[1].Keys, want)
	}
}

// FuzzCommits reads parts whose bytes, and keys, are anybody's.
func FuzzCommits(f *testing.F) {
	raw, err := proto.Marshal(&pb.GangCommit{PodGroup: "d/g", Term: 1, Seq: 2, Parts: 1, Members: []*pb.GangMember{{Uid: "u", Node: "n"}}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add("d/g/0000000000000001-0000000000000002-0000", raw, "d/g/x", raw)
	f.Fuzz(func(t *testing.T, key string, a []byte, other string, b []byte) {
		parts := map[string]*pb.GangCommit{}
		members := 0
		for key, raw := range map[string][]byte{key: a, other: b} {
			x := &pb.GangCommit{}
			if proto.Unmarshal(raw, x) != nil || x.Validate() != nil {
				x = nil
			}
			parts[key] = x
			members += len(x.GetMembers())
		}
		keys := 0
		for _, c := range Commits(parts) {
			if keys += len(c.Keys); len(c.Members) > members {
				t.Errorf("got %d members of %d", len(c.Members), members)
			}
		}
		if keys != len(parts) {
			t.Errorf("got %d keys, want %d: each is to be deleted once", keys, len(parts))
		}
	})
}

// gangLedger keeps parts in memory, and fails when it is told to.
type gangLedger struct {
	mu     sync.Mutex
	kept   map[string]*pb.GangCommit
	writes []string
	fail   error
}

func (l *gangLedger) SaveGangs(_ context.Context, put map[string]*pb.GangCommit, del []string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.writes = append(l.writes, fmt.Sprintf("put %d, delete %d", len(put), len(del)))
	if l.fail != nil {
		return l.fail
	}
	maps.Copy(l.kept, put)
	for _, key := range del {
		delete(l.kept, key)
	}
	return nil
}

// runGangs runs a writer of commits in a bubble.
func runGangs(t *testing.T, play func(*gangLedger, *Gangs)) {
	synctest.Test(t, func(*testing.T) {
		l := &gangLedger{kept: map[string]*pb.GangCommit{}}
		g := NewGangs(l)
		ctx, cancel := context.WithCancel(quiet())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			g.Run(ctx)
		}()
		play(l, g)
		cancel()
		<-ended
	})
}

func (l *gangLedger) want(t *testing.T, when string, kept int, writes ...string) {
	t.Helper()
	synctest.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.kept) != kept || !slices.Equal(l.writes, writes) {
		t.Errorf("%s: got %d parts kept after writes %q, want %d after %q", when, len(l.kept), l.writes, kept, writes)
	}
}

func TestCommitsThatWaitShareAWrite(t *testing.T) {
	runGangs(t, func(l *gangLedger, g *Gangs) {
		var told []error
		a, b := commitOf(1, "a n1", "b n2"), commitOf(2, "c n1", "d n2")
		g.Put(a, func(err error) { told = append(told, err) })
		g.Put(b, func(err error) { told = append(told, err) })
		l.want(t, "at once", 2, "put 2, delete 0")
		if len(told) != 2 || told[0] != nil {
			t.Errorf("got told %v, want that both are kept", told)
		}
		g.Delete(a, b)
		l.want(t, "what is over has time", 2, "put 2, delete 0")
		elapse(every)
		l.want(t, "a little later", 0, "put 2, delete 0", "put 0, delete 2")
	})
}

func TestAWriteOfCommitsThatFailsIsToldAndDeletedLater(t *testing.T) {
	runGangs(t, func(l *gangLedger, g *Gangs) {
		l.fail = errors.New("no space")
		var told error
		a := commitOf(1, "a n1", "b n2")
		g.Put(a, func(err error) { told = err })
		l.want(t, "at once", 0, "put 1, delete 0")
		if told == nil {
			t.Error("got told of no error")
		}
		g.Delete(a)
		elapse(every)
		l.want(t, "while it rests", 0, "put 1, delete 0")
		elapse(every * longestRest)
		l.want(t, "after a rest", 0, "put 1, delete 0", "put 0, delete 1")
		l.mu.Lock()
		l.fail = nil
		l.mu.Unlock()
		elapse(every * longestRest)
		l.want(t, "after another", 0, "put 1, delete 0", "put 0, delete 1", "put 0, delete 1")
	})
}

func TestALeaderThatResignsDeletesWhatIsOver(t *testing.T) {
	var g *Gangs
	var l *gangLedger
	a := commitOf(1, "a n1", "b n2")
	runGangs(t, func(ledger *gangLedger, x *Gangs) {
		l, g = ledger, x
		g.Put(a, func(error) {})
		l.want(t, "at once", 1, "put 1, delete 0")
		g.Delete(a)
	})
	g.Farewell(quiet())
	if len(l.kept) > 0 {
		t.Errorf("got %d parts kept, want none", len(l.kept))
	}
}
