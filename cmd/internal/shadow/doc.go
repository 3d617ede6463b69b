// Package shadow runs beside another scheduler of a live cluster, decides what that one decides, and binds nothing.
//
// # Words
//
//	theirs      the scheduler that is there: it binds
//	ours        what this module decides
//	judged      the profiles whose pods are held against each other; pods of other schedulers are only counted
//	mirror      the cluster as it is: at each bind of theirs the pod is judged at the state that it was decided on
//	own world   a second cluster, in which the pods of judged profiles are where ours puts them, and leave when the real ones do
//	regret      by how many points of score a node is better than the one that was chosen
//	drift       the share of the pods that the own world can't have as the real cluster does; they are left out of the verdict
package shadow
