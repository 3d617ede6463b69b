package devices

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"

	"github.com/shardsched/shardsched/internal/testkit/claims"
)

// upstream is upstream's allocator, for one scene after the other.
type upstream struct{ cel *cel.Cache }

func newUpstream() *upstream {
	structured.EnableAllocators("incubating")
	return &upstream{cel: cel.NewCache(1000, cel.Features{EnableConsumableCapacity: true})}
}

// lister gives classes by name.
type lister map[string]*resourceapi.DeviceClass

func (l lister) List() ([]*resourceapi.DeviceClass, error) {
	return slices.Collect(maps.Values(l)), nil
}

func (l lister) Get(name string) (*resourceapi.DeviceClass, error) {
	if class, ok := l[name]; ok {
		return class, nil
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{Group: "resource.k8s.io", Resource: "deviceclass"}, name)
}

// allocator makes an allocator of a scene. It is made anew for each node, since it remembers counters from one node to
// the next.
func (u *upstream) allocator(scene *claims.Scene) (structured.Allocator, error) {
	state := structured.AllocatedState{
		AllocatedDevices: sets.New[structured.DeviceID](), AllocatedSharedDeviceIDs: sets.New[structured.SharedDeviceID](),
		AggregatedCapacity: structured.NewConsumedCapacityCollection(),
	}
	for i, used := range scene.Used {
		id := structured.MakeDeviceID(used.Driver, used.Pool, used.Device)
		if used.Whole {
			state.AllocatedDevices.Insert(id)
		}
		if used.Share {
			share := types.UID(fmt.Sprint("share-", i))
			state.AllocatedSharedDeviceIDs.Insert(structured.MakeSharedDeviceID(id, &share))
		}
		if used.Holds != nil {
			holds := structured.ConsumedCapacity{}
			for name, q := range used.Holds {
				holds[resourceapi.QualifiedName(name)] = &q
			}
			state.AggregatedCapacity[id] = holds
		}
	}
	f := scene.Features
	return structured.NewAllocator(context.Background(), structured.Features{
		AdminAccess: true, PrioritizedList: f.PrioritizedList, PartitionableDevices: f.PartitionableDevices, DeviceTaints: f.DeviceTaints,
		DeviceBindingAndStatus: f.BindingConditions, ConsumableCapacity: f.ConsumableCapacity,
	}, state, lister(scene.Classes), scene.Slices, u.cel)
}

// answer is written as claims.Answer writes ours.
func answer(scene *claims.Scene, result []resourceapi.AllocationResult, err error) string {
	switch {
	case errors.Is(err, structured.ErrFailedAllocationOnNode):
		return err.Error() + "\n"
	case err != nil:
		return "fatal: " + err.Error() + "\n"
	case result == nil:
		return "none\n"
	}
	var b strings.Builder
	for i := range result {
		fmt.Fprintf(&b, "%s:", scene.Claims[i].Name)
		for _, r := range result[i].Devices.Results {
			fmt.Fprintf(&b, "\n  %s %s/%s/%s", r.Request, r.Driver, r.Pool, r.Device)
			if r.AdminAccess != nil && *r.AdminAccess {
				b.WriteString(" admin")
			}
			if r.ShareID != nil {
				b.WriteString(" share")
			}
			for _, name := range slices.Sorted(maps.Keys(r.ConsumedCapacity)) {
				q := r.ConsumedCapacity[name]
				fmt.Fprintf(&b, " %s=%s", name, q.String())
			}
		}
		b.WriteByte('\n')
	}
	return b.String()
}
