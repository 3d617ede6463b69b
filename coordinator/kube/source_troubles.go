package kube

import (
	"context"
	"errors"
	"io"
	"maps"
	"net/url"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/shardsched/shardsched/coordinator/objects"
)

const (
	// troubleLog is how often a trouble that lasts is logged.
	troubleLog = time.Minute
	// troubleGrace is how long one is not logged that is a kind's own: an API server that has
	// just started forbids everything, until it has read its roles.
	troubleGrace = 3 * time.Second
	// maxLogged bounds the different lines of a minute: some errors name a port.
	maxLogged = 64
)

// troubles knows which kinds can not be listed or watched, and why. It logs each trouble once
// a minute, and its end: an API server that is away is one trouble, not one for each kind.
type troubles struct {
	clock clock.PassiveClock

	mu     sync.Mutex
	logger klog.Logger
	kinds  map[objects.Kind]*trouble // those in trouble
	told   bool                      // of any of it, in the log
	since  time.Time                 // there is some
	logged map[string]*logged        // by what the log says
}

// trouble is one kind's.
type trouble struct {
	why   error
	since time.Time
}

type logged struct {
	at    time.Time
	since int // how often it came since
}

func newTroubles(c clock.PassiveClock) *troubles {
	return &troubles{clock: c, kinds: map[objects.Kind]*trouble{}, logged: map[string]*logged{}}
}

func (t *troubles) logTo(l klog.Logger) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.logger = l
}

// of is why a kind can not be listed or watched; nil: it can, or was not tried yet.
func (t *troubles) of(k objects.Kind) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if x := t.kinds[k]; x != nil {
		return x.why
	}
	return nil
}

// asked is told how each request of an informer went.
func (t *troubles) asked(ctx context.Context, k objects.Kind, err error) {
	switch {
	case ctx.Err() != nil: // the end is ours
	case err == nil:
		t.over(k)
	default:
		t.note(k, err)
	}
}

// handler is told of what ends an informer's try. Requests that failed are known by then.
func (t *troubles) handler(k objects.Kind, there *presence) cache.WatchErrorHandlerWithContext {
	return func(ctx context.Context, _ *cache.Reflector, err error) {
		if ctx.Err() == nil && !errors.Is(err, io.EOF) && !there.isAbsent() {
			t.note(k, err)
		}
	}
}

// over ends a kind's trouble.
func (t *troubles) over(k objects.Kind) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.kinds[k] == nil {
		return
	}
	delete(t.kinds, k)
	if len(t.kinds) > 0 {
		return
	}
	if t.told {
		t.logger.Info("All of the API server's objects can be listed and watched again", "after",
			t.clock.Since(t.since).Round(time.Millisecond))
	}
	t.told = false
	clear(t.logged)
}

func (t *troubles) note(k objects.Kind, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if apierrors.IsResourceExpired(err) || apierrors.IsGone(err) || errors.Is(err, io.ErrUnexpectedEOF) {
		t.logger.V(2).Info("Watch ended, and is taken up again", "resource", k.Plural(), "cause", err.Error())
		return
	}
	now := t.clock.Now()
	if len(t.kinds) == 0 {
		t.since = now
	}
	text, subject := sentence(err, k)
	x := t.kinds[k]
	if x == nil {
		x = &trouble{since: now}
		t.kinds[k] = x
	}
	x.why = errors.New(text)
	if subject != "" && now.Sub(x.since) < troubleGrace {
		return
	}
	t.log(now, subject+text, headline(err), "resource", k.Plural(), "cause", text)
}

// log writes a line, unless it was written a short time ago, or too many others were.
func (t *troubles) log(now time.Time, key, headline string, values ...any) {
	was := t.logged[key]
	switch {
	case was != nil:
		if was.since++; now.Sub(was.at) < troubleLog {
			return
		}
		values = append(values, "times", was.since)
	case len(t.logged) >= maxLogged:
		maps.DeleteFunc(t.logged, func(_ string, l *logged) bool { return now.Sub(l.at) >= troubleLog })
		if len(t.logged) >= maxLogged {
			return
		}
	}
	t.logged[key] = &logged{at: now}
	t.told = true
	t.logger.Error(nil, headline, values...)
}

// headline is what an operator should know first.
func headline(err error) string {
	switch {
	case apierrors.IsForbidden(err):
		return "Not allowed to list or watch what the system:kube-scheduler and system:volume-scheduler roles allow, trying again"
	case apierrors.IsUnauthorized(err):
		return "The API server does not accept our credentials, trying again"
	case apierrors.IsNotFound(err):
		return "The API server does not serve a kind that scheduling depends on, trying again"
	}
	return "Can not list or watch the API server's objects, trying again"
}

// sentence is an error without the request that it came of: what several kinds run into at
// once gives the same text and no subject.
func sentence(err error, k objects.Kind) (text, subject string) {
	var request *url.Error
	if errors.As(err, &request) {
		return request.Err.Error(), ""
	}
	var answer apierrors.APIStatus
	if errors.As(err, &answer) {
		return answer.Status().Message, k.Plural() + " "
	}
	return err.Error(), k.Plural() + " "
}
