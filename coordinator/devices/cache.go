package devices

import (
	"time"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/shardsched/shardsched/coordinator/objects"
)

// Config is what a Cache is made of.
type Config struct {
	// Now is the clock.
	Now func() time.Time
	// NewUID makes an id that nobody else has: of a share, or of a claim that is in memory only.
	NewUID func() types.UID
	// PodGroup is the PodGroup that a pod names, where claims of PodGroups count; nil: they do not.
	PodGroup func(pod *v1.Pod) PodGroup
	// Mates: pods of a PodGroup share the claims that several of them name, while these are in flight.
	Mates bool
}

// Cache is what the coordinator knows of devices. All of it belongs to the scheduling goroutine, but for the
// API view.
type Cache struct {
	cfg     Config
	apiView *apiView

	slices map[string]*resourcev1.ResourceSlice
	pools  map[poolKey]*pool

	classes map[string]*resourcev1.DeviceClass
	mapping mapping

	claims map[types.NamespacedName]*resourcev1.ResourceClaim
	// special are the claims for extended resources by the pod that owns them.
	special special
	flights map[types.UID]*flight
	// landing are those of claims that PreBind has made, and of which the API has not told yet, by the uid of the
	// pod.
	landing map[types.UID]*flight
	// notServed says that the API server has no kinds of devices.
	notServed bool
}

// New makes an empty cache.
func New(cfg Config) *Cache {
	return &Cache{
		cfg:     cfg,
		apiView: newAPIView(),
		slices:  map[string]*resourcev1.ResourceSlice{},
		pools:   map[poolKey]*pool{},
		classes: map[string]*resourcev1.DeviceClass{},
		mapping: mapping{},
		claims:  map[types.NamespacedName]*resourcev1.ResourceClaim{},
		special: special{},
		flights: map[types.UID]*flight{},
		landing: map[types.UID]*flight{},
	}
}

// NotServed says that the API server has no kinds of devices. It holds until the first object of them comes.
func (c *Cache) NotServed() { c.notServed = true }

// Set takes in an object of the API that is new or changed; other kinds are left alone.
func (c *Cache) Set(now objects.Object) (told Changes) {
	switch now := now.(type) {
	case *resourcev1.ResourceSlice:
		c.notServed = false
		c.setSlice(now, &told)
	case *resourcev1.ResourceClaim:
		c.notServed = false
		c.setClaim(now, &told)
	case *resourcev1.DeviceClass:
		c.notServed = false
		c.mapping.set(c.classes[now.Name], now)
		c.classes[now.Name] = now
	}
	return told
}

// Delete takes in that an object of the API is gone. A pod takes the claim with it that was made for it and
// never seen.
func (c *Cache) Delete(last objects.Object) (told Changes) {
	switch last := last.(type) {
	case *resourcev1.ResourceSlice:
		c.deleteSlice(last.Name, &told)
	case *resourcev1.ResourceClaim:
		c.deleteClaim(keyOf(last), &told)
	case *resourcev1.DeviceClass:
		c.mapping.delete(last)
		delete(c.classes, last.Name)
	case *v1.Pod:
		c.podGone(last.UID, &told)
	}
	return told
}

// Claim is a claim as it counts; nil: there is none.
func (c *Cache) Claim(namespace, name string) *resourcev1.ResourceClaim {
	return c.claims[types.NamespacedName{Namespace: namespace, Name: name}]
}

// Class is a device class; nil: there is none.
func (c *Cache) Class(name string) *resourcev1.DeviceClass { return c.classes[name] }
