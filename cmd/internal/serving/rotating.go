package serving

import (
	"os"
	"slices"
	"sync"
	"time"

	"k8s.io/klog/v2"
)

// rotating is what files hold. They are read again when one of them has changed.
type rotating[T any] struct {
	files []string
	read  func() (T, error)

	mu      sync.Mutex // guards what is below
	seen    []time.Time
	failed  bool // at the files of seen
	held    bool
	current T
}

// get is the newest that could be read: files caught halfway through a rotation keep what was
// there before.
func (r *rotating[T]) get() (T, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	times, err := modified(r.files)
	same := slices.Equal(times, r.seen)
	if err == nil && r.held && !r.failed && same {
		return r.current, nil
	}
	if err == nil {
		var next T
		if next, err = r.read(); err == nil {
			r.current, r.held = next, true
		}
	}
	if err != nil && r.held && !(r.failed && same) {
		klog.Background().Error(err, "Changed TLS files can't be read, what they held before stays in use", "files", r.files)
	}
	r.seen, r.failed = times, err != nil
	if r.held {
		return r.current, nil
	}
	return r.current, err
}

// modified are the times of files; a missing file leaves its time out.
func modified(files []string) (times []time.Time, err error) {
	for _, f := range files {
		info, statErr := os.Stat(f)
		if statErr != nil {
			err = statErr
			continue
		}
		times = append(times, info.ModTime())
	}
	return times, err
}
