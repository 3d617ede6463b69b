// Package client calls the leading coordinator, wherever it is.
//
// It knows some addresses and tries them in turn. A follower's refusal names the
// leader, which is asked next; where nobody leads, or nobody answers, it tries
// again until its patience is over.
//
//	          answer
//	ask ───────────────────────────────▶ done
//	 ▲ │ NotLeader{leader} ─▶ ask that one
//	 │ │ NotLeader{}, UNAVAILABLE ─▶ next address, after a pause
//	 └─┘ anything else ───────────────▶ the caller's error
//
// With Config.Find the API server is asked who leads, before the first round and before each other; then what followers know is not
// looked at. Where nobody listens on this machine, where whoever listens speaks something else, or where a kube-scheduler leads, no
// patience helps, and the error says what is the matter.
//
// A call that was repeated may have been carried out twice: Apply and Delete
// come to the same, but may say "unchanged" of what the first try created.
package client
