package kube

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/klog/v2"

	"github.com/shardsched/shardsched/coordinator/objects"
)

const (
	// catchUpPage is how many objects' metadata one request of CatchUp reads.
	catchUpPage = 5000
	// catchUpPoll is how often an informer's objects are compared with a read.
	catchUpPoll = 10 * time.Millisecond
	// catchUpReread is how long an informer may take to catch up with a read before another
	// is made; what is missing may be gone.
	catchUpReread = 15 * time.Second
	// catchUpRetry is the longest pause after a read that went wrong.
	catchUpRetry = 2 * time.Second
)

// CatchUp returns when the informers have caught up with a consistent read of every kind that
// is made after the call: each object that was there is known at that version or a newer one,
// or was deleted since, and none is known that was gone. It tries again what goes wrong, until
// ctx ends, and then says what was missing.
func (s *Source) CatchUp(ctx context.Context) error {
	if err := s.WaitSynced(ctx); err != nil {
		return err
	}
	errs := make([]error, len(s.sources))
	behind := &behindhand{why: map[objects.Kind]error{}}
	var all sync.WaitGroup
	for i, one := range s.sources {
		behind.set(one.kind, errors.New("not listed yet"))
		all.Go(func() {
			errs[i] = s.catchUpKind(ctx, one, behind)
			behind.set(one.kind, nil)
		})
	}
	done := make(chan struct{})
	go func() { all.Wait(); close(done) }()
	s.report(ctx, behind, done)
	return errors.Join(errs...)
}

// report logs every few seconds what is waited for, until it is done.
func (s *Source) report(ctx context.Context, behind *behindhand, done <-chan struct{}) {
	ticker := s.cfg.Clock.NewTicker(waitLog / 2)
	defer ticker.Stop()
	for {
		select {
		case <-done:
			return
		case <-ticker.C():
			klog.FromContext(ctx).Info("Catching up with the API server", "behind", behind.String())
		}
	}
}

// behindhand is which kinds have not caught up yet, and why.
type behindhand struct {
	mu  sync.Mutex
	why map[objects.Kind]error
}

func (b *behindhand) set(k objects.Kind, why error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if why == nil {
		delete(b.why, k)
	} else {
		b.why[k] = why
	}
}

// String names the kinds, and the first one's reason.
func (b *behindhand) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var names []string
	reason := ""
	for _, k := range Kinds(true) {
		if why := b.why[k]; why != nil {
			names = append(names, k.Plural())
			reason = cmp.Or(reason, why.Error())
		}
	}
	return strings.Join(names, ", ") + ": " + reason
}

func (s *Source) catchUpKind(ctx context.Context, one *source, behind *behindhand) error {
	retry := 50 * time.Millisecond
	for {
		seen, err := s.read(ctx, one.kind)
		if err != nil && one.there.isAbsent() {
			return nil
		}
		if err == nil {
			if err = s.await(ctx, one, seen, behind); err == nil {
				return nil
			}
		}
		behind.set(one.kind, err)
		if errors.Is(err, ErrStopped) {
			return fmt.Errorf("catch up with %s: %w", one.kind.Plural(), err)
		}
		if ctx.Err() != nil {
			return fmt.Errorf("catch up with %s: %w (%w)", one.kind.Plural(), err, context.Cause(ctx))
		}
		if err := s.sleep(ctx, retry); err != nil {
			return fmt.Errorf("catch up with %s: %w", one.kind.Plural(), err)
		}
		retry = min(2*retry, catchUpRetry)
	}
}

func (s *Source) sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-s.cfg.Clock.After(d):
		return nil
	}
}

// seen is what a consistent read found of a kind.
type seen struct {
	// version is that of the list: the read shows all that was written up to it.
	version string
	// versions are those of the objects, by namespace/name.
	versions map[string]string
}

// read lists a kind's metadata. Without a resourceVersion that is a consistent read; its
// further pages are of the same moment.
func (s *Source) read(ctx context.Context, k objects.Kind) (*seen, error) {
	out := &seen{versions: map[string]string{}}
	options := metav1.ListOptions{FieldSelector: selectorOf(k), Limit: catchUpPage}
	for {
		page, err := s.cfg.Metadata.Resource(resourceOf(k)).List(ctx, options)
		if err != nil {
			return nil, fmt.Errorf("list %s: %w", k.Plural(), err)
		}
		if out.version == "" {
			out.version = page.ResourceVersion
		}
		for i := range page.Items {
			out.versions[keyOf(&page.Items[i])] = page.Items[i].ResourceVersion
		}
		if page.Continue == "" {
			return out, nil
		}
		options.Continue = page.Continue
	}
}

