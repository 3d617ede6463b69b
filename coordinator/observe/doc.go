// Package observe tells people and dashboards about the loop: metrics, logs, explanations, summaries and dumps.
//
// # What the loop tells
//
//	loop ──> Meters       metrics, and the counts of summaries
//	     ──> History      the last decisions of each pod ──> explanations, and the next leader's
//	     ──> DecisionLog  every decision, a line of JSON
//	     ──> AttemptLog   attempts without a node, some of them ──> the log
//	     ──> Bugs         panics that were recovered ──> the log
//	     ──> Heartbeat    turns ──> health checks
//
// The loop reads nothing of it back to decide.
//
// # What others read
//
//	Reads     one bounded step a turn: explanations, summaries, dumps
//	Explainer where a pod is, and why <── Placed, Loop
//	judging   all rows for one pod    <── answers.Reader
//	Summary   shards, pods that wait  <── Cluster, Queue
//	Pending   what pods wait for      <── Queue, all nodes
//	Decisions what was decided        <── History
//	Debugger  nodes, pods, the queue  <── Cluster, Queue
//
// A read sees the loop through interfaces that can neither change its state nor end its term. An explanation needs its pod off
// the node for a while: the loop takes the pod off before a step, and puts it back after the step (Loop.Without).
//
// DecisionLog, Heartbeat, Bugs and the calls of Reads that wait may be used by any goroutine. All else belongs to the loop's.
//
// # Words
//
//	turn        one pass of the loop: a part of its inbox, then a batch
//	attempt     one try to place a pod
//	decision    the end of an attempt: a node, victims, or a refusal
//	arrival     how a pod came to its node, where no decision for that node is remembered
//	unplaced    an attempt that ended without a node
//	read        a question about the loop's state: an explanation, a summary, a dump
//	step        the bounded part of a read that one turn does
//	to judge    to evaluate a row for one pod, with the score or the reasons spelled out
//	cause       what a pod wants and does not get, in words (rules.Words)
//	shortage    the first request of a pod's claims that no devices of a node meet, and what keeps them from it
//	verdict     what judging found for one node that was asked for
//	bug         a panic that was recovered; it ends a read or an attempt, never the term
//	note        a remark in an explanation
//	rest        the time in which no pod can be decided
//	meter       counts for both the metrics and the summaries
package observe
