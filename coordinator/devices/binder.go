package devices

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
)

const (
	// tries is how often a claim is written where others write to it, too; retryAfter is the pause between tries.
	tries      = 5
	retryAfter = 10 * time.Millisecond
	// checkPeriod is how long PreBind waits at the most before it looks again: time passes without waking it.
	checkPeriod = 5 * time.Second
)

// Writer writes claims to where they are kept. Each call is a write by itself: whoever takes over after any of them goes on
// from what is there.
type Writer interface {
	// Get is the claim as it is kept now.
	Get(ctx context.Context, namespace, name string) (*resourcev1.ResourceClaim, error)
	// Create makes a claim with a name of its own.
	Create(ctx context.Context, claim *resourcev1.ResourceClaim) (*resourcev1.ResourceClaim, error)
	// Update writes a claim, all but its status where there is a StatusWriter. The claim has to have the ResourceVersion that it
	// carries, else the error is a conflict.
	Update(ctx context.Context, claim *resourcev1.ResourceClaim) (*resourcev1.ResourceClaim, error)
	// Unreserve takes a pod from those that a claim is reserved for, whatever its version.
	Unreserve(ctx context.Context, claim *resourcev1.ResourceClaim, pod *v1.Pod) error
	Delete(ctx context.Context, claim *resourcev1.ResourceClaim) error
}

// StatusWriter writes what is kept apart from the objects that it is of.
type StatusWriter interface {
	// UpdateStatus writes the status of a claim, as Writer's Update.
	UpdateStatus(ctx context.Context, claim *resourcev1.ResourceClaim) (*resourcev1.ResourceClaim, error)
	// TellPod writes status.extendedResourceClaimStatus of a pod.
	TellPod(ctx context.Context, pod *v1.Pod, status *v1.PodExtendedResourceClaimStatus) error
}

// Meter counts what PreBind does.
type Meter interface {
	// ClaimCreated: a claim for extended resources was made, or was not.
	ClaimCreated(ok bool)
	// Waited: PreBind has waited for a device of a driver, with the outcome "success", "failure", "timeout" or "error".
	// conditioned: the device had to become ready.
	Waited(profile, driver, outcome string, conditioned bool, took time.Duration)
}

// BinderConfig is what a Binder is made of.
type BinderConfig struct {
	Writer Writer
	// Status writes statuses; nil: objects are kept whole. Then a claim takes one write, and not two, and a pod is told of its claim
	// for extended resources by its bind.
	Status StatusWriter
	// Pending is told that a pod's devices have to become ready on a node.
	Pending func(pod *v1.Pod, node string)
	Meter   Meter
	// Now and After are the clock; nil: the real one.
	Now   func() time.Time
	After func(time.Duration) <-chan time.Time
}

// Binder does the work of placements on goroutines of their own. It shares nothing with the scheduling goroutine but the
// API view.
type Binder struct {
	cfg     BinderConfig
	apiView *apiView
	lines   *lines
}

// Binder makes a binder for the works of this cache.
func (c *Cache) Binder(cfg BinderConfig) *Binder {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.After == nil {
		cfg.After = time.After
	}
	return &Binder{cfg: cfg, apiView: c.apiView, lines: newLines()}
}

// PreBind writes what was decided: allocation and reservation of each claim; then it waits until all devices are ready, or for
// as long as patience says. It may be called on any goroutine, once for each work. After an error, and after any later
// one before the pod is bound, the work is to be undone (Undo), and then unreserved on the scheduling goroutine.
func (b *Binder) PreBind(ctx context.Context, w *Work, profile string, patience time.Duration) error {
	if w == nil {
		return nil
	}
	for _, x := range w.claims {
		if isReserved(x.claim, x.consumer.UID) {
			continue
		}
		if err := b.bind(ctx, w, x); err != nil {
			return err
		}
	}
	if !slices.ContainsFunc(w.claims, func(x *claimWork) bool { return needsConditions(x.claim.Status.Allocation) }) {
		return nil
	}
	b.cfg.Pending(w.pod, w.node)
	begin := b.cfg.Now()
	err := b.wait(ctx, w, patience)
	b.measure(w, profile, outcome(err), b.cfg.Now().Sub(begin))
	return err
}

