package kube

import (
	"context"
	"errors"
	"net/url"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// Waits between tries that reached nobody: at first, and at the most, each a little more by
// chance.
const (
	firstReach  = 100 * time.Millisecond
	longReach   = time.Second
	reachJitter = 0.5
)

// reach asks until the API server answers, whatever it answers, or ctx ends.
//
// Differs from upstream: there an informer waits twice as long after every failure, up to a
// minute, also when the API server has come back meanwhile. A new leader decides nothing until
// its informers have caught up with a consistent read, so the cluster would be without a
// scheduler for that minute. A try that reaches nobody costs nobody anything. After an answer,
// such as 429, an informer waits as upstream's do.
func reach[T any](ctx context.Context, after func(time.Duration) <-chan time.Time, ask func() (T, error)) (T, error) {
	for d := firstReach; ; d = min(2*d, longReach) {
		x, err := ask()
		if !unanswered(err) {
			return x, err
		}
		select {
		case <-after(wait.Jitter(d, reachJitter)):
		case <-ctx.Done():
			return x, err
		}
	}
}

// unanswered tells whether a request came back without an answer.
func unanswered(err error) bool {
	var transport *url.Error
	return errors.As(err, &transport)
}
