package rules

import "github.com/shardsched/shardsched/coordinator/queue"

// objects are the event's object before it and after it: the first is nil where the object is new, the second where it is
// gone.
func objects[T any](e *queue.Event) (old, now T) {
	was, is := e.Objects()
	old, _ = was.(T)
	now, _ = is.(T)
	return old, now
}
