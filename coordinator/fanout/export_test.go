package fanout

import "github.com/shardsched/shardsched/scorer/scan"

// Pool evaluates on the own tables.
func (f *Fanout) Pool() *scan.Pool { return f.pool }

// Settle waits for all that Evaluate has left under way.
func (f *Fanout) Settle() { f.running.Wait() }
