package worker

import "github.com/shardsched/shardsched/scorer/scan"

// Pool is what evaluates.
func (s *Server) Pool() *scan.Pool { return s.pool }
