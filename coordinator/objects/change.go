package objects

import (
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"
)

// EventType is what happened to an object.
type EventType int

// What happens to objects.
const (
	Added EventType = iota + 1
	Modified
	Deleted
)

// String is the word that Kubernetes uses.
func (t EventType) String() string {
	switch t {
	case Added:
		return "ADDED"
	case Modified:
		return "MODIFIED"
	case Deleted:
		return "DELETED"
	}
	return fmt.Sprintf("EventType(%d)", int(t))
}

// Event is one change. Node is set where a node has changed, Pod where a pod has, and Object for
// every other kind. With Deleted it is the object as it was before.
type Event struct {
	Type   EventType
	Kind   Kind
	Node   *v1.Node
	Pod    *v1.Pod
	Object Object
	// Revision is the revision of the change; with Added and Modified also the object's
	// resourceVersion.
	Revision int64
}

// Any is the object that the event is about, of whatever kind.
func (e *Event) Any() Object {
	switch {
	case e.Node != nil:
		return e.Node
	case e.Pod != nil:
		return e.Pod
	}
	return e.Object
}

// Snapshot is all objects as they were at one moment.
type Snapshot struct {
	Nodes []*v1.Node
	// Pods are in the order in which they were created; pods of one transaction by name.
	Pods []*v1.Pod
	// Cluster holds the objects of all other kinds, in the order of Kinds.
	Cluster []Object
	// NoDevices says that there is nobody who keeps kinds of devices: an API server that does not serve resource.k8s.io/v1.
	NoDevices bool
	// Revision is the revision in etcd after which a watch continues. 0: the objects are from an API
	// server, or from files.
	Revision int64
}

// Binding asks for a pod to be put on a node.
type Binding struct {
	// Pod is the pod as it was read: its ResourceVersion is compared. It is not changed.
	Pod *v1.Pod
	// Node is written to spec.nodeName; nobody checks that it exists.
	Node string
	// ClaimStatus is written to status.extendedResourceClaimStatus; nil: it stays as it is. An API server is told before.
	ClaimStatus *v1.PodExtendedResourceClaimStatus
}

// Why a write was refused, or has no outcome. Besides these there is lease.ErrDeposed.
var (
	// ErrConflict says that the object was changed since it was read.
	ErrConflict = errors.New("changed meanwhile")
	// ErrNotFound says that the object does not exist (any more).
	ErrNotFound = errors.New("not found")
	// ErrAlreadyBound says that the pod is on a node already.
	ErrAlreadyBound = errors.New("already bound")
	// ErrUnknown says that no answer came: the write may have happened or not.
	ErrUnknown = errors.New("outcome unknown")
)
