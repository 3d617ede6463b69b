//go:build !unix

package cli

import "os"

// debugSignals are none: there is no signal that does not end the process.
func debugSignals() []os.Signal { return nil }
