package kube

import (
	"context"
	"errors"
	"net"
	"net/url"
	"syscall"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// An API server that was away for long is found again within seconds, and one that answers
// is not asked again by itself.
func TestAnAPIServerThatCanNotBeReachedIsAskedEverySecond(t *testing.T) {
	refused := &url.Error{Op: "Get", URL: "https://api/pods", Err: &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}}
	busy := apierrors.NewTooManyRequests("later", 1)
	for _, c := range []struct {
		name  string
		away  int // tries that reach nobody
		then  error
		tries int
	}{
		{"it is there", 0, nil, 1},
		{"it answers that it is busy", 0, busy, 1},
		{"it was away for a while", 100, nil, 101},
		{"it was away, and is busy", 3, busy, 4},
	} {
		t.Run(c.name, func(t *testing.T) {
			tries, longest := 0, time.Duration(0)
			after := func(d time.Duration) <-chan time.Time {
				longest = max(longest, d)
				at := make(chan time.Time, 1)
				at <- time.Time{}
				return at
			}
			got, err := reach(t.Context(), after, func() (int, error) {
				if tries++; tries <= c.away {
					return 0, refused
				}
				return tries, c.then
			})
			if got != c.tries || !errors.Is(err, c.then) {
				t.Errorf("got the answer of try %d, %v; want that of %d, %v", got, err, c.tries, c.then)
			}
			if limit := 2 * time.Second; longest > limit {
				t.Errorf("longest wait: got %v, want no more than %v", longest, limit)
			}
		})
	}
}

func TestNobodyWaitsForAnAPIServerWhenTheInformerEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	never := func(time.Duration) <-chan time.Time { return nil }
	refused := &url.Error{Op: "Get", URL: "https://api/pods", Err: syscall.ECONNREFUSED}
	if _, err := reach(ctx, never, func() (int, error) { return 0, refused }); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("got %v, want what the last try came to", err)
	}
}
