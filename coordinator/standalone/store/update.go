package store

import (
	"cmp"
	"context"
	"fmt"
	"strconv"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/klog/v2"

	"github.com/shardsched/shardsched/coordinator/lease"
	"github.com/shardsched/shardsched/coordinator/objects"
)

// Update replaces objects that were read, all of them in one transaction, or none: a volume
// and its claim are bound to each other at once. The ResourceVersion of each is compared; they
// are not changed, and the revision that is returned is the ResourceVersion of all of
// them from then on.
//
// An error says that nothing is written, and why: lease.ErrDeposed, or of one of the objects, named
// in the text, objects.ErrNotFound or objects.ErrConflict. Only objects.ErrUnknown leaves it open, as with Bind. What
// is there already, byte for byte, after an answer was lost, is found again.
func (s *Store) Update(ctx context.Context, f lease.Fence, objs []objects.Object) (int64, error) {
	if len(objs) == 0 {
		return 0, nil
	}
	if len(objs) > maxTxnOps {
		return 0, fmt.Errorf("update of %d objects at once: at most %d are possible", len(objs), maxTxnOps)
	}
	ws := make([]write, len(objs))
	seen := make(map[objects.Ref]bool, len(objs))
	for i, obj := range objs {
		ref := objects.RefOf(obj)
		if seen[ref] {
			return 0, fmt.Errorf("update %s: %w: it is twice in one call", ref, objects.ErrConflict)
		}
		seen[ref] = true
		w, err := s.replacement(ref, obj)
		if err != nil {
			return 0, fmt.Errorf("update %s: %w", ref, err)
		}
		ws[i] = w
	}
	revision, err := s.commitTogether(ctx, opUpdate, f, ws, func(i int, current *mvccpb.KeyValue) error {
		ref := objects.RefOf(objs[i])
		if current == nil {
			return fmt.Errorf("update %s: %w", ref, objects.ErrNotFound)
		}
		return fmt.Errorf("update %s: %w: revision %s is now %d", ref, objects.ErrConflict, objs[i].GetResourceVersion(),
			current.ModRevision)
	})
	if err != nil {
		return 0, err
	}
	return revision, nil
}

// replacement is the write that rests on the object as it was read.
func (s *Store) replacement(ref objects.Ref, obj objects.Object) (write, error) {
	seen, err := strconv.ParseInt(obj.GetResourceVersion(), 10, 64)
	if err != nil || seen <= 0 {
		return write{}, fmt.Errorf("resourceVersion %q is not that of a stored object", obj.GetResourceVersion())
	}
	// encode takes the version out for a moment: others may be reading the object.
	raw, err := encode(obj.DeepCopyObject().(objects.Object))
	return write{key: s.keys.object(ref), value: raw, seen: seen}, err
}

// commitTogether commits writes in one transaction, all or none. refused says what is wrong
// where another write came before.
func (s *Store) commitTogether(ctx context.Context, operation string, f lease.Fence, ws []write,
	refused func(i int, current *mvccpb.KeyValue) error) (int64, error) {
	all := make([]int, len(ws))
	for i := range all {
		all[i] = i
	}
	for unanswered := 0; ; {
		resp, err := s.send(ctx, operation, f, ws, all)
		switch {
		case err == nil && resp.Succeeded:
			s.metrics.writes.WithLabelValues(operation).Add(float64(len(ws)))
			return resp.Header.Revision, nil
		case err == nil:
			return s.refusedTogether(operation, resp, ws, unanswered > 0, refused)
		case definite(err):
			return 0, giveUp(err, unanswered)
		}
		unanswered++
		s.metrics.unanswered.WithLabelValues(operation).Inc()
		klog.FromContext(ctx).Info("etcd did not answer", "operation", operation, "writes", len(ws), "attempt", unanswered, "cause",
			err.Error())
		if err := pause(ctx, unanswered); err != nil {
			return 0, giveUp(err, unanswered)
		}
	}
}

// refusedTogether reads a refusal. Where an earlier attempt went unanswered and all is there,
// that attempt was committed; where every object has changed, but not to what was to be
// written, it may have been, with others after it. An object that has not changed proves that
// it was not, and the refusal that it can not be any more.
func (s *Store) refusedTogether(operation string, resp *clientv3.TxnResponse, ws []write, retried bool,
	refused func(int, *mvccpb.KeyValue) error) (int64, error) {
	done, moved, revision := 0, 0, int64(0)
	var err error
	for i := range ws {
		var current *mvccpb.KeyValue
		if kvs := resp.Responses[1+i].GetResponseRange().Kvs; len(kvs) > 0 {
			current = kvs[0]
		}
		if ws[i].isDone(current) {
			done++
		}
		revision = max(revision, modRevision(current))
		if modRevision(current) != ws[i].seen {
			moved++
			err = cmp.Or(err, refused(i, current))
		}
	}
	if !resp.Responses[0].GetResponseTxn().Succeeded {
		err = fmt.Errorf("%w: etcd refused the term", lease.ErrDeposed)
	}
	switch {
	case retried && done == len(ws):
		s.metrics.writes.WithLabelValues(operation).Add(float64(len(ws)))
		return revision, nil
	case retried && moved == len(ws):
		return 0, fmt.Errorf("%w: an attempt went unanswered, and all was changed since: %w", objects.ErrUnknown, err)
	case err == nil:
		return 0, fmt.Errorf("etcd refused a transaction of %d writes without a reason", len(ws))
	}
	s.metrics.conflicts.WithLabelValues(operation).Inc()
	return 0, err
}