// bind writes one claim.
func (b *Binder) bind(ctx context.Context, w *Work, x *claimWork) error {
	if x.special {
		if err := b.create(ctx, w, x); err != nil {
			return err
		}
	}
	at, err := b.lines.enter(ctx, x.claim.UID)
	if err != nil {
		return err
	}
	defer b.lines.leave(at)
	claim := x.claim.DeepCopy()
	if at.newest != nil && newer(at.newest.ResourceVersion, claim.ResourceVersion) {
		claim = at.newest.DeepCopy()
	}
	err = b.reserve(ctx, w, x, claim)
	for try := 1; apierrors.IsConflict(err) && try < tries; try++ {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-b.cfg.After(retryAfter):
		}
		if claim, err = b.cfg.Writer.Get(ctx, claim.Namespace, claim.Name); err != nil {
			return fmt.Errorf("get updated claim %s after conflict: %w", keyOf(x.claim), err)
		}
		err = b.reserve(ctx, w, x, claim.DeepCopy())
	}
	if err == nil {
		at.newest = x.claim
	}
	if err != nil || !x.special {
		return err
	}
	status := &v1.PodExtendedResourceClaimStatus{RequestMappings: x.mappings, ResourceClaimName: x.claim.Name}
	if b.cfg.Status == nil {
		w.podStatus = status
		return nil
	}
	if err = b.cfg.Status.TellPod(ctx, w.pod, status); err != nil {
		return fmt.Errorf("update pod %s/%s ExtendedResourceClaimStatus: %w", w.pod.Namespace, w.pod.Name, err)
	}
	return nil
}

// create makes the claim for extended resources.
func (b *Binder) create(ctx context.Context, w *Work, x *claimWork) error {
	claim := x.claim.DeepCopy()
	claim.Name, claim.UID = "", ""
	made, err := b.cfg.Writer.Create(ctx, claim)
	b.cfg.Meter.ClaimCreated(err == nil)
	if err != nil {
		return fmt.Errorf("create claim for extended resources %s: %w", keyOf(claim), err)
	}
	x.claim, x.written = made, true
	if needsConditions(x.allocation) {
		b.apiView.add(w, made)
	}
	return nil
}

// reserve writes a claim as it is to be, in two steps where it lacks the finalizer: a claim that has devices must not go
// before these are given back. The claim has to be the one that the attempt saw, with the devices that it had then.
//
// Differs from upstream: there, devices are written into another claim of the name, and a pod is bound whose claim has got
// devices of another node since.
func (b *Binder) reserve(ctx context.Context, w *Work, x *claimWork, claim *resourcev1.ResourceClaim) error {
	key := keyOf(claim)
	if claim.DeletionTimestamp != nil || claim.UID != x.claim.UID {
		return fmt.Errorf("claim %s got deleted in the meantime", key)
	}
	verb := "add reservation"
	if x.allocation != nil {
		verb = "add allocation and reservation"
		has := claim.Status.Allocation
		byMate := has != nil && x.joint && sameDevices(has, x.allocation)
		switch {
		case byMate && isReserved(claim, x.consumer.UID):
			x.claim, x.written = claim, true
			return nil
		case byMate && x.consumer.Resource != podGroups:
		case has != nil:
			return fmt.Errorf("claim %s got allocated elsewhere in the meantime", key)
		default:
			var err error
			if claim, err = b.finalize(ctx, claim); err != nil {
				return fmt.Errorf("add finalizer to claim %s: %w", key, err)
			}
			claim.Status.Allocation = x.allocation.DeepCopy()
		}
	}
	if claim.Status.Allocation == nil {
		return fmt.Errorf("claim %s got deallocated elsewhere in the meantime", key)
	}
	if x.allocation == nil && !sameDevices(claim.Status.Allocation, x.claim.Status.Allocation) {
		return fmt.Errorf("claim %s got allocated elsewhere in the meantime", key)
	}
	claim.Status.ReservedFor = append(claim.Status.ReservedFor, x.consumer)
	if claim.Status.Allocation.AllocationTimestamp == nil {
		claim.Status.Allocation.AllocationTimestamp = &metav1.Time{Time: b.cfg.Now()}
	}
	now, err := b.updateStatus(ctx, claim)
	if err != nil {
		x.open = isOpen(err)
		return fmt.Errorf("%s to claim %s: %w", verb, key, err)
	}
	x.claim, x.written = now, true
	return nil
}

// finalize gives a claim the finalizer that it has to have before it has devices. It is written at once, where the status is apart.
func (b *Binder) finalize(ctx context.Context, claim *resourcev1.ResourceClaim) (*resourcev1.ResourceClaim, error) {
	if slices.Contains(claim.Finalizers, resourcev1.Finalizer) {
		return claim, nil
	}
	claim.Finalizers = append(claim.Finalizers, resourcev1.Finalizer)
	if b.cfg.Status == nil {
		return claim, nil
	}
	now, err := b.cfg.Writer.Update(ctx, claim)
	if err != nil {
		return nil, err
	}
	return now.DeepCopy(), nil
}

// updateStatus writes a claim with its status; the status alone, where that is kept apart.
func (b *Binder) updateStatus(ctx context.Context, claim *resourcev1.ResourceClaim) (*resourcev1.ResourceClaim, error) {
	if b.cfg.Status == nil {
		return b.cfg.Writer.Update(ctx, claim)
	}
	return b.cfg.Status.UpdateStatus(ctx, claim)
}

