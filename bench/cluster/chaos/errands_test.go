package chaos

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"
)

func TestTheSlowestErrandOfATimeIsKnown(t *testing.T) {
	at := func(second int) time.Time { return time.Unix(int64(second), 0) }
	e := NewErrands(nil)
	e.done = []errand{{at(0), at(1)}, {at(2), at(5)}, {at(6), at(8)}, {at(9), at(20)}}
	for _, c := range []struct {
		what     string
		from, to int
		want     time.Duration
	}{
		{"one within", 6, 8, 2 * time.Second},
		{"one that began before", 4, 6, 3 * time.Second},
		{"one that ends later", 8, 10, 11 * time.Second},
		{"none", 1, 2, 0},
	} {
		if got := e.Slowest(at(c.from), at(c.to)); got != c.want {
			t.Errorf("%s: got %v, want %v", c.what, got, c.want)
		}
	}
}

func TestErrandsThatFailAreLeftOut(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	clock := time.Unix(0, 0)
	e := NewErrands(func() time.Time { clock = clock.Add(time.Second); return clock })
	outcomes := []error{nil, errors.New("away"), nil}
	e.Run(ctx, func(context.Context) error {
		err := outcomes[0]
		if outcomes = outcomes[1:]; len(outcomes) == 0 {
			cancel()
		}
		return err
	})
	at := func(second int) time.Time { return time.Unix(int64(second), 0) }
	if want := []errand{{at(1), at(2)}, {at(4), at(5)}}; !slices.Equal(e.done, want) {
		t.Errorf("got %v, want %v", e.done, want)
	}
}
