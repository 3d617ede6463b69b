//go:build !linux

package process

import (
	"errors"
	"time"
)

// Turns need Linux.
type Turns struct {
	Slots   int
	Slot    time.Duration
	Periods int
}

// Share is the part of a core that each process has.
func (t Turns) Share() float64 { return 1 / float64(t.Slots) }

// Period is how long it takes until the first has its turn again.
func (t Turns) Period() time.Duration { return time.Duration(t.Slots) * t.Slot }

// TakeTurns needs Linux.
func (g *Group) TakeTurns(int, string, Turns, []*Process) (*Process, error) {
	return nil, errors.ErrUnsupported
}

// RunTurns is never asked.
func RunTurns([]string) (asked bool, err error) { return false, nil }
