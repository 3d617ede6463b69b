package coordinator

import (
	"fmt"
	"maps"

	"k8s.io/apimachinery/pkg/types"

	"github.com/shardsched/shardsched/coordinator/cache"
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
	x := s.newVacated(o)
	if len(x.classes) == 0 {
		x.out.most = x.others
		return x.out
	}
	x.addAll(&scorer.RowTotals{})
	x.out.most = x.best()
	return x.out
}

// newVacated prepares the bound for a pod group's members: no row is counted yet.
func (s *Scheduler) newVacated(o *gangOutcome) *vacated {
	x := &vacated{s: s, out: emptiedRoom{need: int64(o.need)}}
	if s.cfg.Groups.Topology {
		spec := o.group.Spec()
		if x.slice, x.sliceSize = spec.Asks.SliceKey, int64(spec.Asks.SliceSize); o.members[0].Profile.PodGroups().Proposes {
			x.out.key = spec.TopologyKey
		}
	}
	x.count(o)
	return x
}

// vacated is what nodes would take, were fewer pods there.
type vacated struct {
	s       *Scheduler
	out     emptiedRoom
	classes []*scorer.Class
	tables  []*scorer.Vacancy               // by shard
	totals  map[cache.Row]*scorer.RowTotals // what is left on rows that pods were taken off
	counts  []int64                         // of members, by class
	others  int64                           // members of which nothing is known
	rest    int64                           // of classes that are not told apart
	// slice is the key in whose domains members are in whole slices of so many; "": they are not.
	slice     string
	sliceSize int64
	domains   map[string]*vacatedDomain
}

// vacatedDomain is what one domain would take: copies of each class, pods of all, and these by the domains of slices. whole are those of
// them that are in whole slices.
type vacatedDomain struct {
	copies []int64
	pods   int64
	slices map[string]int64
	whole  int64
}

// count counts members by class.
func (x *vacated) count(o *gangOutcome) {
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
	for _, n := range x.counts[min(len(x.counts), scorer.MaxLeavingFor):] {
		x.rest += n
	}
}

// addAll adds all rows to their domains, beside the pods of totals; nil: each row's own pods.
func (x *vacated) addAll(totals *scorer.RowTotals) {
	x.domains, x.totals = map[string]*vacatedDomain{}, map[cache.Row]*scorer.RowTotals{}
	for t := range x.s.state.Tables {
		v := x.s.answers.Evaluator().Vacancy(t, x.classes)
		x.tables = append(x.tables, v)
		for row := range t.All() {
			if copies, pods, ok := v.Of(row, totals); ok {
				if d, slice := x.domainOf(t, row); d != nil {
					x.add(d, slice, copies, pods)
				}
			}
		}
	}
}

// domainOf is a row's domain, and that of its slices; nil: no member may have the row.
func (x *vacated) domainOf(t *scorer.Table, row uint32) (d *vacatedDomain, slice string) {
	domain, has := "", true
	if x.out.key != "" {
		domain, has = t.Label(row, x.out.key)
	}
	if x.slice != "" && has {
		slice, has = t.Label(row, x.slice)
	}
	if !has {
		return nil, ""
	}
	if d = x.domains[domain]; d == nil {
		d = &vacatedDomain{slices: map[string]int64{}}
		x.domains[domain] = d
	}
	return d, slice
}

// add adds room to a domain.
func (x *vacated) add(d *vacatedDomain, slice string, copies []int64, pods int64) {
	if d.copies == nil {
		d.copies = make([]int64, len(copies))
	}
	for i, n := range copies {
		d.copies[i] = placement.Sum(d.copies[i], n)
	}
	d.pods = placement.Sum(d.pods, pods)
	if x.sliceSize > 0 {
		was := d.slices[slice]
		now := placement.Sum(was, pods)
		d.slices[slice], d.whole = now, placement.Sum(d.whole, now/x.sliceSize*x.sliceSize-was/x.sliceSize*x.sliceSize)
	}
}

// best is how many members the best domain takes at the most.
func (x *vacated) best() (n int64) {
	for d := range maps.Values(x.domains) {
		n = max(n, x.most(d))
	}
	return n
}

// most is how many members a domain takes at the most.
func (x *vacated) most(d *vacatedDomain) int64 {
	n, pods := x.others+x.rest, d.pods
	for i, copies := range d.copies {
		n += min(x.counts[i], copies)
	}
	if x.sliceSize > 0 {
		pods = d.whole
	}
	return min(n, placement.Sum(x.others, pods))
}
