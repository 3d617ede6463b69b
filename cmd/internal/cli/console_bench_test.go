package cli

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"syscall"
	"testing"
	"time"

	"github.com/shardsched/shardsched/cmd/internal/console"
	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/internal/testkit/build"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// BenchmarkConsole asks for pages of clusters in which each node has three pods, and 400 more find no place. Every page is asked of
// the scheduler anew: nobody else looks. A page's time is all that it takes of the process, the loop's part included, for nothing else runs.
func BenchmarkConsole(b *testing.B) {
	for _, nodes := range []int{50_000, 100_000} {
		b.Run(fmt.Sprintf("nodes=%d", nodes), func(b *testing.B) { benchmarkConsole(b, nodes) })
	}
}

func benchmarkConsole(b *testing.B, nodes int) {
	all := &objects.Snapshot{}
	for i := range nodes {
		name := fmt.Sprintf("node-%06d", i)
		all.Nodes = append(all.Nodes, build.Node(name).CPU("16").Memory("64Gi").Pods("110").Zone(fmt.Sprintf("zone-%d", i%3)).Obj())
		for j := range 3 {
			p := build.Pod(fmt.Sprintf("web-%d-%d", i, j)).Label("app", "web").Request("cpu", "2").Node(name).Obj()
			objects.Default(p)
			all.Pods = append(all.Pods, p)
		}
	}
	for i := range 400 {
		p := build.Pod(fmt.Sprintf("large-%d", i)).Label("app", "large").Request("cpu", "32").Obj()
		objects.Default(p)
		all.Pods = append(all.Pods, p)
	}
	cfg, err := simulation{sharding: Sharding{Cluster: "bench"}}.scheduler(newRegistry(), nodes)
	if err != nil {
		b.Fatal(err)
	}
	w, err := newWorld(b.Context(), "bench", cfg, all)
	if err != nil {
		b.Fatal(err)
	}
	defer w.end()
	if err := watchUntilIdle(b.Context(), w.Scheduler, func(*pb.Summary) {}); err != nil {
		b.Fatal(err)
	}
	for _, page := range []string{
		"", "cluster", "cluster?tell=score&pod=default/large-0", "pending", "pod?namespace=default&name=large-0", "decisions", "workers", "plugins",
	} {
		b.Run("page="+page, func(b *testing.B) {
			var taken time.Duration
			for b.Loop() {
				b.StopTimer()
				c, err := console.New(console.Config{Conn: w.conn}) // of an own, which has no answer yet
				if err != nil {
					b.Fatal(err)
				}
				r := httptest.NewRequest(http.MethodGet, console.Path+page, nil)
				out := httptest.NewRecorder()
				before := processorTime(b)
				b.StartTimer()
				c.ServeHTTP(out, r)
				taken += processorTime(b) - before
				if out.Code != http.StatusOK {
					b.Fatalf("got %d: %s", out.Code, out.Body)
				}
				b.ReportMetric(float64(out.Body.Len()), "B/page")
			}
			b.ReportMetric(float64(taken.Microseconds())/1000/float64(b.N), "cpu-ms/page")
		})
	}
}

// processorTime is what the process has taken so far.
func processorTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
