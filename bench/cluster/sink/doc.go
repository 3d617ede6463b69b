// Package sink holds the writing half of coordinator/kube against a real API server, under
// the role that schedulers have: what becomes of binds that come too late, what a patch
// leaves alone, which events there are in the end. Codes that a real one can't be made to
// answer are tested beside the code.
package sink
