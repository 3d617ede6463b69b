package requeue

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/shardsched/shardsched/bench/cluster/blackbox/rig"
	"github.com/shardsched/shardsched/bench/cluster/controlplane/testbed"
)

// What schedulers count, by upstream's names.
const (
	taken    = "scheduler_event_handling_duration_seconds_count"
	incoming = "scheduler_queue_incoming_pods_total"
	attempts = "scheduler_schedule_attempts_total"
	pending  = "scheduler_pending_pods"
	blamed   = "scheduler_unschedulable_pods"
)

// meteredRig is a cluster with a scheduler, for one test.
type meteredRig struct {
	*rig.Rig
	// scraper asks for metrics, on connections that stay.
	scraper *http.Client
}

func newMeteredRig(r *rig.Rig) meteredRig {
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableCompression: true}
	r.T.Cleanup(transport.CloseIdleConnections)
	return meteredRig{r, &http.Client{Transport: transport, Timeout: patience}}
}

// counts are the values of a scheduler's metrics at one moment, by series.
type counts map[string]float64

// sum adds the series of a metric up that have all the labels, written name="value".
func (c counts) sum(name string, labels ...string) (sum float64) {
	for series, v := range c {
		if metric, _, _ := strings.Cut(series, "{"); metric == name && !slices.ContainsFunc(labels, func(l string) bool { return !strings.Contains(series, l) }) {
			sum += v
		}
	}
	return sum
}

// since is what has been counted from before on.
func (c counts) since(before counts) counts {
	d := counts{}
	for series, v := range c {
		if v != before[series] {
			d[series] = v - before[series]
		}
	}
	return d
}

// String lists what was counted about the queue.
func (c counts) String() string {
	var lines []string
	for series, v := range c {
		for _, name := range []string{taken, incoming, attempts} {
			if strings.HasPrefix(series, name) {
				lines = append(lines, fmt.Sprintf("%s %v", series, v))
			}
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// count reads the metrics.
func (s meteredRig) count() counts {
	s.T.Helper()
	req, err := http.NewRequestWithContext(s.T.Context(), http.MethodGet, "https://"+s.Scheduler.HTTPS+"/metrics", nil)
	s.Must(err)
	req.Header.Set("Authorization", "Bearer "+s.AdminToken())
	resp, err := s.scraper.Do(req)
	s.Must(err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		s.T.Fatalf("metrics of %s: status %d, %v", s.Scheduler.Name, resp.StatusCode, err)
	}
	c := counts{}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if i := strings.LastIndexByte(line, ' '); i > 0 && line[0] != '#' {
			if v, err := strconv.ParseFloat(line[i+1:], 64); err == nil {
				c[line[:i]] = v
			}
		}
	}
	return c
}

// patience bounds a wait for what takes milliseconds, or for upstream and a crowd half a minute.
const patience = testbed.Patience

// until counts until the answer is yes, and returns what it was given then.
func (s meteredRig) until(what string, yes func(counts) bool) (last counts) {
	s.T.Helper()
	ctx, cancel := context.WithTimeout(s.T.Context(), patience)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		if last = s.count(); yes(last) {
			return last
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			s.T.Fatalf("waiting until %s: %v; got\n%s%s", what, ctx.Err(), last.pending(), last)
		}
	}
}

// pending lists the queue's sizes.
func (c counts) pending() (s string) {
	for _, queue := range []string{"active", "backoff", "unschedulable", "gated"} {
		s += fmt.Sprintf("%s %v\n", queue, c.sum(pending, label("queue", queue)))
	}
	return s
}

// label is a label as series have it.
func label(name, value string) string { return name + `="` + value + `"` }

// requeued is how many pods came to where they are tried, by the event; "": by any but their
// own arrival.
func (c counts) requeued(event string) (n float64) {
	for _, queue := range []string{"active", "backoff"} {
		if event == "" {
			n += c.sum(incoming, label("queue", queue)) - c.sum(incoming, label("queue", queue), label("event", "UnschedulablePodAdd"))
		} else {
			n += c.sum(incoming, label("queue", queue), label("event", event))
		}
	}
	return n
}
