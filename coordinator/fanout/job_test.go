package fanout

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
	"github.com/shardsched/shardsched/scorer"
)

func drawUsage(t *rapid.T) *pb.PodUsage {
	amount := rapid.Int64Range(0, 1<<62)
	u := &pb.PodUsage{
		Requests: &pb.Resources{
			MilliCpu: amount.Draw(t, "cpu"), MemoryBytes: amount.Draw(t, "memory"), EphemeralStorageBytes: amount.Draw(t, "storage"),
		},
		NonZeroMilliCpu: amount.Draw(t, "cpu"), NonZeroMemoryBytes: amount.Draw(t, "memory"),
	}
	for range rapid.IntRange(0, 3).Draw(t, "scalars") {
		u.Requests.Scalars = append(u.Requests.Scalars, &pb.ScalarResource{Name: rapid.String().Draw(t, "name"), Quantity: amount.Draw(t, "quantity")})
	}
	for range rapid.IntRange(0, 3).Draw(t, "ports") {
		u.HostPorts = append(u.HostPorts, &pb.HostPort{Ip: rapid.String().Draw(t, "ip"), Protocol: pb.Protocol_PROTOCOL_SCTP, Port: 65535})
	}
	return u
}

func TestDeltaBytesNeverFallShort(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := &pb.Delta{Row: rapid.Uint32().Draw(t, "row"), Decision: rapid.Uint64().Draw(t, "decision")}
		switch rapid.IntRange(0, 3).Draw(t, "kind") {
		case 0:
			d.Change = &pb.Delta_AddPod{AddPod: drawUsage(t)}
		case 1:
			d.Change = &pb.Delta_RemovePod{RemovePod: drawUsage(t)}
		case 2:
			d.Change = &pb.Delta_SetNode{SetNode: &pb.Node{Name: rapid.String().Draw(t, "name")}}
		default:
			d.Change = &pb.Delta_RemoveNode{RemoveNode: &pb.RemoveNode{}}
		}
		// In a list a message has its tag and its length before it.
		in := proto.Size(&pb.ShardDeltas{Deltas: []*pb.Delta{d}})
		if got := deltaBytes(d); got < in {
			t.Fatalf("got %d for a delta of %d bytes: %v", got, in, d)
		}
	})
}

func TestGroupsKeepOrderAndFitARequest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		j := &job{shards: make([]shardJob, rapid.IntRange(0, 40).Draw(t, "shards"))}
		for i := range j.shards {
			j.shards[i] = shardJob{shard: uint32(i), bytes: rapid.IntRange(0, snapshotOver).Draw(t, "bytes")}
		}
		next := uint32(0)
		for _, g := range j.groups() {
			bytes := 0
			for _, s := range g {
				if s.shard != next {
					t.Fatalf("got shard %d, want %d", s.shard, next)
				}
				next++
				bytes += s.bytes
			}
			if bytes > deltaBudget {
				t.Fatalf("got a group of %d bytes, want at most %d", bytes, deltaBudget)
			}
		}
		if int(next) != len(j.shards) {
			t.Fatalf("got %d shards in groups, want %d", next, len(j.shards))
		}
	})
}

func TestARunOfClassesFitsItsBudgets(t *testing.T) {
	q := &question{}
	j := &job{ask: q}
	big := &pb.NameSet{Names: []string{strings.Repeat("n", queryBudget/4)}}
	for i := range uint64(10) {
		q.classes = append(q.classes, &pb.ClassRequest{ClassId: i + 1})
		j.candidates = append(j.candidates, 10)
		query := &pb.Query{ClassId: i + 1, Narrowed: big}
		q.definitions = append(q.definitions, definition{query: query, bytes: proto.Size(query)})
	}
	runs := func(rows int, new func(uint64) bool) []int {
		var ends []int
		for from := 0; from < len(q.classes); {
			from = j.until(from, rows, new)
			ends = append(ends, from)
		}
		return ends
	}
	known, unknown := func(uint64) bool { return false }, func(uint64) bool { return true }
	if got, want := runs(100, known), []int{10}; !slices.Equal(got, want) {
		t.Errorf("all known: got runs to %v, want %v", got, want)
	}
	if got, want := runs(100, unknown), []int{3, 6, 9, 10}; !slices.Equal(got, want) {
		t.Errorf("a quarter of the budget each, and a little: got runs to %v, want %v", got, want)
	}
	for i := range j.candidates {
		j.candidates[i] = 1 << 16
	}
	if got, want := runs(100_000, known), []int{3, 6, 9, 10}; !slices.Equal(got, want) {
		t.Errorf("answers of a quarter of the budget: got runs to %v, want %v", got, want)
	}
	if got, want := runs(10_000_000, known), []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}; !slices.Equal(got, want) {
		t.Errorf("answers over the budget: got runs to %v, want them one by one %v", got, want)
	}
}

