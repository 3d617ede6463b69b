//go:build !linux

package shadow

import "time"

func threadID() int { return 0 }

func threadTime(int) (time.Duration, bool) { return 0, false }

func processTime() (time.Duration, bool) { return 0, false }
