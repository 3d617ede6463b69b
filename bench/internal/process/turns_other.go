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

// TakeTurns needs Linux.
func (g *Group) TakeTurns(int, string, Turns, []*Process) (*Process, error) {
	return nil, errors.ErrUnsupported
}

// RunTurns is never asked.
func RunTurns([]string) (asked bool, err error) { return false, nil }
