package store

import (
	"context"
	"errors"
	"fmt"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/shardsched/shardsched/coordinator/lease"
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
// valid is an *InvalidError and nothing is written. When it fails later (lease.ErrDeposed,
// objects.ErrUnknown, etcd), the outcomes of what is committed are set and the others are
// UNSPECIFIED.
//
// Objects are committed in the order of objs, so that the pods of a request arrive in that
// order; only one that another write came before may fall behind. An applied pod that exists
// keeps its status and its node, a volume or claim what it is bound to, a resource claim what is allocated to it. With a pod come
// the claims of its ephemeral volumes and those that are made from templates, and a new claim without a storage class gets the
// default one.
func (s *Store) Apply(ctx context.Context, f lease.Fence, objs []runtime.Object, dryRun bool) ([]pb.ApplyOutcome, int64, error) {
	plans, err := s.prepare(objs)
	if err != nil {
		return nil, 0, err
	}
	if err := s.fillClasses(ctx, plans); err != nil {
		return nil, 0, fmt.Errorf("apply: %w", err)
	}
	revision, err := s.planAll(ctx, f, plans)
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
	revision = max(revision, written)
	if err != nil || dryRun {
		return outcomes, revision, err
	}
	claimed, err := s.makeClaims(ctx, f, plans)
	if err != nil {
		return outcomes, max(revision, claimed), err
	}
	tended, err := s.tendApplied(ctx, f, plans)
	return outcomes, max(revision, claimed, tended), err
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
func (s *Store) planAll(ctx context.Context, f lease.Fence, plans []plan) (int64, error) {
	keys := make([]string, len(plans))
	for i := range plans {
		keys[i] = s.keys.object(plans[i].ref)
	}
	current, revision, err := s.getAll(ctx, f, keys)
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
func (s *Store) execute(ctx context.Context, f lease.Fence, pending []*plan, outcomes []pb.ApplyOutcome) (revision int64, err error) {
	total := len(pending)
	for round := 0; len(pending) > 0; round++ {
		ws := make([]write, len(pending))
		for i, p := range pending {
			ws[i] = p.write
		}
		var left []*plan
		for i, o := range s.commitInOrder(ctx, opApply, f, ws) {
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
		return false, objects.ErrConflict
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
	if a == nil || errors.Is(b, objects.ErrUnknown) && !errors.Is(a, objects.ErrUnknown) {
		return b
	}
	return a
}
