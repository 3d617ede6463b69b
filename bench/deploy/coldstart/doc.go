// Package coldstart starts everything at once, as after a power cut: who comes first waits for the others, for as long as it
// takes, and the first pod is bound once all are there. All addresses are IP addresses; no name is looked up.
package coldstart