func TestChunksAreBelowTheLimitAndMakeTheTable(t *testing.T) {
	table := scorer.NewTable(3)
	for i := range uint32(3000) {
		n := &pb.Node{
			Name: fmt.Sprintf("node-%d", i), Allocatable: &pb.Resources{MilliCpu: 1000}, AllowedPods: 10,
			Labels: []*pb.Label{{Key: "long", Value: strings.Repeat("x", 1000+int(i)%2000)}},
		}
		if err := table.Apply(&pb.Delta{Row: i, Change: &pb.Delta_SetNode{SetNode: n}}); err != nil {
			t.Fatal(err)
		}
	}
	list := chunksOf(t, table)
	var rows []*pb.SnapshotRow
	for i, c := range list {
		if size := proto.Size(c); size > chunkBudget+4096 {
			t.Errorf("chunk %d has %d bytes, want about %d at the most", i, size, chunkBudget)
		}
		if (c.GetHeader() != nil) != (i == 0) {
			t.Errorf("chunk %d has header %v, want one in the first only", i, c.GetHeader())
		}
		if err := c.Validate(); err != nil {
			t.Errorf("chunk %d: %v", i, err)
		}
		rows = append(rows, c.GetRows()...)
	}
	if len(list) < 5 {
		t.Errorf("got %d chunks of 6 MB, want 5 or more", len(list))
	}
	h := list[0].GetHeader()
	if h.GetCluster() != "blue" || h.GetTerm() != 7 || h.GetShard() != 3 || h.GetGeneration() != 3000 {
		t.Errorf("got header %v", h)
	}
	loaded, err := scorer.LoadTable(h.GetShard(), h.GetGeneration(), rows, nil)
	if err != nil {
		t.Fatal(err)
	}
	if loaded.Nodes() != table.Nodes() || loaded.Generation() != table.Generation() {
		t.Errorf("got %d nodes at generation %d, want %d at %d", loaded.Nodes(), loaded.Generation(), table.Nodes(), table.Generation())
	}
}

// chunksOf are all chunks of a table.
func chunksOf(t *testing.T, table *scorer.Table) []*pb.LoadSnapshotRequest {
	t.Helper()
	made := makeSnapshot("blue", 7, table)
	if made.err != nil {
		t.Fatal(made.err)
	}
	return made.chunks
}

func TestAnEmptyTableIsOneChunk(t *testing.T) {
	list := chunksOf(t, scorer.NewTable(3))
	if len(list) != 1 || list[0].GetHeader() == nil {
		t.Fatalf("got %v, want one chunk with a header", list)
	}
}

func FuzzDecodeMember(f *testing.F) {
	value, err := proto.Marshal(&pb.WorkerRegistration{Id: "w", Address: "h:1", Cores: 3, Version: "v"})
	if err != nil {
		f.Fatal(err)
	}
	f.Add("w", value)
	f.Add("w", []byte(nil))
	f.Add("", []byte("\x0a\x01"))
	f.Fuzz(func(t *testing.T, id string, value []byte) {
		m, err := decodeMember(id, value)
		if err == nil && (m.ID != id || m.Address == "") {
			t.Fatalf("got %+v for id %q, want that id and an address", m, id)
		}
	})
}

// What a worker has got meanwhile is not sent, and counts no more.
func TestDeltasThatAWorkerHasGotMeanwhile(t *testing.T) {
	deltas := []*pb.Delta{{Row: 1, Change: &pb.Delta_AddPod{}}, {Row: 2, Change: &pb.Delta_RemoveNode{}}, {Row: 3, Change: &pb.Delta_AddPod{}}}
	j := shardJob{base: 7, target: 10, deltas: deltas}
	for _, d := range deltas {
		j.bytes += deltaBytes(d)
	}
	j.skip(9)
	if j.base != 9 || len(j.deltas) != 1 || j.bytes != deltaBytes(deltas[2]) {
		t.Errorf("after two: got base %d, %d deltas of %d bytes, want 9, the last one", j.base, len(j.deltas), j.bytes)
	}
	if j.skip(10); j.base != 10 || len(j.deltas) != 0 || j.bytes != 0 { // catchUp would send nothing for ever else
		t.Errorf("after all: got base %d, %d deltas of %d bytes, want 10 and none", j.base, len(j.deltas), j.bytes)
	}
}