func keyOf(obj metav1.Object) string {
	if ns := obj.GetNamespace(); ns != "" {
		return ns + "/" + obj.GetName()
	}
	return obj.GetName()
}

// await waits until an informer has caught up with a read, not for ever.
func (s *Source) await(ctx context.Context, one *source, read *seen, behind *behindhand) error {
	begun := s.cfg.Clock.Now()
	l := newLag(one.store, read)
	ticker := s.cfg.Clock.NewTicker(catchUpPoll)
	defer ticker.Stop()
	for {
		if l.left() == 0 {
			klog.FromContext(ctx).V(2).Info("Caught up",
				"resource", one.kind.Plural(), "resourceVersion", read.version, "took", s.cfg.Clock.Since(begun))
			return nil
		}
		late := fmt.Errorf("the informer is behind by %s", l)
		behind.set(one.kind, late)
		if s.cfg.Clock.Since(begun) > catchUpReread {
			return late
		}
		select {
		case <-ctx.Done():
			return late
		case <-s.stopped:
			return ErrStopped
		case <-ticker.C():
		}
	}
}

// lag is what an informer still lacks of a read. An informer takes changes in by their
// versions, so whatever it does not have, but is newer than, has been deleted since.
type lag struct {
	store known
	read  *seen
	// missing are the objects, of those read, that it may not have at their versions; doomed
	// those that it has and should not.
	missing map[string]string
	doomed  map[string]struct{}
}

// known is what lag asks of a cache.Store.
type known interface {
	GetByKey(key string) (any, bool, error)
	ListKeys() []string
	LastStoreSyncResourceVersion() string
}

func newLag(store known, read *seen) *lag {
	l := &lag{store: store, read: read, missing: map[string]string{}, doomed: map[string]struct{}{}}
	for key, version := range read.versions {
		if !l.has(key, version) {
			l.missing[key] = version
		}
	}
	l.condemn()
	return l
}

// condemn finds the objects that are known and should not be.
func (l *lag) condemn() {
	for _, key := range l.store.ListKeys() {
		if _, ok := l.read.versions[key]; !ok && !l.rid(key) {
			l.doomed[key] = struct{}{}
		}
	}
}

// left counts what is missing or to go.
func (l *lag) left() int {
	waited := len(l.missing)+len(l.doomed) > 0
	for key, version := range l.missing {
		if l.has(key, version) {
			delete(l.missing, key)
		}
	}
	for key := range l.doomed {
		if l.rid(key) {
			delete(l.doomed, key)
		}
	}
	if waited && len(l.missing)+len(l.doomed) == 0 {
		l.condemn() // what came meanwhile may be gone too
	}
	return len(l.missing) + len(l.doomed)
}

// has tells whether an object is there at a version, or a newer one, or was and is gone.
func (l *lag) has(key, version string) bool {
	obj, ok, _ := l.store.GetByKey(key)
	return ok && atLeast(obj.(metav1.Object).GetResourceVersion(), version) || atLeast(l.store.LastStoreSyncResourceVersion(), version)
}

// rid tells whether an object that was not there is not known, or has come since.
func (l *lag) rid(key string) bool {
	obj, ok, _ := l.store.GetByKey(key)
	if !ok || atLeast(l.store.LastStoreSyncResourceVersion(), l.read.version) {
		return true
	}
	version := obj.(metav1.Object).GetResourceVersion()
	return version != l.read.version && atLeast(version, l.read.version)
}

func (l *lag) String() string {
	text := fmt.Sprintf("%d objects to come and %d to go", len(l.missing), len(l.doomed))
	for key := range l.missing {
		return text + ", such as " + key
	}
	for key := range l.doomed {
		return text + ", such as " + key
	}
	return text
}

// atLeast tells whether a resourceVersion is as new as another. Kubernetes guarantees since
// 1.35 that they are numbers (KEP-5504).
func atLeast(version, than string) bool {
	c, err := resourceversion.CompareResourceVersion(version, than)
	return err == nil && c >= 0
}
