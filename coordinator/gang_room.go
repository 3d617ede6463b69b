package coordinator

import (
	"fmt"
	"maps"

	"k8s.io/apimachinery/pkg/types"

	"github.com/shardsched/shardsched/coordinator/placement"
	"github.com/shardsched/shardsched/scorer"
)

// emptiedRoom is how many members of a pod group have room where no pod is on any node. None of its bounds is below what fits: of each
// class no more fit than copies of the class alone, all together no more than pods that request the least of all, and in slices no more
// than fill whole ones. What filters make of pods, and of devices, is left out.
type emptiedRoom struct {
	most int64 // in one domain of the key, at the most
	key  string
	need int64
	// of tells pod groups apart: by their members' classes, and what nodes were like.
	of uint64
}

func (r emptiedRoom) fits() bool { return r.most >= r.need }

func (r emptiedRoom) String() string {
	where := ""
	if r.key != "" {
		where = " within one domain of " + r.key
	}
	return fmt.Sprintf("if no other pod were on any node, %d of the %d pods that are needed would fit%s", r.most, r.need, where)
}

// mostJudged is of how many pod groups it is known what would fit. With more, all are judged anew.
const mostJudged = 1 << 10

// fitsEmptied tells whether the pod group might fit if no pod were on any node. It is judged anew where its members or nodes have changed.
func (s *Scheduler) fitsEmptied(o *gangOutcome) bool {
	r, name := &s.reservation, o.group.Name()
	of := o.signature()
	if room, judged := r.judged[name]; judged && room.of == of {
		return room.fits()
	}
	if r.judged == nil || len(r.judged) >= mostJudged {
		r.judged = map[types.NamespacedName]emptiedRoom{}
	}
	room := s.emptiedRoom(o)
	room.of = of
	r.judged[name] = room
	return room.fits()
}

// signature is another number for other members, another PodGroup, or other nodes.
func (o *gangOutcome) signature() uint64 {
	x := o.s.state.NodesVersion()
	mix := func(v uint64) { x = (x ^ v) * 0x9e3779b97f4a7c15 >> 3 } // the multiplier of Fibonacci hashing
	mix(uint64(o.need))
	for _, b := range []byte(o.group.Spec().TopologyKey) {
		mix(uint64(b))
	}
	for i := range o.members {
		if c := o.members[i].Class; c != nil {
			mix(c.ID())
		}
	}
	return x
}

// emptiedRoom judges a pod group.
func (s *Scheduler) emptiedRoom(o *gangOutcome) emptiedRoom {
	x := emptied{s: s, out: emptiedRoom{need: int64(o.need)}, domains: map[string]*emptiedDomain{}}
	if s.cfg.Groups.Topology {
		spec := o.group.Spec()
		if x.slice, x.sliceSize = spec.Asks.SliceKey, int64(spec.Asks.SliceSize); o.members[0].Profile.PodGroups().Proposes {
			x.out.key = spec.TopologyKey
		}
	}
	x.count(o)
	if len(x.classes) == 0 {
		x.out.most = x.others
		return x.out
	}
	for t := range s.state.Tables {
		s.answers.Evaluator().Emptied(t, x.classes, func(row uint32, copies []int64, pods int64) { x.add(t, row, copies, pods) })
	}
	for d := range maps.Values(x.domains) {
		x.out.most = max(x.out.most, x.most(d))
	}
	return x.out
}

// emptied is what nodes would take.
type emptied struct {
	s       *Scheduler
	out     emptiedRoom
	classes []*scorer.Class
	counts  []int64 // of members, by class
	others  int64   // members of which nothing is known
	// slice is the key in whose domains members are in whole slices of so many; "": they are not.
	slice     string
	sliceSize int64
	domains   map[string]*emptiedDomain
}

// emptiedDomain is what one domain would take: copies of each class, pods of all, and these by the domains of slices.
type emptiedDomain struct {
	copies []int64
	pods   int64
	slices map[string]int64
}

// count counts members by class.
func (x *emptied) count(o *gangOutcome) {
	at := map[*scorer.Class]int{}
	for i := range o.members {
		m := &o.members[i]
		if m.Class == nil || m.Class.Rejected != nil || m.Class.Scorer == nil {
			x.others++
			continue
		}
		n, known := at[m.Class.Scorer]
		if !known {
			n, at[m.Class.Scorer] = len(x.classes), len(x.classes)
			x.classes, x.counts = append(x.classes, m.Class.Scorer), append(x.counts, 0)
		}
		x.counts[n]++
	}
}

// add adds a row to its domain.
func (x *emptied) add(t *scorer.Table, row uint32, copies []int64, pods int64) {
	domain, slice, has := "", "", true
	if x.out.key != "" {
		domain, has = t.Label(row, x.out.key)
	}
	if x.slice != "" && has {
		slice, has = t.Label(row, x.slice)
	}
	if !has {
		return
	}
	d := x.domains[domain]
	if d == nil {
		d = &emptiedDomain{copies: make([]int64, len(copies)), slices: map[string]int64{}}
		x.domains[domain] = d
	}
	for i, n := range copies {
		d.copies[i] = placement.Sum(d.copies[i], n)
	}
	d.pods = placement.Sum(d.pods, pods)
	if x.slice != "" {
		d.slices[slice] = placement.Sum(d.slices[slice], pods)
	}
}

// most is how many members a domain takes at the most.
func (x *emptied) most(d *emptiedDomain) int64 {
	n, pods := x.others, d.pods
	for i, count := range x.counts {
		if i < len(d.copies) {
			count = min(count, d.copies[i])
		}
		n += count
	}
	if x.sliceSize > 0 {
		pods = 0
		for _, fit := range d.slices {
			pods = placement.Sum(pods, fit/x.sliceSize*x.sliceSize)
		}
	}
	return min(n, placement.Sum(x.others, pods))
}
