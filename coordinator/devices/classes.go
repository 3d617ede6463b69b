package devices

import (
	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
)

// mapping finds the class of devices that serves an extended resource: one that the class names, and the
// implicit one that every class has. Which class has a name that several claim depends on the order in which
// they come, as upstream's extendedresourcecache has it.
type mapping map[v1.ResourceName]*resourcev1.DeviceClass

func implicit(c *resourcev1.DeviceClass) v1.ResourceName {
	return v1.ResourceName(resourcev1.ResourceDeviceClassPrefix + c.Name)
}

func explicit(c *resourcev1.DeviceClass) (v1.ResourceName, bool) {
	if c.Spec.ExtendedResourceName == nil {
		return "", false
	}
	return v1.ResourceName(*c.Spec.ExtendedResourceName), true
}

// set takes in a class; old is the class before, nil where it is new. A class whose name an other has, that is
// younger or of the same age and of a smaller name, changes nothing. That other may be the class itself, as
// it was before.
func (m mapping) set(old, now *resourcev1.DeviceClass) {
	name, named := explicit(now)
	if named {
		if holder := m[name]; holder != nil {
			// Both are compared in nanoseconds, where the times before 1678 wrap round as upstream's do.
			mine, its := now.CreationTimestamp.UnixNano(), holder.CreationTimestamp.UnixNano()
			if mine < its || mine == its && now.Name >= holder.Name {
				return
			}
		}
	}
	if old != nil {
		m.delete(old)
	}
	if named {
		m[name] = now
	}
	m[implicit(now)] = now
}

// delete drops both names of a class, whoever has them.
func (m mapping) delete(old *resourcev1.DeviceClass) {
	delete(m, implicit(old))
	if name, named := explicit(old); named {
		delete(m, name)
	}
}

// ClassOf is the class that serves an extended resource; nil: none does.
func (c *Cache) ClassOf(name v1.ResourceName) *resourcev1.DeviceClass { return c.mapping[name] }

// Serves is part of queue.Claims.
func (c *Cache) Serves(resource string) bool { return c.mapping[v1.ResourceName(resource)] != nil }
