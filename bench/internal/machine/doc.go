// Package machine says on what a figure was measured, the machine, its load, its disk, and the
// commit, and writes the reports of figures.
package machine
