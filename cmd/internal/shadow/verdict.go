package shadow

import "fmt"

const (
	// enough is how many decisions have to be judged for a verdict.
	enough = 100
	// muchUnjudged is the share of decisions that could not be judged, and muchDrift that of the pods which the own world can't have as the
	// real cluster does, from which on too much is not known.
	muchUnjudged, muchDrift = 0.05, 0.2
	// muchMore is by how much more nodes in use are told of: a few more or less come of ties.
	muchMore = 1.05
)

// Judge fills in the verdict, by what else the report has. lacks is what the configuration asks for and the shadow, or this scheduler, does
// not have, with the pods that need it.
func (r *Report) Judge(lacks []Count) {
	a, v := &r.Agreement, Verdict{Hindrances: []Count{}, Reservations: []Count{}}
	hinders := func(pods int, format string, args ...any) {
		v.Hindrances = append(v.Hindrances, Count{What: fmt.Sprintf(format, args...), Pods: pods})
	}
	tell := func(pods int, format string, args ...any) {
		v.Reservations = append(v.Reservations, Count{What: fmt.Sprintf(format, args...), Pods: pods})
	}
	if n := a.Pods(Refused); n > 0 {
		hinders(n, "theirs chose a node that we would refuse")
	}
	if n := a.Pods(OnlyTheirs); n > 0 {
		hinders(n, "theirs found a node, and we would refuse all")
	}
	v.Hindrances = append(v.Hindrances, lacks...)
	unjudged := sum(a.NotJudged)
	switch all := a.Judged + unjudged; {
	case a.Judged < enough:
		hinders(0, "too few decisions to tell: %d were judged, %d are needed", a.Judged, enough)
	case float64(unjudged) > muchUnjudged*float64(all):
		hinders(unjudged, "decisions that could not be judged: %s, up to %.0f %% are all right", percent(unjudged, all), 100*muchUnjudged)
	case unjudged > 0:
		tell(unjudged, "decisions that could not be judged")
	}
	if n := a.Pods(OnlyOurs); n > 0 {
		tell(n, "theirs left them pending, and we would have placed them")
	}
	if n := a.Pods(Victims); n > 0 {
		tell(n, "we would have preempted others")
	}
	if n := a.Pods(Lower); n > 0 && a.LookedAt >= 1 {
		tell(n, "theirs looked at all nodes and chose one of a lower score")
	}
	r.reserve(tell)
	v.Ready = len(v.Hindrances) == 0
	v.Next, v.Page = "see what each line means, and what to do about it", "docs/shadow.md"
	if v.Ready {
		v.Next, v.Page = "let it have chosen pods first (docs/leaving.md), or take over", "docs/migration.md"
	}
	r.Verdict = v
}

// reserve tells what the own world has found, as far as it does not speak for ours.
func (r *Report) reserve(tell func(pods int, format string, args ...any)) {
	if l := &r.Latency; l.Ours.Pods > 0 && l.Ours.P99 > l.Theirs.P99 {
		tell(0, "ours was slower: p99 %s decided, theirs %s bound", seconds(l.Ours.P99), seconds(l.Theirs.P99))
	}
	p := &r.Packing
	if p.Drift > muchDrift {
		tell(sum(p.Left), "left out of the own world's comparison: its packing tells little")
	}
	if n := len(p.Points); n > 0 {
		if last := &p.Points[n-1]; float64(last.Ours.NodesInUse) > muchMore*float64(last.Theirs.NodesInUse) {
			tell(0, "the own world has more nodes in use: %d, and really there are %d", last.Ours.NodesInUse, last.Theirs.NodesInUse)
		}
		if last := &p.Points[n-1]; last.Ours.Pending > last.Theirs.Pending {
			tell(last.Ours.Pending-last.Theirs.Pending, "more pods wait in the own world than really")
		}
	}
}
