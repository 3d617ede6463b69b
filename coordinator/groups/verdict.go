package groups

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// State is how far a pod group has come.
type State uint8

// The states of pod groups.
const (
	Waiting       State = iota // not tried yet
	Gated                      // too few members exist, or there is no PodGroup
	Unschedulable              // too few members fit
	Preempting                 // room is being made
	Failed                     // an error ended the last attempt
	GivenUp                    // it was tried for as long as it asked to be
	Scheduled                  // enough members have a node
)

// MemberState is what the last attempt found of one member.
type MemberState uint8

// The states of members.
const (
	NotTried   MemberState = iota
	DoesNotFit             // no node takes it
	HeldBack               // a node takes it, but too few of its mates fit
	Fits                   // it has its node
)

// Verdict is what is known of why a pod group waits.
type Verdict struct {
	State State
	// Exist counts members, Need is the PodGroup's minCount; Fit includes Scheduled.
	Exist, Need, Scheduled, Fit int
	// Domain is the best one, such as "rack=r7", and DomainFits how many members fit there; "": there is none.
	Domain     string
	DomainFits int
	// Reasons are what excludes how many of the Nodes.
	Nodes   int
	Reasons map[string]int
	// Waits is what it waits for: "2 more pods of 16 in rack r7".
	Waits string
	// Base is upstream's sentence.
	Base string
	// Since is when the verdict became what it is.
	Since time.Time
	// Members are what was found of each member.
	Members map[types.UID]MemberState
}
