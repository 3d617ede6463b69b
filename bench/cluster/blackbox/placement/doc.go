// Package placement holds, on a real API server, what each rule does by itself: every
// filter in a profile that has no other, every score in a profile that has no other, and
// then all of them together as the default profile has them.
package placement
