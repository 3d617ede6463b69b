package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/klog/v2"

	"github.com/shardsched/shardsched/coordinator/lease"
	"github.com/shardsched/shardsched/coordinator/objects"
)

const (
	// maxTxnOps stays below the 128 of an external etcd with room for the fence.
	maxTxnOps = 100
	// maxTxnBytes stays below the 1.5 MiB of an external etcd with room for keys.
	maxTxnBytes = 1 << 20
	// inFlight is how many transactions of one call are under way at once: etcd syncs
	// its log once for all that wait for it.
	inFlight = 4
	// attemptTimeout is when a transaction counts as unanswered.
	attemptTimeout = 5 * time.Second
	firstPause     = 20 * time.Millisecond
	lastPause      = time.Second
)

// blind as write.seen: whatever is there.
const blind = -1

// write is one change in a transaction.
type write struct {
	key   string
	value []byte // nil: delete
	seen  int64  // the mod revision that the change rests on; 0: the key is absent
	also  string // a key to delete with it; empty: none
}

func (w *write) ops() int {
	if w.also != "" {
		return 2
	}
	return 1
}

func (w *write) bytes() int { return len(w.value) + 2*len(w.key) + len(w.also) }

// outcome is what became of a write. Exactly one of revision, conflict and err is set.
type outcome struct {
	revision int64            // where it is committed
	conflict bool             // another write came before
	current  *mvccpb.KeyValue // with conflict: what is there now; nil: nothing
	err      error            // it was not tried, or objects.ErrUnknown
}

// commitAll commits any number of writes in as many transactions as they need, several at a
// time. What one transaction fails at does not stop the others.
func (s *Store) commitAll(ctx context.Context, operation string, f lease.Fence, ws []write) []outcome {
	outcomes := make([]outcome, len(ws))
	var group errgroup.Group
	group.SetLimit(inFlight)
	for begin := 0; begin < len(ws); {
		end := chunk(ws, begin)
		part, into := ws[begin:end], outcomes[begin:end]
		group.Go(func() error { return s.commit(ctx, operation, f, part, into) })
		begin = end
	}
	_ = group.Wait() // each outcome has its error
	return outcomes
}

// commitInOrder is commitAll with one transaction after the other, in the order of ws. It
// stops at the first that fails.
func (s *Store) commitInOrder(ctx context.Context, operation string, f lease.Fence, ws []write) []outcome {
	outcomes := make([]outcome, len(ws))
	for begin := 0; begin < len(ws); {
		end := chunk(ws, begin)
		if err := s.commit(ctx, operation, f, ws[begin:end], outcomes[begin:end]); err != nil {
			for i := end; i < len(ws); i++ {
				outcomes[i].err = unsent{err}
			}
			break
		}
		begin = end
	}
	return outcomes
}

// chunk returns where the transaction that begins with ws[begin] ends.
func chunk(ws []write, begin int) int {
	ops, size := 0, 0
	for i := begin; i < len(ws); i++ {
		ops += ws[i].ops()
		size += ws[i].bytes()
		if i > begin && (ops > maxTxnOps || size > maxTxnBytes) {
			return i
		}
	}
	return len(ws)
}

// commit brings each write to an outcome, in one transaction where nothing is in the way.
func (s *Store) commit(ctx context.Context, operation string, f lease.Fence, ws []write, outcomes []outcome) error {
	pending := make([]int, len(ws))
	for i := range pending {
		pending[i] = i
	}
	for unanswered := 0; len(pending) > 0; {
		resp, err := s.send(ctx, operation, f, ws, pending)
		if err == nil && resp.Succeeded {
			s.metrics.writes.WithLabelValues(operation).Add(float64(len(pending)))
			for _, i := range pending {
				outcomes[i].revision = resp.Header.Revision
			}
			return nil
		}
		if err == nil {
			pending, err = s.refused(operation, resp, ws, pending, outcomes, unanswered > 0)
		} else if !definite(err) {
			unanswered++
			s.metrics.unanswered.WithLabelValues(operation).Inc()
			klog.FromContext(ctx).Info("etcd did not answer",
				"operation", operation, "writes", len(pending), "attempt", unanswered, "cause", err.Error())
			err = giveUp(pause(ctx, unanswered), unanswered)
		} else {
			err = giveUp(err, unanswered)
		}
		if err != nil {
			for _, i := range pending {
				outcomes[i].err = err
			}
			return err
		}
	}
	return nil
}

