package scan

import "sync"

// Answers keeps the memory of answers that have been read, as much as a run needs. The zero
// value is ready, and safe for concurrent use.
type Answers struct{ pool sync.Pool }

// Take returns n answers for Run to fill.
func (a *Answers) Take(n int) []Answer {
	list, _ := a.pool.Get().(*[]Answer)
	if list == nil {
		return make([]Answer, n)
	}
	return sized((*list)[:cap(*list)], n)
}

// Put takes answers back that nobody reads any more.
func (a *Answers) Put(list []Answer) { a.pool.Put(&list) }
