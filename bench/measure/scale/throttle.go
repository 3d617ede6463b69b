package main

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/shardsched/shardsched/bench/internal/process"
)

// smallOnes is how many small workers share a core: each has an eighth of it.
const smallOnes = 8

// throttle holds workers that are on one core to a share of it.
type throttle struct {
	about  string
	share  float64
	quotas []*process.Quota // a worker's each; none: they take turns
	turns  *process.Process
}

// quotas makes groups, as process.NewQuota does.
type quotas func(name string, quota, period time.Duration) (*process.Quota, error)

// newThrottle holds processes by the kernel's quotas, or by signals where it may make no groups. Where it errs, too, what it has
// begun is to be ended.
func newThrottle(group *process.Group, core int, of []*process.Process, newQuota quotas) (*throttle, error) {
	t := &throttle{share: 1.0 / smallOnes}
	self, err := os.Executable()
	if err != nil {
		return t, err
	}
	if err := t.group(len(of), newQuota); err != nil {
		turns := process.Turns{Slots: smallOnes, Slot: 2 * time.Millisecond}
		t.about = fmt.Sprintf("signals, running (SIGCONT) for %v of every %v and stopped (SIGSTOP) otherwise, for %v",
			turns.Slot, turns.Period(), err)
		t.turns, err = group.TakeTurns(core, self, turns, of)
		return t, err
	}
	t.turns, err = group.TakeTurns(core, self, process.Turns{Slots: 1, Slot: quota}, nil)
	for i, p := range of {
		err = errors.Join(err, t.quotas[i].Add(p))
	}
	t.about = fmt.Sprintf("%v, %v of every %v, which the kernel looks at every %v", t.quotas[0], quota, smallOnes*quota, quota)
	return t, err
}

// quota is the least that the kernel takes, so that no worker stops for longer than it must.
const quota = time.Millisecond

// group makes a group for each of n processes.
func (t *throttle) group(n int, newQuota quotas) error {
	for i := range n {
		q, err := newQuota(fmt.Sprintf("shardsched-scale-%d-%d", os.Getpid(), i), quota, smallOnes*quota)
		if err != nil {
			return errors.Join(err, t.drop())
		}
		t.quotas = append(t.quotas, q)
	}
	return nil
}

// loosen ends the turns: the processes that they have stopped are to be resumed.
func (t *throttle) loosen() {
	if t.turns != nil {
		t.turns.Kill()
	}
}

// drop removes the groups, once their processes are gone.
func (t *throttle) drop() (err error) {
	for _, q := range t.quotas {
		err = errors.Join(err, q.Close())
	}
	t.quotas = nil
	return err
}

// throttled is how long each process has been stopped so far; none: nobody has counted.
func (t *throttle) throttled() (out []time.Duration, err error) {
	for _, q := range t.quotas {
		d, err := q.Throttled()
		if err != nil {
			return nil, err
		}
		out = append(out, d)
	}
	return out, nil
}