// send puts the pending writes in one transaction. The failure branch tells why: first
// whether the fence holds, then what is under each key.
func (s *Store) send(ctx context.Context, operation string, f lease.Fence, ws []write, pending []int) (*clientv3.TxnResponse, error) {
	fence := f.Compare()
	compares := append(make([]clientv3.Cmp, 0, len(pending)+1), fence)
	then := make([]clientv3.Op, 0, 2*len(pending))
	otherwise := append(make([]clientv3.Op, 0, len(pending)+1), clientv3.OpTxn([]clientv3.Cmp{fence}, nil, nil))
	for _, i := range pending {
		w := &ws[i]
		if w.seen != blind {
			compares = append(compares, clientv3.Compare(clientv3.ModRevision(w.key), "=", w.seen))
			otherwise = append(otherwise, clientv3.OpGet(w.key))
		}
		if w.value == nil {
			then = append(then, clientv3.OpDelete(w.key))
		} else {
			then = append(then, clientv3.OpPut(w.key, string(w.value)))
		}
		if w.also != "" {
			then = append(then, clientv3.OpDelete(w.also))
		}
	}
	attempt, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	txn := s.client.Txn(attempt).If(compares...).Then(then...).Else(otherwise...)
	if err := ctx.Err(); err != nil {
		return nil, unsent{err}
	}
	if err := f.Check(); err != nil {
		return nil, unsent{err}
	}
	begin := time.Now()
	resp, err := txn.Commit()
	s.metrics.observe(operation, time.Since(begin))
	return resp, err
}

// unsent wraps what kept a transaction from being sent.
type unsent struct{ error }

func (u unsent) Unwrap() error { return u.error }

// refused reads a refusal: it settles the writes that are in the way or, after an unanswered
// attempt, turn out to be there, and returns the others, which may be sent again unless the
// error says that the fence fell. A fallen fence stays down, so those can not be
// committed by an attempt on its way either.
func (s *Store) refused(operation string, resp *clientv3.TxnResponse, ws []write, pending []int, outcomes []outcome,
	retried bool) (left []int, err error) {
	answer := 1
	for _, i := range pending {
		w := &ws[i]
		if w.seen == blind {
			left = append(left, i)
			continue
		}
		var current *mvccpb.KeyValue
		if kvs := resp.Responses[answer].GetResponseRange().Kvs; len(kvs) > 0 {
			current = kvs[0]
		}
		answer++
		switch {
		case retried && w.isDone(current):
			outcomes[i].revision = resp.Header.Revision
			if current != nil {
				outcomes[i].revision = current.ModRevision
			}
			s.metrics.writes.WithLabelValues(operation).Inc()
		case modRevision(current) != w.seen:
			outcomes[i] = outcome{conflict: true, current: current}
			s.metrics.conflicts.WithLabelValues(operation).Inc()
		default:
			left = append(left, i)
		}
	}
	switch {
	case len(left) > 0 && !resp.Responses[0].GetResponseTxn().Succeeded:
		return left, fmt.Errorf("%w: etcd refused the term", lease.ErrDeposed)
	case len(left) == len(pending):
		return left, fmt.Errorf("etcd refused a transaction of %d writes without a reason", len(left))
	}
	return left, nil
}

// isDone tells whether what is there is what the write would have left.
func (w *write) isDone(current *mvccpb.KeyValue) bool {
	if w.value == nil || current == nil {
		return w.value == nil && current == nil
	}
	return bytes.Equal(w.value, current.Value)
}

func modRevision(kv *mvccpb.KeyValue) int64 {
	if kv == nil {
		return 0
	}
	return kv.ModRevision
}

// giveUp says with an error that earlier attempts may have been committed.
func giveUp(err error, unanswered int) error {
	if err == nil || unanswered == 0 {
		return err
	}
	return fmt.Errorf("%w after %d unanswered attempts: %w", objects.ErrUnknown, unanswered, err)
}

// pause waits before attempt n+1.
func pause(ctx context.Context, n int) error {
	wait := lastPause
	if n < 6 {
		wait = min(lastPause, firstPause<<n)
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// definite tells whether etcd has certainly not committed because of this error.
func definite(err error) bool {
	var u unsent
	switch {
	case errors.As(err, &u):
		return true
	case errors.Is(err, rpctypes.ErrTooManyRequests):
		return false // and it may take the next one
	}
	switch codeOf(err) {
	case codes.InvalidArgument, codes.ResourceExhausted, codes.PermissionDenied, codes.Unauthenticated,
		codes.FailedPrecondition, codes.OutOfRange, codes.NotFound, codes.Unimplemented:
		return true
	}
	return false
}

// codeOf finds the gRPC code in an error of etcd's client, which has types of its own.
func codeOf(err error) codes.Code {
	var etcd rpctypes.EtcdError
	switch {
	case errors.As(err, &etcd):
		return etcd.Code()
	case errors.Is(err, context.DeadlineExceeded):
		return codes.DeadlineExceeded
	}
	return status.Code(err)
}
