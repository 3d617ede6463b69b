package oracle

import (
	"context"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	"k8s.io/dynamic-resource-allocation/resourceslice/tracker"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	"k8s.io/kubernetes/pkg/scheduler/util/assumecache"
	"k8s.io/utils/ptr"
)

// devices is upstream's own manager of dynamic resources, with its cache of claims, its index
// of devices in use and its map from names of extended resources to classes. It is told of claims and
// classes as they are put in; slices it reads from the informer's store.
type devices struct {
	*dynamicresources.DefaultDRAManager
	// claims is the claim cache's, classes the map's.
	claims, classes cache.ResourceEventHandler
	// allocated are the claims that Reserve has allocated since it was called.
	allocated []*resourcev1.ResourceClaim
	// stale says that a plugin may remember what is no longer so.
	stale bool
	// slices are those that there are, by name; nil: some have changed since.
	slices []*resourcev1.ResourceSlice
	// trial says that what Reserve allocates is not taken.
	trial bool
}

func newDevices(ctx context.Context, informers informers.SharedInformerFactory) (*devices, error) {
	tracked, err := tracker.StartTracker(ctx, tracker.Options{SliceInformer: informers.Resource().V1().ResourceSlices()})
	if err != nil {
		return nil, fmt.Errorf("track resource slices: %w", err)
	}
	d := &devices{}
	claims := assumecache.NewAssumeCache(klog.FromContext(ctx), d, "ResourceClaim", "", nil)
	d.DefaultDRAManager = dynamicresources.NewDRAManager(ctx, claims, tracked, informers)
	// With the feature gate DRAExtendedResource, which is on, the resolver is a handler of classes.
	d.classes = d.DeviceClassResolver().(cache.ResourceEventHandler)
	return d, nil
}

// AddEventHandler takes the handler of the cache of claims.
func (d *devices) AddEventHandler(h cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	d.claims = h
	return nil, nil
}

// ResourceClaims are the claims, with what Reserve allocates noted.
func (d *devices) ResourceClaims() fwk.ResourceClaimTracker {
	return claimTracker{d.DefaultDRAManager.ResourceClaims(), d}
}

// ResourceSlices lists slices by name, where upstream lists them in any order: of slices of a pool that disagree about the number
// of slices, the first counts.
func (d *devices) ResourceSlices() fwk.ResourceSliceLister { return sliceLister{d} }

type sliceLister struct{ d *devices }

// ListWithDeviceTaintRules is part of fwk.ResourceSliceLister.
func (l sliceLister) ListWithDeviceTaintRules() ([]*resourcev1.ResourceSlice, error) {
	if l.d.slices == nil {
		list, err := l.d.DefaultDRAManager.ResourceSlices().ListWithDeviceTaintRules()
		if err != nil {
			return nil, err
		}
		l.d.slices = slices.SortedFunc(slices.Values(list), func(a, b *resourcev1.ResourceSlice) int { return strings.Compare(a.Name, b.Name) })
	}
	return l.d.slices, nil
}

// set takes in an object; old is how it was before, nil: not there.
func (d *devices) set(old any, now Object) {
	d.changes(old)
	switch now := now.(type) {
	case *resourcev1.ResourceSlice:
		d.slices = nil
	case *resourcev1.ResourceClaim:
		d.claims.OnAdd(now, false) // for the cache of claims an update is the same
	case *resourcev1.DeviceClass:
		if old == nil {
			d.classes.OnAdd(now, false)
		} else {
			d.classes.OnUpdate(old, now)
		}
	}
}

// changes notes that an object is no longer as it was; nil: it is new.
func (d *devices) changes(old any) {
	switch old.(type) {
	case *v1.Node, *resourcev1.DeviceClass, *resourcev1.ResourceSlice:
		classes, _ := d.DeviceClasses().List() // no error is possible
		d.stale = d.stale || len(classes) > 0
	}
}

// remove takes in that an object is gone.
func (d *devices) remove(old any) {
	d.changes(old)
	switch old.(type) {
	case *resourcev1.ResourceSlice:
		d.slices = nil
	case *resourcev1.ResourceClaim:
		d.claims.OnDelete(old)
	case *resourcev1.DeviceClass:
		d.classes.OnDelete(old)
	}
}

// claimTracker notes the allocations that come to be in flight.
type claimTracker struct {
	fwk.ResourceClaimTracker
	d *devices
}

// SignalClaimPendingAllocation notes an allocation, and passes it on unless it is for trial. The ids of
// shares, which upstream draws at random, say whose they are.
func (t claimTracker) SignalClaimPendingAllocation(uid types.UID, allocated *resourcev1.ResourceClaim) error {
	of := string(allocated.UID)
	if owner := metav1.GetControllerOf(allocated); allocated.Name == SpecialClaim && owner != nil {
		of = string(owner.UID)
	}
	for i := range allocated.Status.Allocation.Devices.Results {
		if r := &allocated.Status.Allocation.Devices.Results[i]; r.ShareID != nil {
			r.ShareID = ptr.To(types.UID(fmt.Sprintf("%s/%d", of, i)))
		}
	}
	t.d.allocated = append(t.d.allocated, allocated)
	if t.d.trial {
		return nil
	}
	return t.ResourceClaimTracker.SignalClaimPendingAllocation(uid, allocated)
}

// SpecialClaim is the name of the claim that upstream makes for a pod's extended resources, as
// long as it is not created.
const SpecialClaim = "<extended-resources>"

// Allocations are the claims that upstream would allocate for the pod of a verdict on a feasible
// node, in the pod's order, as they would be then. Nothing is taken.
func (o *Oracle) Allocations(ctx context.Context, v *Verdict, node string) ([]*resourcev1.ResourceClaim, error) {
	ctx = klog.NewContext(ctx, quiet())
	p := v.cycle.profile
	for _, e := range p.ListPlugins().Reserve.Enabled {
		if e.Name != names.DynamicResources {
			continue
		}
		d := o.objects.devices
		d.allocated, d.trial = nil, true
		defer func() { d.trial = false }()
		status := p.plugins[e.Name].(fwk.ReservePlugin).Reserve(ctx, v.cycle.state, v.cycle.pod, node)
		if !status.IsSuccess() {
			return nil, fmt.Errorf("reserve devices for pod %s/%s on %s: %w", v.cycle.pod.Namespace, v.cycle.pod.Name, node, status.AsError())
		}
		return d.allocated, nil
	}
	return nil, nil
}

// Depart has a claim be in flight: its devices are taken, and nobody can use the claim, until Land.
func (o *Oracle) Depart(claim *resourcev1.ResourceClaim) error {
	return o.objects.devices.DefaultDRAManager.ResourceClaims().SignalClaimPendingAllocation(claim.UID, claim)
}

// Land ends the flight of a claim.
func (o *Oracle) Land(claim types.UID) {
	o.objects.devices.DefaultDRAManager.ResourceClaims().MaybeRemoveClaimPendingAllocation(claim, true)
}
