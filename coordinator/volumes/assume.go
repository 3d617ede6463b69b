package volumes

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// object is what the assume cache asks of a pointer to an API object.
type object interface {
	comparable
	metav1.Object
}

// assumable is an object as the API has it, with what placements have assumed of it.
// The zero value stands for an object that is not there.
type assumable[T object] struct {
	api     T
	assumed *assumption[T]
}

// assumption is an object as it is to be written, held by the placements that rest on it.
type assumption[T object] struct {
	object  T
	holders int
}

// latest is the object as placements see it.
func (a *assumable[T]) latest() T {
	if a.assumed != nil {
		return a.assumed.object
	}
	return a.api
}

// set takes in the API's object. It replaces what was assumed, unless it has the version that the
// assumption was made of: then it tells nothing new.
func (a *assumable[T]) set(now T) {
	if a.assumed != nil && (now.GetResourceVersion() == "" || now.GetResourceVersion() != a.assumed.object.GetResourceVersion()) {
		a.assumed = nil
	}
	a.api = now
}

// assume puts an object in the place of the API's.
func (a *assumable[T]) assume(now T) *assumption[T] {
	a.assumed = &assumption[T]{object: now, holders: 1}
	return a.assumed
}

// share adds a holder to the present assumption; nil where there is none.
func (a *assumable[T]) share() *assumption[T] {
	if a.assumed != nil {
		a.assumed.holders++
	}
	return a.assumed
}

// release takes a holder off; after the last one the API's object counts again. An
// assumption that was replaced since has no effect any more. It reports whether the
// latest object changes.
//
// Differs from upstream: where two pods rest on one assumption (they share a claim),
// upstream drops it as soon as one of them is unreserved.
func (a *assumable[T]) release(x *assumption[T]) bool {
	if x == nil || a.assumed != x {
		return false
	}
	x.holders--
	if x.holders > 0 {
		return false
	}
	a.assumed = nil
	return true
}
