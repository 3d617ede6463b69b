package shadow

import (
	"runtime"
	"sync"
	"time"
)

// Thread runs a function on a thread of its own and measures what processor time that takes.
type Thread struct {
	mu sync.Mutex
	// id is the thread's while the function runs, and used what the thread had used by the end. known: it can be measured.
	id    int
	used  time.Duration
	begun time.Duration
	known bool
}

// Run runs f. It is called once.
func (t *Thread) Run(f func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	t.mu.Lock()
	t.id = threadID()
	t.begun, t.known = threadTime(t.id)
	t.mu.Unlock()
	defer func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		now, _ := threadTime(t.id)
		t.used, t.id = now-t.begun, 0
	}()
	return f()
}

// Used is what f has used up to now; false: it is not known, for f has not begun or the system does not tell.
func (t *Thread) Used() (time.Duration, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.known && t.id != 0 {
		now, _ := threadTime(t.id)
		return now - t.begun, true
	}
	return t.used, t.known
}
