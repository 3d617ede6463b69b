package worker

import "github.com/shardsched/shardsched/scorer/scan"

// Pool is what evaluates.
func (s *Server) Pool() *scan.Pool { return s.pool }

// Break has every use of a shard's table panic. left is the generation that is found by whoever waits for the shard.
func (s *Server) Break(shard uint32, term uint64) (left func() uint64) {
	held := s.shards.get(shard, term)
	held.table = nil
	return func() uint64 { return held.table.Generation() }
}

// Waits tells whether a request waits for its turn.
func (s *Server) Waits() bool {
	s.turns.mu.Lock()
	defer s.turns.mu.Unlock()
	return s.turns.moved != nil
}
