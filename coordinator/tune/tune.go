package tune

import (
	"cmp"
	"slices"
	"time"
)

// Way is how the classes of a batch are asked about.
type Way struct {
	// Own has the own tables answer; else workers do.
	Own bool
	// Ahead is how many batches behind the batch at hand are asked about; 0 with Own.
	Ahead int
	// Classes is how many classes without an answer a batch is to have.
	Classes int
}

// Cluster is what costs depend on most.
type Cluster struct {
	Workers, Nodes int
}

// Limits are what ways are tried.
type Limits struct {
	// MinAhead and MaxAhead bound Way.Ahead of workers.
	MinAhead, MaxAhead int
	// MinClasses and MaxClasses bound Way.Classes.
	MinClasses, MaxClasses int
}

const (
	// sampled is how many batches a sample has.
	sampled = 32
	// minPause and maxPause bound for how many batches nothing is tried once no neighbour was cheaper: a trial may cost a few times
	// as much.
	minPause, maxPause = 16 * sampled, 512 * sampled
	// better is by how much a trial has to be cheaper, for costs vary.
	better = 0.94
	// worse is how much more than when it was chosen the way in use may cost until others are tried soon.
	worse = 1.5
)

// sample is the costs of the last batches, in nanoseconds by the class.
type sample struct {
	costs [sampled]float64
	n     int // batches so far
}

func (s *sample) add(cost float64) {
	s.costs[s.n%sampled] = cost
	s.n++
}

func (s *sample) full() bool { return s.n >= sampled }

// median is the middle one of the costs; 0: there are none.
func (s *sample) median() float64 {
	if s.n == 0 {
		return 0
	}
	list := s.costs
	known := list[:min(s.n, sampled)]
	slices.Sort(known)
	return known[len(known)/2]
}

// Tuner chooses a way. One goroutine uses it.
type Tuner struct {
	limits  Limits
	cluster Cluster
	// inUse is the way in use, with its costs, and chosenAt is what it cost when it was chosen.
	inUse    Way
	costs    sample
	chosenAt float64
	// trial is the way that is tried; with trying unset: none is. skip is how many batches are still of the way before.
	trial  Way
	trying bool
	tried  sample
	skip   int
	// rest is for how many more batches nothing is tried, and pause the next rest after all neighbours were tried in vain. lost is how
	// many neighbours in a row were not cheaper, and next the number of the one that comes.
	pause, rest, lost, next int
	told                    map[Way]float64 // the last median of each way, for people
}

// New makes a tuner that begins with the given way.
func New(first Way, l Limits) *Tuner {
	return &Tuner{limits: l, inUse: first, pause: minPause, told: map[Way]float64{}}
}

// Way is the way of the next batch.
func (t *Tuner) Way() Way {
	if t.trying {
		return t.trial
	}
	return t.inUse
}

// InUse is the way in use, trials aside, and what a class costs by it; 0: not known yet.
func (t *Tuner) InUse() (Way, time.Duration) { return t.inUse, time.Duration(t.told[t.inUse]) }

// See tells of the cluster: what was measured of another one does not count.
func (t *Tuner) See(c Cluster) {
	if c.Workers == t.cluster.Workers && c.Nodes <= t.cluster.Nodes+t.cluster.Nodes/4 && c.Nodes >= t.cluster.Nodes-t.cluster.Nodes/4 {
		return
	}
	t.cluster = c
	t.costs, t.trying, t.pause, t.rest, t.lost, t.skip = sample{}, false, minPause, 0, 0, 0
	clear(t.told)
}

// Took takes in how long a batch took that was asked about by Way, and for how many classes it lacked answers.
func (t *Tuner) Took(classes int, took time.Duration) {
	if t.cluster.Workers == 0 || classes == 0 {
		return // there is nothing to choose
	}
	cost := float64(took) / float64(classes)
	switch {
	case t.skip > 0:
		t.skip--
	case t.trying:
		t.inTrial(cost)
	default:
		t.settled(cost)
	}
}

// settled takes in a batch by the way in use, and begins a trial where it is time.
func (t *Tuner) settled(cost float64) {
	t.costs.add(cost)
	if t.rest--; !t.costs.full() {
		return
	}
	now := t.costs.median()
	t.told[t.inUse] = now
	if t.chosenAt == 0 {
		t.chosenAt = now
	}
	if now > worse*t.chosenAt {
		t.chosenAt, t.pause, t.rest, t.lost = now, minPause, 0, 0
	}
	if t.rest > 0 {
		return
	}
	if list := t.neighbours(); len(list) > 0 {
		t.trial, t.trying, t.tried = list[t.next%len(list)], true, sample{}
	}
	t.skip = 1 + max(t.inUse.Ahead, t.trial.Ahead) // batches that were asked about by the way before
}

// inTrial takes in a batch of the trial, and ends it once there are enough.
func (t *Tuner) inTrial(cost float64) {
	t.tried.add(cost)
	if !t.tried.full() && !t.tooCostly() {
		return
	}
	now := t.tried.median()
	t.told[t.trial] = now
	t.trying, t.skip = false, 1+max(t.inUse.Ahead, t.trial.Ahead)
	t.rest = sampled
	if now < better*t.costs.median() {
		t.inUse, t.costs, t.chosenAt, t.pause, t.lost = t.trial, t.tried, now, minPause, 0
		return
	}
	t.next++
	if t.lost++; t.lost >= len(t.neighbours()) {
		t.rest, t.pause, t.lost = t.pause, min(2*t.pause, maxPause), 0
	}
}

// tooCostly tells whether some batches of a trial have cost so much that no more are needed.
func (t *Tuner) tooCostly() bool {
	return t.tried.n >= sampled/8 && t.tried.median() > 2*t.costs.median()
}

// neighbours are the ways that differ from the way in use in one thing.
func (t *Tuner) neighbours() (out []Way) {
	l, w := &t.limits, t.inUse
	add := func(own bool, ahead, classes int) {
		if classes >= l.MinClasses && classes <= l.MaxClasses && (own || ahead >= l.MinAhead && ahead <= l.MaxAhead) {
			out = append(out, Way{own, ahead, classes})
		}
	}
	if w.Own {
		add(false, l.MinAhead, w.Classes)
	} else {
		add(true, 0, w.Classes)
		add(false, w.Ahead+1, w.Classes)
		add(false, w.Ahead-1, w.Classes)
	}
	add(w.Own, w.Ahead, 2*w.Classes)
	add(w.Own, w.Ahead, w.Classes/2)
	return out
}

// Choice tells people of a way.
type Choice struct {
	Way
	// Cost is the median time of a class.
	Cost  time.Duration
	InUse bool
}

// Choices are the ways that were measured in this cluster, the way in use first, then the cheaper first.
func (t *Tuner) Choices() (out []Choice) {
	for w, cost := range t.told {
		out = append(out, Choice{w, time.Duration(cost), w == t.inUse})
	}
	slices.SortFunc(out, func(a, b Choice) int {
		switch {
		case a.InUse:
			return -1
		case b.InUse:
			return 1
		}
		return cmp.Or(cmp.Compare(a.Cost, b.Cost), cmp.Compare(a.Classes, b.Classes))
	})
	return out
}
