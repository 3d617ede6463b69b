package shadow

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"
)

// cost keeps what deciding takes, theirs and ours, since the beginning.
type cost struct {
	process time.Duration // as it was at the beginning
	known   bool
	// last is the newest reading of theirs, read says that there is one, and used what it has grown by; found is how many pods theirs had
	// found a node for at the first reading, and upTo at the newest.
	last, used  float64
	read        bool
	found, upTo int
	err         error // why theirs is not known
}

// errNotAsked says that nobody gave the place of their metrics.
var errNotAsked = errors.New("the address of its metrics was not given")

func newCost() cost {
	c := cost{err: errNotAsked}
	c.process, c.known = processTime()
	return c
}

// take takes in a reading of theirs, by when theirs had found a node for so many pods. A process that has begun anew counts from zero.
func (c *cost) take(seconds float64, err error, found int) {
	if c.err = err; err != nil {
		return
	}
	switch {
	case !c.read:
		c.read, c.found = true, found
	case seconds < c.last:
		c.used += seconds
	default:
		c.used += seconds - c.last
	}
	c.last, c.upTo = seconds, found
}

// report tells of ours, by when it had decided so many pods.
func (c *cost) report(decided int, deciding *Thread, mirror []*Thread) (out Cost) {
	switch {
	case c.read && c.upTo > c.found:
		out.Theirs = cpu(c.used, c.upTo-c.found)
	case c.err != nil:
		out.TheirsUnknown = c.err.Error()
	default:
		out.TheirsUnknown = "no pod was bound between two readings of its metrics"
	}
	now, known := processTime()
	if !known || !c.known {
		return out
	}
	for _, t := range mirror {
		used, _ := t.Used()
		out.Mirror += used.Seconds()
	}
	used, _ := deciding.Used()
	out.Deciding = used.Seconds()
	out.Ours = cpu(max((now-c.process).Seconds()-out.Mirror, 0), decided)
	if out.Theirs != nil && out.Ours.PerPod > 0 {
		out.Ratio = math.Round(100*out.Theirs.PerPod/out.Ours.PerPod) / 100
	}
	return out
}

func cpu(seconds float64, pods int) *CPU {
	c := &CPU{Seconds: seconds, Pods: pods}
	if pods > 0 {
		c.PerPod = seconds / float64(pods)
	}
	return c
}

const (
	// maxMetrics bounds how much of a process's metrics is read; those of a kube-scheduler are below 1 MB.
	maxMetrics = 16 << 20
	// metricsLine bounds a line of them.
	metricsLine = 1 << 20
)

// ProcessSeconds finds process_cpu_seconds_total in the metrics of a process, as Prometheus reads them.
func ProcessSeconds(metrics io.Reader) (float64, error) {
	lines := bufio.NewScanner(io.LimitReader(metrics, maxMetrics))
	lines.Buffer(nil, metricsLine)
	for lines.Scan() {
		value, ok := strings.CutPrefix(lines.Text(), "process_cpu_seconds_total ")
		if !ok {
			continue
		}
		value, _, _ = strings.Cut(value, " ") // a time may follow
		s, err := strconv.ParseFloat(value, 64)
		if err != nil || math.IsNaN(s) || math.IsInf(s, 0) || s < 0 {
			return 0, fmt.Errorf("process_cpu_seconds_total is %q, a number of seconds was expected", value)
		}
		return s, nil
	}
	if err := lines.Err(); err != nil {
		return 0, fmt.Errorf("read metrics: %w", err)
	}
	return 0, errors.New("its metrics have no process_cpu_seconds_total")
}

// TheirSeconds reads how much processor time the other scheduler has used.
type TheirSeconds func(context.Context) (float64, error)
