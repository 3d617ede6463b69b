package console

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

func workersPage() page {
	return page{path: "workers", title: "Workers", live: true, show: showWorkers}
}

// workersShown is what the page shows.
type workersShown struct {
	Workers, Shards table
	Filters         filters
}

func showWorkers(v *visit) (any, error) {
	var workers []*pb.WorkerStatus
	var shards []*pb.ShardStatus
	g, ctx := errgroup.WithContext(v)
	g.Go(func() error {
		r, err := v.client.ListWorkers(ctx, &pb.ListWorkersRequest{})
		workers = r.GetWorkers()
		return err
	})
	g.Go(func() error {
		r, err := v.client.ListShards(ctx, &pb.ListShardsRequest{})
		shards = r.GetShards()
		return err
	})
	if err := g.Wait(); err != nil {
		return nil, err
	}
	return workersShown{Workers: v.workers(workers, shards), Shards: v.shards(shards), Filters: v.shardFilters(workers)}, nil
}

// behind adds up, for each worker, how many deltas it has not shown to have of the shards that it holds.
func behind(shards []*pb.ShardStatus) map[string]uint64 {
	deltas := map[string]uint64{}
	for _, s := range shards {
		for i, id := range s.GetWorkers() {
			if i < len(s.GetHeld()) && s.GetHeld()[i] < s.GetGeneration() {
				deltas[id] += s.GetGeneration() - s.GetHeld()[i]
			}
		}
	}
	return deltas
}

func (v *visit) workers(workers []*pb.WorkerStatus, shards []*pb.ShardStatus) table {
	lag := behind(shards)
	t := table{
		Caption: "Workers", Empty: "No worker: the coordinator's own tables answer.",
		Columns: []column{
			{Name: "Worker"}, {Name: "State"}, {Name: "Cores", Number: true},
			{Name: "Shards", Number: true, Help: "that it holds first"},
			{Name: "Requests", Number: true, Help: "that it answered"}, {Name: "Failures", Number: true, Help: "requests that failed"},
			{Name: "Hedges", Number: true, Help: "times that others were asked as well, because it was slow"},
			{Name: "Deltas behind", Number: true, Help: "of its shards; it gets them with the next question"},
			{Name: "Classes", Number: true, Help: "evaluations of a class"}, {Name: "Rows", Number: true, Help: "that its evaluations looked at"},
			{Name: "Busy", Number: true, Help: "time that it says it spent"}, {Name: "Snapshots", Number: true, Help: "that were sent to it"},
			{Name: "Version"},
		},
		Command: v.command("get", "workers"), Download: download("ListWorkers"),
	}
	for _, w := range workers {
		state := words("asked").marked("good")
		if why := w.GetQuarantine(); why != "" {
			state = words("not asked").marked("bad").below(why)
			if until := w.GetQuarantinedUntil(); until != nil {
				state.Detail += "; until " + v.clock(until.AsTime())
			}
		}
		t.Rows = append(t.Rows, []cell{
			head(w.GetId()).to(link("workers", "worker", w.GetId()) + "#shards").below(w.GetAddress()), state,
			number(count(w.GetCores())), number(count(w.GetShards())), number(count(w.GetRequests())), number(count(w.GetFailures())),
			number(count(w.GetHedges())), number(count(lag[w.GetId()])),
			number(count(w.GetClasses())), number(count(w.GetRows())), number(took(w.GetBusy())), number(count(w.GetSnapshots())),
			words(w.GetVersion()),
		})
	}
	return t
}

// coordinator is the word by which shards are filtered that no worker holds.
const coordinator = "coordinator"

func (v *visit) shards(shards []*pb.ShardStatus) table {
	t := table{
		Caption: "Shards", ID: "shards", Empty: "No shard is held so.",
		Columns: []column{{Name: "Shard", Number: true}, {Name: "Nodes", Number: true},
			{Name: "Generation", Number: true, Help: "how many deltas it has had"}, {Name: "Held by", Help: "first to last"}},
		Command: v.command("get", "shards"), Download: download("ListShards"),
	}
	worker := v.get("worker")
	for _, s := range shards {
		if worker != "" && !slices.Contains(s.GetWorkers(), worker) && (worker != coordinator || len(s.GetWorkers()) > 0) {
			continue
		}
		holders := slices.Clone(s.GetWorkers())
		for i := range holders {
			if i < len(s.GetHeld()) && s.GetHeld()[i] < s.GetGeneration() {
				holders[i] += fmt.Sprintf(" (at %s)", count(s.GetHeld()[i]))
			}
		}
		held := words(cmp.Or(strings.Join(holders, ", "), "the coordinator"))
		t.Rows = append(t.Rows, []cell{number(fmt.Sprint(s.GetShard())), number(count(s.GetNodes())), number(count(s.GetGeneration())), held})
	}
	return t
}

func (v *visit) shardFilters(workers []*pb.WorkerStatus) filters {
	pairs := []string{"", "any", coordinator, "the coordinator"}
	for _, w := range workers {
		pairs = append(pairs, w.GetId(), w.GetId())
	}
	f := filters{Label: "Filter shards", Fields: []field{choice("worker", "Held by", v.get("worker"), pairs...)}}
	if v.get("worker") != "" {
		f.Clear = link("workers")
	}
	return f
}
