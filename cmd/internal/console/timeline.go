package console

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// Timeline is the moments of a record.
type Timeline struct {
	From, To time.Time
	// At is the moment that is shown.
	At time.Time
	// Problems tell what of the record can't be read.
	Problems []string
}

// MomentParameter is the parameter of a page's address that names a moment, as ParseMoment reads it.
const MomentParameter = "t"

// ParseMoment reads a moment: a time of RFC 3339, or how far it is from the first, as 90 (seconds), 90s or 1h2m. One before the first
// is the first, one behind the last the last.
func (t *Timeline) ParseMoment(text string) (time.Time, error) {
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		offset, wrong := time.ParseDuration(strings.TrimPrefix(text, "+"))
		if seconds, err := strconv.ParseFloat(text, 64); err == nil && seconds >= 0 && seconds < 1<<33 {
			offset, wrong = time.Duration(seconds*float64(time.Second)), nil
		}
		if wrong != nil || offset < 0 {
			return at, fmt.Errorf("%s: expected a time such as %s, or an offset from the beginning such as 90s, got %.100q", MomentParameter,
				t.From.UTC().Format(time.RFC3339), text)
		}
		at = t.From.Add(offset)
	}
	switch {
	case at.Before(t.From):
		at = t.From
	case at.After(t.To):
		at = t.To
	}
	return at, nil
}

// At is the same console for another moment of a record, whose answers come by conn.
func (c *Console) At(conn grpc.ClientConnInterface, at time.Time) *Console {
	other, shared := *c, newShared(conn)
	other.config.Conn, other.client, other.gateway = conn, pb.NewSchedulerServiceClient(shared), newGateway(shared)
	line := *c.config.Timeline
	line.At = at
	other.config.Timeline, other.now = &line, func() time.Time { return at }
	return &other
}

// timeline is what the slider is given.
type timeline struct {
	From, To, At string
	// Seconds is how long the record is, and Offset where the moment is.
	Seconds, Offset int64
	Problems        []string
	// Query are the parameters of the page that is shown.
	Query []parameter
	// Steps lead to other moments of the same page.
	Steps []step
}

type parameter struct{ Name, Value string }

type step struct{ Text, Link string }

const momentForm = "2006-01-02T15:04:05.000Z07:00"

// timelineOf is nil where there is one moment only.
func (c *Console) timelineOf(page *url.URL) *timeline {
	t := c.config.Timeline
	if t == nil {
		return nil
	}
	query := page.Query()
	path := cmp.Or(strings.TrimPrefix(page.Path, Path), "./")
	out := &timeline{
		From: t.From.UTC().Format(momentForm), To: t.To.UTC().Format(momentForm), At: t.At.UTC().Format(momentForm),
		Seconds: int64((t.To.Sub(t.From) + time.Second - 1) / time.Second), Offset: int64(t.At.Sub(t.From) / time.Second), Problems: t.Problems,
	}
	for _, name := range sortedKeys(query) {
		for _, value := range query[name] {
			if name != MomentParameter {
				out.Query = append(out.Query, parameter{name, value})
			}
		}
	}
	for _, s := range []struct {
		text string
		to   time.Time
	}{
		{"Begin", t.From},
		{"−10 min", t.At.Add(-10 * time.Minute)}, {"−1 min", t.At.Add(-time.Minute)}, {"−10 s", t.At.Add(-10 * time.Second)},
		{"+10 s", t.At.Add(10 * time.Second)}, {"+1 min", t.At.Add(time.Minute)}, {"+10 min", t.At.Add(10 * time.Minute)},
		{"End", t.To},
	} {
		q := url.Values{}
		for name, values := range query {
			q[name] = slices.Clone(values)
		}
		q.Set(MomentParameter, s.to.UTC().Format(time.RFC3339Nano))
		out.Steps = append(out.Steps, step{s.text, path + "?" + q.Encode()})
	}
	return out
}
