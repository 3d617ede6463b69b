package shadow

import (
	"encoding/json"
	"io"
	"time"
)

// Report is what a shadow has seen, as report.json has it. All of it is bounded, however large the cluster is and however long the
// shadow runs. Durations are in seconds.
type Report struct {
	When      When      `json:"when"`
	Cluster   Cluster   `json:"cluster"`
	Agreement Agreement `json:"agreement"`
	Latency   Latency   `json:"latency"`
	Cost      Cost      `json:"cost"`
	Packing   Packing   `json:"packing"`
	Verdict   Verdict   `json:"verdict"`
}

// When is the time that a report is about.
type When struct {
	Begun time.Time `json:"begun"`
	Until time.Time `json:"until"`
	// Over says that the report is the last one; otherwise the shadow goes on.
	Over bool `json:"over"`
}

// Cluster is what was looked at.
type Cluster struct {
	// Nodes is how many there are by the end.
	Nodes int `json:"nodes"`
	// Schedulers are those that pods named which came since the beginning, that of most pods first.
	Schedulers []SchedulerPods `json:"schedulers"`
}

// SchedulerPods is how many pods named a scheduler.
type SchedulerPods struct {
	Name string `json:"name"`
	Pods int    `json:"pods"`
	// Judged: it is one of our profiles.
	Judged bool `json:"judged"`
}

// Class is what came of holding one decision of theirs against ours.
type Class string

// The classes, from agreement to disagreement.
const (
	// Same: both chose the same node.
	Same Class = "same"
	// Tie: their node has the highest score, as others have.
	Tie Class = "tie"
	// Neither: no node takes the pod, for both.
	Neither Class = "neither"
	// Lower: their node has a lower score than ours. Its regret is above 0.
	Lower Class = "lower"
	// Refused: they chose a node that we would refuse, and we have another.
	Refused Class = "refused"
	// OnlyTheirs: they chose a node, and we would refuse all.
	OnlyTheirs Class = "only_theirs"
	// OnlyOurs: they found no node, and we have one.
	OnlyOurs Class = "only_ours"
	// Victims: both preempt, and other pods or on another node.
	Victims Class = "victims"
)

// Classes are all classes, in the order of reports.
func Classes() []Class {
	return []Class{Same, Tie, Neither, Lower, Refused, OnlyTheirs, OnlyOurs, Victims}
}

// Agreement is how far decisions agree.
type Agreement struct {
	// Judged is how many decisions were held against each other: the sum of Classes.
	Judged  int          `json:"judged"`
	Classes []ClassCount `json:"classes"`
	// States are how many decisions agree only at another state than that of the moment of their bind, by which one: they are made some
	// time before, and bound in another order.
	States []Count `json:"states"`
	// Regret is of all judged decisions that have both nodes and scores: 0 for those of class same and tie.
	Regret []RegretBin `json:"regret"`
	// RegretSum is what all of them add up to.
	RegretSum int64 `json:"regretSum"`
	// LookedAt is the share of the nodes that they looked at for a pod, by their percentageOfNodesToScore; 1: at all.
	LookedAt float64 `json:"lookedAt"`
	// Workloads are those with the highest sum of regret, that first.
	Workloads []WorkloadRegret `json:"workloads"`
	// Disagreements are decisions that ours are not, the gravest class first: no more than MaxDisagreements of a class, but for Refused and
	// OnlyTheirs, of which more are kept; as many have explanations.
	Disagreements []Disagreement `json:"disagreements"`
	// NotJudged are decisions that could not be held against each other.
	NotJudged []Count `json:"notJudged"`
}

// MaxDisagreements is how many disagreements of a class a report tells of one by one.
const MaxDisagreements = 100

// ClassCount is how many decisions are of a class.
type ClassCount struct {
	Class Class `json:"class"`
	Pods  int   `json:"pods"`
}

// RegretBin is how many decisions have a regret of From to To points.
type RegretBin struct {
	From int64 `json:"from"`
	To   int64 `json:"to"`
	Pods int   `json:"pods"`
}

// WorkloadRegret is what the choices for the pods of a workload add up to.
type WorkloadRegret struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Pods      int    `json:"pods"`
	Lower     int    `json:"lower"`
	Regret    int64  `json:"regret"`
	// Example is a pod of it with the highest regret.
	Example string `json:"example,omitempty"`
}

// Disagreement is one decision of theirs that ours is not.
type Disagreement struct {
	When      time.Time `json:"when"`
	Class     Class     `json:"class"`
	Namespace string    `json:"namespace"`
	Pod       string    `json:"pod"`
	Workload  string    `json:"workload,omitempty"`
	// Theirs and Ours are the nodes; empty: none.
	Theirs string `json:"theirs,omitempty"`
	Ours   string `json:"ours,omitempty"`
	// Regret is in points of score; 0 where the class has none.
	Regret int64 `json:"regret,omitempty"`
	// Why says in words what speaks against their node, or for ours.
	Why string `json:"why"`
	// Explanation is what `shardsched explain` tells of the decision, in several lines.
	Explanation string `json:"explanation,omitempty"`
}

