package chaos

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/shardsched/shardsched/bench/cluster/controlplane/testbed"
)

// fault is one way to take something apart. It returns when pods are bound again.
type fault struct {
	what string
	do   func(*chaosCluster)
}

// each is one of each kind.
func each() []fault {
	return []fault{
		{"kill -9 a worker", (*chaosCluster).killWorker},
		{"kill -9 the leader", func(s *chaosCluster) { s.killLeader("the leader was killed", true) }},
		{"kill -9 the API server", func(s *chaosCluster) { s.restart(s.APIServer) }},
		{"stop the leader for longer than its lease", (*chaosCluster).stopLeader},
		{"kill -9 the API server's etcd", func(s *chaosCluster) { s.restart(s.Etcd) }},
		{"kill -9 our etcd", func(s *chaosCluster) { s.restart(s.OwnEtcd) }},
		{"kill -9 our etcd, and start it when the leader has given up", (*chaosCluster).loseOwnEtcd},
	}
}

// several are faults at once.
func several() []fault {
	return []fault{
		{"kill -9 the leader and the API server", func(s *chaosCluster) {
			s.killLeader("the leader was killed with the API server", false, s.APIServer)
		}},
		{"kill -9 the leader and the API server's etcd", func(s *chaosCluster) {
			s.killLeader("the leader was killed with the API server's etcd", false, s.Etcd)
		}},
		{"kill -9 the leader and our etcd", func(s *chaosCluster) {
			s.killLeader("the leader was killed with our etcd", false, s.OwnEtcd)
		}},
		{"kill -9 the leader and a worker", func(s *chaosCluster) {
			s.killOneWorker()
			s.killLeader("the leader was killed with a worker", true)
		}},
		{"kill -9 the API server, start it late, and kill -9 the leader that comes then", (*chaosCluster).killSecondLeader},
		{"kill -9 everything", func(s *chaosCluster) {
			for range workers {
				s.killOneWorker()
			}
			s.killLeader("all was killed", false, s.APIServer, s.Etcd, s.OwnEtcd)
		}},
	}
}

// plan is what is taken apart, in its order.
func plan(rounds int, only string, random *rand.Rand) []fault {
	if only != "" {
		unlike := func(f fault) bool { return !strings.Contains(f.what, only) }
		return slices.Repeat(slices.DeleteFunc(append(each(), several()...), unlike), rounds)
	}
	all := each()
	for range rounds - 1 {
		more := append(each(), several()...)
		random.Shuffle(len(more), func(i, j int) { more[i], more[j] = more[j], more[i] })
		all = append(all, more...)
	}
	return all
}

// busy waits until the leader is in the middle of binding many pods.
func (s *chaosCluster) busy(leader *life) {
	s.T.Helper()
	s.bindsGoOn(1)
	s.Go(func(ctx context.Context) {
		for range 50 {
			s.create(ctx)
		}
	})
	s.bindsGoOn(20)
	if !leader.Running() {
		s.log("%s ended before it was killed", leader.uid)
	}
}

func (s *chaosCluster) killOneWorker() {
	s.mu.Lock()
	p := s.workers[s.killed%workers]
	s.killed++
	s.mu.Unlock()
	if p != nil {
		p.Kill()
	}
}

func (s *chaosCluster) killWorker() {
	s.T.Helper()
	s.killOneWorker()
	s.bindsGoOn(20)
}

// killLeader kills it, and servers with it, which are started again at once.
func (s *chaosCluster) killLeader(what string, bounded bool, with ...*testbed.Server) {
	s.T.Helper()
	l := s.leader(nil)
	s.busy(l)
	s.handover = append(s.handover, handover{what, l.uid, time.Now(), bounded})
	l.Kill()
	for _, server := range with {
		server.Kill()
	}
	for i := len(with) - 1; i >= 0; i-- {
		s.must(with[i].Start(s.ctx))
	}
	s.catchUp() // what follows is another's
	s.leader(l)
	s.bindsGoOn(20)
}

// stopLeader stops it until the next one has bound pods for a while.
func (s *chaosCluster) stopLeader() {
	s.T.Helper()
	l := s.leader(nil)
	s.busy(l)
	at := time.Now()
	s.handover = append(s.handover, handover{"the leader was stopped", l.uid, at, true})
	l.Pause()
	s.deposed[l.uid] = at.Add(lease)
	s.catchUp()
	next := s.leader(l)
	s.bindsGoOn(50)
	s.until("it was stopped for longer than its lease", func(context.Context) (bool, error) { return time.Since(at) > lease+time.Second, nil })
	s.log("%s goes on, %v after it was stopped; %s leads", l.uid, time.Since(at).Round(time.Millisecond), next.uid)
	l.Resume()
	s.awaitEnd(l)
	s.bindsGoOn(20)
}

// awaitEnd waits until a coordinator has ended, by itself.
func (s *chaosCluster) awaitEnd(l *life) {
	s.T.Helper()
	select {
	case <-l.Done():
	case <-time.After(patience):
		s.T.Fatalf("%s does not end", l.uid)
	}
	if got := exitCode(l.Process); got != 1 {
		s.T.Errorf("%s, deposed: got exit code %d, want 1", l.uid, got)
	}
}

// restart kills a server and starts it again.
func (s *chaosCluster) restart(server *testbed.Server) {
	s.T.Helper()
	began := time.Now()
	s.must(server.Restart(s.ctx))
	back := time.Since(began)
	s.bindsGoOn(20)
	s.log("it was back after %v, and pods were bound after %v", back.Round(time.Millisecond), time.Since(began).Round(time.Millisecond))
}

// loseOwnEtcd keeps the coordinators' etcd away until there is no leader any more.
func (s *chaosCluster) loseOwnEtcd() {
	s.T.Helper()
	l := s.leader(nil)
	s.OwnEtcd.Kill()
	s.awaitEnd(l)
	s.must(s.OwnEtcd.Start(s.ctx))
	s.leader(l)
	s.bindsGoOn(20)
}

// killSecondLeader keeps the API server away until those who follow it ask for it more
// and more seldom, and kills the one who leads first when it is back: the next one has to
// wait for what it did.
func (s *chaosCluster) killSecondLeader() {
	s.T.Helper()
	began := time.Now()
	l := s.leader(nil)
	s.APIServer.Kill()
	s.awaitEnd(l)
	s.until("the API server was away for a while", func(context.Context) (bool, error) { return time.Since(began) > 3*lease, nil })
	s.must(s.APIServer.Start(s.ctx))
	s.log("it is back after %v", time.Since(began).Round(time.Millisecond))
	s.killLeader("the leader was killed that came with the API server", false)
}
