package store

import (
	"context"
	"errors"
	"fmt"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/shardsched/shardsched/coordinator/objects"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// replans is how often an object is planned anew when another write came before.
const replans = 10

// Apply creates or replaces objects, and tells what became of each and a revision at which
// all of them are committed. The objects are completed in place: defaults, uid, creation
// time.
//
// Everything is validated, against what is there too, before the first write; what is not
// valid is an *InvalidError and nothing is written. When it fails later (ErrDeposed,
// ErrUnknown, etcd), the outcomes of what is committed are set and the others are
// UNSPECIFIED.
//
// An applied pod that exists keeps its status and its node.
func (s *Store) Apply(ctx context.Context, f Fence, objs []runtime.Object, dryRun bool) ([]pb.ApplyOutcome, int64, error) {
	plans, err := s.prepare(objs)
	if err != nil {
		return nil, 0, err
	}
	revision, err := s.planAll(ctx, plans)
	if err != nil {
		return nil, 0, err
	}
	outcomes := make([]pb.ApplyOutcome, len(plans))
	var pending []*plan
	for i := range plans {
		p := &plans[i]
		if dryRun || p.outcome == pb.ApplyOutcome_APPLY_OUTCOME_UNCHANGED {
			outcomes[p.index] = p.outcome
		} else {
			pending = append(pending, p)
		}
	}
	written, err := s.execute(ctx, f, pending, outcomes)
	return outcomes, max(revision, written), err
}

// prepare checks all that can be checked without looking at what is there.
func (s *Store) prepare(objs []runtime.Object) ([]plan, error) {
	invalid := &InvalidError{}
	plans := make([]plan, len(objs))
	first := make(map[objects.Ref]bool, len(objs))
	for i, o := range objs {
		obj, ok := o.(objects.Object)
		if !ok || !objects.KindOf(obj).Known() {
			return nil, fmt.Errorf("object %d: %T: %w", i, o, objects.ErrUnknownKind)
		}
		objects.Default(obj)
		ref := objects.RefOf(obj)
		errs := objects.Validate(obj)
		if first[ref] && len(errs) == 0 {
			errs = field.ErrorList{field.Duplicate(field.NewPath("metadata", "name"), ref.Name)}
		}
		first[ref] = true
		if len(errs) > 0 {
			invalid.Objects = append(invalid.Objects, InvalidObject{i, ref, errs})
		}
		plans[i] = plan{index: i, ref: ref, obj: obj}
	}
	if len(invalid.Objects) > 0 {
		return nil, invalid
	}
	return plans, nil
}

// planAll reads what is there and decides what each apply comes to. The revision is the
// newest that was read.
func (s *Store) planAll(ctx context.Context, plans []plan) (int64, error) {
	keys := make([]string, len(plans))
	for i := range plans {
		keys[i] = s.keys.object(plans[i].ref)
	}
	current, revision, err := s.getAll(ctx, keys)
	if err != nil {
		return 0, fmt.Errorf("apply: %w", err)
	}
	invalid := &InvalidError{}
	for i := range plans {
		p := &plans[i]
		errs, err := s.decide(p, current[i])
		if err != nil {
			return 0, fmt.Errorf("apply %s: %w", p.ref, err)
		}
		if len(errs) > 0 {
			invalid.Objects = append(invalid.Objects, InvalidObject{p.index, p.ref, errs})
		}
	}
	if len(invalid.Objects) > 0 {
		return 0, invalid
	}
	return revision, nil
}

// execute writes plans and plans those anew that another write came before.
func (s *Store) execute(ctx context.Context, f Fence, pending []*plan, outcomes []pb.ApplyOutcome) (revision int64, err error) {
	total := len(pending)
	for round := 0; len(pending) > 0; round++ {
		ws := make([]write, len(pending))
		for i, p := range pending {
			ws[i] = p.write
		}
		var left []*plan
		for i, o := range s.commitAll(ctx, opApply, f, ws) {
			p := pending[i]
			if o.err == nil && o.conflict {
				var done bool
				if done, o.err = s.replan(p, o.current, round); o.err == nil && !done {
					left = append(left, p)
					continue
				}
			}
			if o.err != nil {
				err = worse(err, fmt.Errorf("apply %s: %w", p.ref, o.err))
				continue
			}
			outcomes[p.index] = p.outcome
			revision = max(revision, o.revision, modRevision(o.current))
		}
		if err != nil {
			return revision, s.halfDone(err, total, outcomes)
		}
		pending = left
	}
	return revision, nil
}

// replan decides again; done says that nothing is left to write.
func (s *Store) replan(p *plan, current *mvccpb.KeyValue, round int) (done bool, err error) {
	if round == replans {
		return false, ErrConflict
	}
	errs, err := s.decide(p, current)
	if err != nil {
		return false, err
	}
	if len(errs) > 0 {
		return false, &InvalidError{Objects: []InvalidObject{{p.index, p.ref, errs}}}
	}
	return p.outcome == pb.ApplyOutcome_APPLY_OUTCOME_UNCHANGED, nil
}

// halfDone adds to an error how much of the request is written.
func (s *Store) halfDone(err error, total int, outcomes []pb.ApplyOutcome) error {
	written := 0
	for _, o := range outcomes {
		if o == pb.ApplyOutcome_APPLY_OUTCOME_CREATED || o == pb.ApplyOutcome_APPLY_OUTCOME_CONFIGURED {
			written++
		}
	}
	if written == 0 {
		return err
	}
	var invalid *InvalidError
	if errors.As(err, &invalid) {
		invalid.Written = written
		return err
	}
	return fmt.Errorf("%w (%d of %d objects are written)", err, written, total)
}

// worse keeps, of the errors of one request, the one that says most about what to expect:
// an unknown outcome, then the first.
func worse(a, b error) error {
	if a == nil || errors.Is(b, ErrUnknown) && !errors.Is(a, ErrUnknown) {
		return b
	}
	return a
}

// getAll reads keys, in the order given; nil where there is nothing.
func (s *Store) getAll(ctx context.Context, keys []string) ([]*mvccpb.KeyValue, int64, error) {
	kvs := make([]*mvccpb.KeyValue, len(keys))
	revisions := make([]int64, (len(keys)+maxTxnOps-1)/maxTxnOps)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(inFlight)
	for n := range revisions {
		begin := n * maxTxnOps
		part, into := keys[begin:min(begin+maxTxnOps, len(keys))], kvs[begin:]
		group.Go(func() (err error) {
			revisions[n], err = s.getSome(ctx, part, into)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, 0, err
	}
	var newest int64
	for _, r := range revisions {
		newest = max(newest, r)
	}
	return kvs, newest, nil
}

func (s *Store) getSome(ctx context.Context, keys []string, into []*mvccpb.KeyValue) (int64, error) {
	ops := make([]clientv3.Op, len(keys))
	for i, key := range keys {
		ops[i] = clientv3.OpGet(key)
	}
	resp, err := s.client.Txn(ctx).Then(ops...).Commit()
	if err != nil {
		return 0, fmt.Errorf("read %d objects: %w", len(keys), err)
	}
	for i, r := range resp.Responses {
		if found := r.GetResponseRange().Kvs; len(found) > 0 {
			into[i] = found[0]
		}
	}
	return resp.Header.Revision, nil
}
