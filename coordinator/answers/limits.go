package answers

import (
	"cmp"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// Limits bound what an engine keeps and does. Zero fields take their defaults.
type Limits struct {
	// Sharers is from how many classes of a base on they share an answer: 2.
	Sharers int
	// Bases is how many bases are known: 1,024. Views is how many views are kept: 4,096.
	Bases, Views int
	// SharedRows is how many rows a shared answer may have repaired, of some 300 bytes each: twice as many as there are nodes, so
	// that one that has repaired all goes on, and 1 << 17 in any case. AllOwnRows is how many own rows all views may have, of
	// some 150 bytes each: twice as many as there are nodes, and 1 << 18 in any case. AllSharedRows is how many all shared answers
	// may have repaired when a batch begins: four times as many as there are nodes, and 1 << 20 in any case.
	SharedRows, AllOwnRows, AllSharedRows int
	// OwnRows is how many own rows a view may have for each class of its base: 32. OwnShare is the part of all rows that
	// a view may have in any case: 1/32. OwnMost is the part that a view may have however many classes its base has:
	// 1/8; and OwnFew is how many rows in a small cluster: 512.
	OwnRows, OwnShare, OwnMost, OwnFew int
	// CountedClasses is how many classes of a base are counted: 1,024.
	CountedClasses int
	// PassedRows is how many own rows a view may walk past to find others, beside OwnRows for each class of its base and
	// decision: 1 << 14.
	PassedRows int
	// DirtyRows is how many changes a view takes in before it begins anew: 1,024.
	DirtyRows int
	// Moves is how many moves of rows a shared answer keeps before its views begin anew: 1 << 16.
	Moves int
	// SweptRows is how many outdated entries a heap of rows may hold in any case: 64.
	SweptRows int
}

func (l *Limits) setDefaults() {
	for field, value := range map[*int]int{
		&l.Sharers: 2, &l.Bases: 1024, &l.Views: 4096,
		&l.OwnRows: 32, &l.OwnShare: 32, &l.OwnMost: 8, &l.OwnFew: 512, &l.CountedClasses: 1024,
		&l.PassedRows: 1 << 14, &l.DirtyRows: 1024, &l.Moves: 1 << 16, &l.SweptRows: 64,
	} {
		if *field == 0 {
			*field = value
		}
	}
}

func (l *Limits) sharedRows(nodes int) int { return cmp.Or(l.SharedRows, max(1<<17, 2*nodes)) }

func (l *Limits) allSharedRows(nodes int) int { return cmp.Or(l.AllSharedRows, max(1<<20, 4*nodes)) }

func (l *Limits) allOwnRows(nodes int) int { return cmp.Or(l.AllOwnRows, max(1<<18, 2*nodes)) }

const (
	// SparePods is how many pods another answer within a batch is to serve: more pods of the class may
	// follow, and other classes use up rows, too.
	SparePods = 192
	// heldRows is how many rows all held answers may have repaired, of some 300 bytes
	// each, and heldRowsMax how many one answer may have repaired.
	heldRows, heldRowsMax = 1 << 18, 1 << 14
	// groupedShare divides the number of candidates of each group where rows are grouped by
	// domains: pods use up candidates of all groups, so each group needs fewer.
	groupedShare = 4
	// fewGroups and manyGroups are how many large groups a class may have without and with domains.
	fewGroups, manyGroups = 4, 64
	// firstHeld is for how many changes the first answer of a class is to be held. heldGrowth is how many times longer
	// an answer is to be held than the answer before was. More candidates would often stay unused, and to sort and send
	// them is most of an answer's cost: a lone pod of a new workload waits for them, in each of its groups.
	firstHeld, heldGrowth = 128, 4
	// heldByPod is for how many changes an answer is held at the most for each pod of the batch, leastHeld for how many it may be
	// in any case: a pod that comes alone waits for no more. A shared answer is as long as it may be.
	heldByPod, leastHeld = 256, 512
	// maxAsks bounds the answers for one pod. The second answer is of this very moment, so a third says that
	// workers and own tables disagree: then the own tables answer.
	maxAsks = 2
	// fewNodes is the largest number of nodes left by a PreFilter whose rows are judged here: for so few a round to
	// the workers costs more.
	fewNodes = 8
)

// heldBy is how many rows the answer of a class may have repaired, where so many classes have answers.
func heldBy(classes int) int { return min(heldRows/max(classes, 1), heldRowsMax) }

// heldFor is for how many changes an answer that serves a batch of so many pods is to be held behind it. That depends on how many
// rows the answer before had repaired.
func heldFor(q *pb.Query, pods, classes, repaired int) int {
	held := heldBy(classes)
	if len(q.GetDomainKeys()) > 0 {
		held /= groupedShare
	}
	if repaired < heldRowsMax {
		held = min(held, max(leastHeld, heldByPod*pods))
	}
	growth := heldGrowth
	if repaired == 0 && len(q.GetDomainKeys()) > 0 {
		growth = 1 // there are many groups, and the first answer tells how many candidates are used
	}
	return min(held, max(firstHeld, growth*pods, growth*repaired))
}

// candidates is how many candidates a group offers in an answer that is to serve a batch of so many pods, and the changes
// after it.
func candidates(q *pb.Query, pods, classes, repaired int) int {
	return min(heldFor(q, pods, classes, repaired)+pods+1, pb.MaxCandidates)
}

// TopRows is how many rows a decision can be told with: the chosen one and those that come next.
const TopRows = 3

// candidatesOnce is candidates for a class that has come for the first time, or not for long, and may not come again while an
// answer could be held: so many pods may take rows before its pod has its turn.
func candidatesOnce(pods int) int { return min(pods+TopRows, pb.MaxCandidates) }

// Offers is how many candidates the answer to a need may have in a cluster of so many nodes.
func (n *Need) Offers(nodes int) int {
	groups := fewGroups
	if n.Class.HasGroups() {
		groups = manyGroups
	}
	return min(groups*n.Candidates, nodes)
}

// everyRow is candidates for an answer that has to name all feasible rows.
func everyRow(nodes, ordinary int) int { return max(min(nodes, pb.MaxCandidates), ordinary) }
