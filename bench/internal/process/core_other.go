//go:build !linux

package process

import (
	"errors"
	"time"
)

// Cores needs Linux.
func Cores() ([]int, error) { return nil, errors.ErrUnsupported }

// onCore needs Linux.
func onCore(int, func() error) error { return errors.ErrUnsupported }

// Stay needs Linux.
func Stay(int) (back func() error, err error) { return nil, errors.ErrUnsupported }

// CPU needs Linux.
func (p *Process) CPU() (time.Duration, error) { return 0, errors.ErrUnsupported }