// sameDevices tells whether allocations are of the same devices and nodes. Whoever reserves a claim may write when it was
// allocated.
func sameDevices(a, b *resourcev1.AllocationResult) bool {
	return equality.Semantic.DeepEqual(a.Devices, b.Devices) && equality.Semantic.DeepEqual(a.NodeSelector, b.NodeSelector)
}

// isOpen tells whether a write may have come to pass although it ended in an error: the API has not refused it.
func isOpen(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return true
	}
	return status.Status().Code >= 500
}

// Undo takes back what PreBind has written for a pod that is not bound: its reservations, and the claim for extended
// resources. Allocations stay, for they may be of use to the next attempt. What fails is logged: the next attempt finds it.
func (b *Binder) Undo(ctx context.Context, w *Work) {
	if w == nil {
		return
	}
	for _, x := range w.claims {
		if x.open {
			b.lookAgain(ctx, w, x)
		}
		var err error
		switch {
		case x.special && x.written:
			err = b.Delete(ctx, x.claim)
			x.deleted = err == nil
		case !x.special && x.claim.Status.Allocation != nil && isReserved(x.claim, w.pod.UID):
			err = b.cfg.Writer.Unreserve(ctx, x.claim, w.pod)
		}
		if err != nil {
			klog.FromContext(ctx).Error(err, "A claim of a pod that is not bound is left as it is",
				"resourceclaim", klog.KObj(x.claim), "pod", klog.KObj(w.pod))
		}
	}
}

// lookAgain finds out whether a write has come to pass whose outcome is not known. If it has, the claim has its devices.
//
// Differs from upstream: there, devices count as free until the API tells of the claim.
func (b *Binder) lookAgain(ctx context.Context, w *Work, x *claimWork) {
	now, err := b.cfg.Writer.Get(ctx, x.claim.Namespace, x.claim.Name)
	if err == nil && now.UID == x.claim.UID && now.Status.Allocation != nil && isReserved(now, x.consumer.UID) {
		x.claim, x.written = now, true
	}
}

// Delete takes the finalizer from a claim, and deletes it.
func (b *Binder) Delete(ctx context.Context, claim *resourcev1.ResourceClaim) error {
	key := keyOf(claim)
	strip := func(claim *resourcev1.ResourceClaim) error {
		claim = claim.DeepCopy()
		claim.Finalizers = slices.DeleteFunc(claim.Finalizers, func(f string) bool { return f == resourcev1.Finalizer })
		if _, err := b.cfg.Writer.Update(ctx, claim); err != nil {
			return fmt.Errorf("update resourceclaim %s: %w", key, err)
		}
		return nil
	}
	err := strip(claim)
	for try := 1; apierrors.IsConflict(err) && try < tries; try++ {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-b.cfg.After(retryAfter):
		}
		now, again := b.cfg.Writer.Get(ctx, claim.Namespace, claim.Name)
		if again != nil {
			return fmt.Errorf("get resourceclaim %s: %w", key, again)
		}
		err = strip(now)
	}
	if err != nil {
		return err
	}
	return b.cfg.Writer.Delete(ctx, claim)
}

// wait waits until the devices of all claims are ready.
//
// Differs from upstream: it looks as soon as a claim is another, and not only every five seconds.
func (b *Binder) wait(ctx context.Context, w *Work, patience time.Duration) error {
	deadline := b.cfg.After(patience)
	for {
		done, err := b.check(w, patience)
		if done || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-deadline:
			return fmt.Errorf("%w: %w", errTimedOut, context.DeadlineExceeded)
		case <-w.wake:
		case <-b.cfg.After(checkPeriod):
		}
	}
}

func (b *Binder) check(w *Work, patience time.Duration) (bool, error) {
	for _, x := range w.claims {
		now, err := b.apiView.latest(x.claim)
		if err != nil {
			return false, err
		}
		x.claim = now
		ready, err := isReady(now)
		switch {
		case err != nil:
			return false, err
		case ready:
		case isTimedOut(now, b.cfg.Now(), patience):
			return false, fmt.Errorf("%w: claim=%s", errTimedOut, now.Name)
		default:
			return false, nil
		}
	}
	return true, nil
}

func outcome(err error) string {
	switch {
	case err == nil:
		return "success"
	case errors.Is(err, errTimedOut):
		return "timeout"
	case errors.Is(err, errFailed):
		return "failure"
	}
	return "error"
}

func (b *Binder) measure(w *Work, profile, outcome string, took time.Duration) {
	for _, x := range w.claims {
		if x.claim.Status.Allocation == nil {
			continue
		}
		for i := range x.claim.Status.Allocation.Devices.Results {
			r := &x.claim.Status.Allocation.Devices.Results[i]
			b.cfg.Meter.Waited(profile, r.Driver, outcome, len(r.BindingConditions) > 0, took)
		}
	}
}
