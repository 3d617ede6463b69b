package fanout_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"testing"

	"github.com/shardsched/shardsched/coordinator/fanout"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
	"github.com/shardsched/shardsched/scorer"
	"github.com/shardsched/shardsched/worker"
)

// loopback starts n workers that listen on TCP.
func loopback(b *testing.B, n int) []fanout.Member {
	b.Helper()
	var members []fanout.Member
	for i := range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			b.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		served := make(chan error, 1)
		go func() {
			served <- worker.New(worker.Config{Cluster: "bench", Cores: 1}).Run(ctx, worker.RunConfig{Listener: l})
		}()
		b.Cleanup(func() {
			cancel()
			<-served
		})
		members = append(members, fanout.Member{ID: "w" + strconv.Itoa(i), Address: l.Addr().String(), Cores: 1})
	}
	return members
}

// BenchmarkEvaluate is one round over 4 workers on loopback: a few deltas, a few
// classes, few nodes, so that what it shows is the way there and back.
func BenchmarkEvaluate(b *testing.B) {
	for _, size := range []struct{ nodes, classes, deltas int }{{64, 1, 0}, {64, 4, 16}, {5000, 4, 64}, {5000, 64, 64}} {
		name := "nodes=" + strconv.Itoa(size.nodes) + "/classes=" + strconv.Itoa(size.classes) + "/deltas=" + strconv.Itoa(size.deltas)
		b.Run(name, func(b *testing.B) {
			c := newCluster(64)
			c.addNodes(b, 0, size.nodes)
			f := fanout.New(fanout.Config{Cluster: "bench", Term: 1, Shards: c})
			b.Cleanup(f.Close)
			f.SetMembers(loopback(b, 4))
			var queries []*pb.Query
			for i := range size.classes {
				queries = append(queries, query(uint64(i+1), int64(100+10*i), false))
			}
			reqs := requests(b, 40, false, queries...)
			c.wantSame(b, f, reqs)
			rng := rand.New(rand.NewPCG(1, 1))
			b.ReportAllocs()
			for b.Loop() {
				b.StopTimer()
				c.churn(b, rng, size.deltas)
				b.StartTimer()
				if _, err := f.Evaluate(b.Context(), reqs); err != nil {
					b.Fatal(err)
				}
			}
			if got := f.Stats(); got.LocalShards > 0 {
				b.Fatalf("got %d shards evaluated here, want none", got.LocalShards)
			}
		})
	}
}

// BenchmarkMerge reads and adds up the answers of some workers for one class of which 67 candidates are wanted: each
// worker names its share. Nothing is allocated.
func BenchmarkMerge(b *testing.B) {
	for _, workers := range []int{1, 2, 4, 8, 32} {
		b.Run(fmt.Sprintf("workers=%d", workers), func(b *testing.B) {
			const wanted, nodes = 67, 5000
			c := newCluster(workers)
			c.addNodes(b, 0, nodes)
			req := requests(b, wanted, false, query(1, 100, false))[0]
			var answers []*pb.EvaluateResponse
			var locates []scorer.Locate
			read := 0
			for _, table := range c.tables {
				share := fanout.Offers(wanted, table.Nodes(), nodes)
				var r scorer.Result
				r.Reset(req.Class.ID(), share)
				scorer.NewEvaluator(nil).Evaluate(table, req.Class, scorer.Options{Candidates: share}, &r)
				resp := &pb.EvaluateResponse{}
				r.AppendTo(resp, []uint32{table.Shard()})
				answers, read = append(answers, resp), read+len(resp.Groups.RowRefs)
				locates = append(locates, func(_ int, row uint32) scorer.Candidate { return table.Candidate(row, 0) })
			}
			var merged scorer.Result
			parts := make([]*scorer.Result, workers)
			for i := range parts {
				parts[i] = &scorer.Result{}
			}
			run := func() {
				merged.Reset(req.Class.ID(), wanted)
				for i, a := range answers {
					columns := a.Reader()
					parts[i].Reset(req.Class.ID(), wanted)
					parts[i].SetNext(a.Results[0], &columns, locates[i])
				}
				merged.MergeAll(parts)
			}
			run()
			b.ReportAllocs()
			for b.Loop() {
				run()
			}
			named := 0
			for i := range merged.Groups {
				named += len(merged.Groups[i].Candidates)
			}
			b.ReportMetric(float64(read), "read")
			b.ReportMetric(float64(named), "named")
		})
	}
}