// Count is how many pods something is true of.
type Count struct {
	What string `json:"what"`
	Pods int    `json:"pods"`
}

// Latency is how long pods waited, theirs beside ours.
type Latency struct {
	// Theirs is from when a pod was seen without a node and without gates until it was seen on one, by this process's clock.
	Theirs Quantiles `json:"theirs"`
	// TheirsByStatus is what the pods themselves say: from their creation, or the end of their gates, to the time of their condition
	// PodScheduled. These times are in whole seconds.
	TheirsByStatus Quantiles `json:"theirsByStatus"`
	// Ours is from when a pod was seen until the own world had a node for it. It has no bind in it.
	Ours Quantiles `json:"ours"`
	// ByQueue is the same by how many pods waited as the pod was seen.
	ByQueue []QueueLatency `json:"byQueue"`
}

// Quantiles are those of a time in seconds, of so many pods.
type Quantiles struct {
	Pods int     `json:"pods"`
	P50  float64 `json:"p50"`
	P99  float64 `json:"p99"`
}

// QueueLatency is the latency of pods that came while From to To others waited; To is 0 where there is no upper bound.
type QueueLatency struct {
	From   int       `json:"from"`
	To     int       `json:"to,omitempty"`
	Theirs Quantiles `json:"theirs"`
	Ours   Quantiles `json:"ours"`
}

// Cost is the processor time that deciding took.
type Cost struct {
	// Theirs is nil where it is not known; TheirsUnknown says why.
	Theirs        *CPU   `json:"theirs,omitempty"`
	TheirsUnknown string `json:"theirsUnknown,omitempty"`
	// Ours is that of this process without the mirror: watching, and deciding in the own world. It has no writes in it. nil where it can't
	// be measured.
	Ours *CPU `json:"ours,omitempty"`
	// Deciding is the part of Ours that the own world's loop took, and Mirror what judging took besides.
	Deciding float64 `json:"deciding,omitempty"`
	Mirror   float64 `json:"mirror,omitempty"`
	// Ratio is theirs by ours, of a pod; 0: it is not known.
	Ratio float64 `json:"ratio,omitempty"`
}

// CPU is processor time in seconds, for so many pods that found a node.
type CPU struct {
	Seconds float64 `json:"seconds"`
	Pods    int     `json:"pods"`
	PerPod  float64 `json:"perPod"`
}

// Packing is how pods lie on the nodes, in the real cluster and in the own world.
type Packing struct {
	// Points are in the order of time, MaxPoints at the most: where there would be more, every second one is left out.
	Points []Point `json:"points"`
	// Compared is how many pods that came since the beginning are in both worlds, and Left how many are left out, by why.
	Compared int     `json:"compared"`
	Left     []Count `json:"left"`
	// Drift is the share of Left in both together.
	Drift float64 `json:"drift"`
	// Pinned are pods that are compared, and of which something real has narrowed the choice that ours had.
	Pinned []Count `json:"pinned"`
}

// MaxPoints bounds how many points of time a report has.
const MaxPoints = 1000

// Point is both worlds at one time.
type Point struct {
	At     time.Time `json:"at"`
	Theirs World     `json:"theirs"`
	Ours   World     `json:"ours"`
}

// World is how pods lie on the nodes of one world.
type World struct {
	// NodesInUse have a pod that is not of a DaemonSet, nor static.
	NodesInUse int             `json:"nodesInUse"`
	Resources  []ResourceShare `json:"resources"`
	// Skew is the requested share of cpu of the fullest zone less that of the emptiest.
	Skew float64 `json:"skew"`
	// Pending is how many pods of judged profiles wait, and PendingMinutes for how long such pods waited up to now, added up.
	Pending        int     `json:"pending"`
	PendingMinutes float64 `json:"pendingMinutes"`
	// Preempted is how many pods had to leave for others up to now.
	Preempted int `json:"preempted"`
}

// ResourceShare is how much of a resource the nodes have is requested.
type ResourceShare struct {
	Resource string `json:"resource"`
	// Requested and Stranded are shares of what all nodes have. Stranded is free, and no pod can have it, for its node has another
	// resource used up.
	Requested float64 `json:"requested"`
	Stranded  float64 `json:"stranded"`
	// LargestFree is the most that one node has free: cpu in thousandths, other resources in their unit.
	LargestFree int64 `json:"largestFree"`
}

// Verdict is whether this scheduler may take over.
type Verdict struct {
	Ready bool `json:"ready"`
	// Hindrances are what stands in the way; none where Ready.
	Hindrances []Count `json:"hindrances"`
	// Reservations are what to know that does not stand in the way.
	Reservations []Count `json:"reservations"`
	// Next is what to do, and the page that tells how.
	Next string `json:"next"`
	Page string `json:"page"`
}

// WriteJSON writes the report as one indented JSON object.
func (r *Report) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(r)
}
