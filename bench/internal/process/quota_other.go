//go:build !linux

package process

import (
	"errors"
	"time"
)

// Quota needs Linux.
type Quota struct{}

// NewQuota needs Linux.
func NewQuota(string, time.Duration, time.Duration) (*Quota, error) {
	return nil, errors.ErrUnsupported
}

// String is empty, as there is none.
func (*Quota) String() string { return "" }

// Add needs Linux.
func (*Quota) Add(*Process) error { return errors.ErrUnsupported }

// Throttled needs Linux.
func (*Quota) Throttled() (time.Duration, error) { return 0, errors.ErrUnsupported }

// Close has nothing to remove.
func (*Quota) Close() error { return nil }
