package chaos

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/shardsched/shardsched/bench/cluster/controlplane/testbed"
	"github.com/shardsched/shardsched/bench/judge/audit"
)

var (
	nodes  = flag.Int("nodes", 500, "how many nodes the cluster has")
	pods   = flag.Int("pods", 2500, "how many pods are created while things are taken apart, and a few more")
	rounds = flag.Int("rounds", 1, "how often each thing is taken apart; after the first round in any order, and some at once")
	seed   = flag.Uint64("seed", 1, "the order of pods, of changes and of what is taken apart")
	only   = flag.String("only", "", "take apart only what has this in its description, rounds times")
	perSec = flag.Float64("rate", 80, "how many pods are created a second")
)

const (
	coordinators = 3
	workers      = 3
	// slack is what a takeover may take beyond the lease, on a machine on which takeoverSteps errands take less.
	slack = 2 * time.Second
	// takeoverSteps is how many errands take as long as all that a coordinator waits for etcd and the API server until it
	// has bound a pod, from the end of another's lease on: twice as long, for the slowest of them.
	takeoverSteps = 8
)

func TestNothingIsLostWhenEachPartIsKilled(t *testing.T) {
	t.Logf("seed %d", *seed)
	s := newChaosCluster(t, testbed.Config{
		Durable: true, OwnEtcd: true, CoordinatorTokens: tokens,
		// All that ever was is evidence.
		APIServerArgs: []string{"--etcd-compaction-interval=0", "--audit-log-maxsize=100000"},
	}, size{nodes: *nodes, pods: *pods, rate: *perSec, trickle: 15, churn: *perSec / 12, change: 2, seed: *seed})
	s.Controllers("kubelet")
	s.fill()
	for i := range coordinators {
		s.keepCoordinator(fmt.Sprintf("coordinator-%d", i))
	}
	for i := range workers {
		s.keepWorker(i)
	}
	s.leader(nil)
	s.log("begin")

	loading, stop := context.WithCancel(s.ctx)
	defer stop()
	done := make(chan struct{})
	go func() { defer close(done); s.load.run(loading) }()
	plan := plan(*rounds, *only, rand.New(rand.NewPCG(*seed, 1)))
	for i, f := range plan {
		share := *pods * (i + 1) / (len(plan) + 1)
		s.until("enough pods are created", func(context.Context) (bool, error) { return s.count() >= share, nil })
		s.log("%s", f.what)
		f.do(s)
	}
	s.until("all pods are created", func(context.Context) (bool, error) { return s.count() >= *pods, nil })
	stop()
	<-done
	s.settle()
	s.judge()
}

// settle waits until each pod is where it will be.
func (s *chaosCluster) settle() {
	s.T.Helper()
	claims := s.claims()
	s.until("each pod is settled", func(context.Context) (bool, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		open := s.now.Unsettled(claims)
		if len(open) > 0 {
			return false, fmt.Errorf("%d are not, the first: %v", len(open), open[0])
		}
		return true, nil
	})
	s.log("settled")
}

// judge holds all evidence against what must be.
func (s *chaosCluster) judge() {
	s.T.Helper()
	ctx, cancel := context.WithTimeout(s.ctx, patience)
	defer cancel()
	h, err := s.follow.History(ctx)
	s.must(err)
	faults, end := audit.JudgeRegistry(h, lag, s.claims())
	own, err := audit.ReadHistory(ctx, s.own, cluster)
	s.must(err)
	file, err := os.Open(s.OwnTxns())
	s.must(err)
	defer file.Close()
	txns, err := audit.ReadTxns(file)
	s.must(err)
	writers, _ := audit.JudgeWriters(own, cluster, txns)
	lines := make([]string, 0, len(faults)+len(writers))
	for _, f := range append(faults, writers...) {
		lines = append(lines, f.String())
	}
	events, err := s.Audit(ctx)
	s.must(err)
	overlaps, terms, binds := JudgeTerms(events, s.deposed)
	s.report(append(lines, overlaps...))
	s.log("%d revisions: %s", h.Revision, end.Account())
	s.log("%d nodes changed, %d pods deleted; %d writes of the journal", s.changes, len(s.deleted), len(txns))
	for _, term := range terms {
		s.log("%s led for %v: %d writes, %d pods bound, %d binds refused", term.UID, term.Last.Sub(term.First).Round(time.Millisecond), term.Writes, term.Bound, term.Refused)
	}
	s.judgeHandovers(binds)
}

// report fails the test for faults.
func (s *chaosCluster) report(faults []string) {
	s.T.Helper()
	const shown = 20
	if len(faults) > 0 {
		s.T.Errorf("%d faults, the first are\n%s", len(faults), strings.Join(faults[:min(len(faults), shown)], "\n"))
	}
}

// judgeHandovers demands that the next leader binds in time. Times by the wall are stretched by what the machine was
// kept from, and are those of errands where these are slow.
func (s *chaosCluster) judgeHandovers(binds []Bind) {
	s.T.Helper()
	for _, o := range s.handover {
		next := -1
		for i, b := range binds {
			if b.UID != o.uid && b.At.After(o.at) {
				next = i
				break
			}
		}
		if next < 0 {
			s.T.Errorf("%s: nobody bound a pod afterwards", o.what)
			continue
		}
		took := binds[next].At.Sub(o.at)
		had := s.machine.Between(o.at, binds[next].At)
		slowest := s.errands.Slowest(o.at, binds[next].At)
		limit := lease + max(had.Allow(slack), takeoverSteps*slowest)
		s.log("%s: the next leader bound its first pod after %v (%v, and the slowest errand took %v)", o.what, took.Round(time.Millisecond), had, slowest.Round(time.Millisecond))
		if o.bounded && took > limit {
			s.T.Errorf("%s: got a takeover of %v, want no more than %v: the lease of %v and %v, stretched because %v; %d errands of %v", o.what, took, limit, lease, slack, had, takeoverSteps, slowest)
		}
	}
}
