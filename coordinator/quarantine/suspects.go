package quarantine

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

const (
	// Time is how long a suspect is not evaluated. It is longer than a pod's backoff, so that the same bug is met rarely.
	Time = 5 * time.Minute
	// MaxSuspects bounds the memory of suspects. With more of them all are released.
	MaxSuspects = 1024
)

// Suspect is a class that met a bug, or a pod without a class.
type Suspect struct {
	Class uint64
	Pod   types.UID
}

// Suspects are not evaluated.
type Suspects struct {
	now  func() time.Time
	list map[Suspect]confinement
}

// confinement is how long a suspect is not evaluated, and why.
type confinement struct {
	until time.Time
	why   error
}

// NewSuspects makes a list without a suspect.
func NewSuspects(now func() time.Time) *Suspects {
	return &Suspects{now: now, list: map[Suspect]confinement{}}
}

// Add has a suspect not evaluated for a time, and gives the error in which its attempts end.
func (s *Suspects) Add(x Suspect, why error) error {
	if len(s.list) >= MaxSuspects {
		clear(s.list)
	}
	err := fmt.Errorf("%w; not tried again for %s", why, Time)
	s.list[x] = confinement{s.now().Add(Time), err}
	return err
}

// Why is why a suspect is not evaluated; nil: it is evaluated. A suspect whose time is over is released.
func (s *Suspects) Why(x Suspect) error {
	if len(s.list) == 0 {
		return nil
	}
	c, ok := s.list[x]
	if ok && !s.now().Before(c.until) {
		delete(s.list, x)
		ok = false
	}
	if !ok {
		return nil
	}
	return c.why
}

// Len is how many suspects there are.
func (s *Suspects) Len() int { return len(s.list) }
