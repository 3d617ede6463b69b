// Package preemption holds, on a real API server, what becomes of pods that are more important than
// those in their way: who has to leave, which node is nominated, how victims are told, and what is
// left of it all when the cluster changes meanwhile.
package preemption
