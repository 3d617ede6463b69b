package coordinator

import (
	"slices"

	"google.golang.org/protobuf/proto"
	v1 "k8s.io/api/core/v1"

	"github.com/shardsched/shardsched/coordinator/cache"
	"github.com/shardsched/shardsched/coordinator/compile"
	"github.com/shardsched/shardsched/coordinator/queue"
	"github.com/shardsched/shardsched/coordinator/storage"
	"github.com/shardsched/shardsched/coordinator/volumes"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
	"github.com/shardsched/shardsched/scorer"
)

// Pods that are nominated to a node, usually because victims are leaving it for them,
// keep their room against pods of no higher priority: the node has to take a pod both with
// them and without them (upstream's RunFilterPluginsWithNominatedPods).
//
// As upstream's, a plugin that has nothing to do for a pod as long as those are not there
// does not see them either, and what it counts of them is not always what it counts of pods
// that are there.

// nominee is a node that waits for pods which come before the one at hand.
type nominee struct {
	row    cache.Row
	node   string
	pods   []*v1.Pod
	beside *v1.Pod // the pod that looks at them, or one alike
	usages []*pb.PodUsage
	// volumes is by how much the counters of the node's volumes would differ.
	volumes []*pb.CounterValue
	// spread is how many of the pods each hard constraint counts beyond its counters.
	spread []int64
	// claims is how many claims the pods mount that are named as claims which the pod at
	// hand wants for itself alone.
	claims int64
}

// nominees lists the nodes that a pod finds promised to others, sorted by name. Those of pods that
// look at them alike are kept: the same pointer stands for the same pods.
func (s *Scheduler) nominees(p *v1.Pod, class *compile.Class) []*nominee {
	if class.Query == nil || len(s.queue.NominatedNodes()) == 0 {
		return nil
	}
	memo := s.alikes.of(s, p, class)
	own := ""
	if pending := s.queue.Get(p.UID); pending != nil {
		own = pending.NominatedNode
	}
	if memo.listed && own == "" && memo.at == s.queue.Nominations() && memo.batch == s.batches {
		return memo.list
	}
	var out []*nominee
	if len(memo.nodes) > 2*len(s.queue.NominatedNodes())+maxAlikes {
		clear(memo.nodes) // most of them are not nominated any more
	}
	for _, node := range s.queue.NominatedNodes() {
		change := s.queue.NominationsOf(node)
		known := memo.nodes[node]
		if known.change != change || node == own || !s.lasts(&known, node) {
			known = knownNominee{change: change, batch: s.batches, nominee: s.nomineeOf(node, p, class)}
			if node != own && memo.nodes != nil {
				memo.nodes[node] = known
			}
		}
		if known.nominee != nil {
			out = append(out, known.nominee)
		}
	}
	if own == "" && memo.nodes != nil {
		memo.list, memo.at, memo.listed, memo.batch = out, s.queue.Nominations(), true, s.batches
	}
	return out
}

// lasts tells whether what was found of a node's pods in an earlier batch holds yet: volumes may be
// others by now.
func (s *Scheduler) lasts(known *knownNominee, node string) bool {
	if known.batch == s.batches {
		return true
	}
	row, ok := s.cache.RowOf(node)
	return ok && known.nominee != nil && known.nominee.row == row &&
		!slices.ContainsFunc(s.queue.Nominated(node), func(p *queue.Pod) bool { return volumes.StorageMatters(p.Obj) })
}

// nomineeOf is what one node is promised to; nil: to nobody that comes before the pod.
func (s *Scheduler) nomineeOf(node string, p *v1.Pod, class *compile.Class) *nominee {
	row, ok := s.cache.RowOf(node)
	if !ok {
		return nil
	}
	var pods []*v1.Pod
	for _, other := range s.queue.Nominated(node) {
		if other.Obj.UID != p.UID && compile.Priority(other.Obj) >= compile.Priority(p) {
			pods = append(pods, other.Obj)
		}
	}
	if len(pods) == 0 {
		return nil
	}
	return s.nomineeWith(row, node, pods, p, class)
}

// nomineeWith is what some pods would take of a node that a pod looks at.
func (s *Scheduler) nomineeWith(row cache.Row, node string, pods []*v1.Pod, p *v1.Pod, class *compile.Class) *nominee {
	n := &nominee{row: row, node: node, pods: pods, beside: p}
	unseen := s.unseen(p, class)
	for _, other := range pods {
		n.usages = append(n.usages, withoutCounters(s.cache.UsageOf(other), unseen))
	}
	n.volumes = s.cache.volumes.Joining(node, pods, p)
	n.spread = spreadBeyond(p, class, pods)
	n.claims = s.claimsOf(p, class, pods)
	return n
}

// alikes keeps nominees by who looks at them.
type alikes struct {
	known map[alike]*nomineeMemo
}

// maxAlikes bounds them.
const maxAlikes = 64

// alike is what nominees depend on, of the pod that looks at them.
type alike struct {
	class     uint64
	priority  int32
	namespace string
	// required tells that it has required terms, and repelled that pods which are there repel it.
	required, repelled bool
}

// nomineeMemo is the nominees that pods find who are alike.
type nomineeMemo struct {
	nodes map[string]knownNominee // nil: nothing is kept
	// list is the whole of it, as of so many changes of nominations, for pods that are nominated to
	// none of the nodes.
	list   []*nominee
	at     uint64
	batch  uint64
	listed bool
}

// knownNominee is a node's, as of the change and the batch; its nominee is nil where nobody comes before the pod.
type knownNominee struct {
	change  uint64
	batch   uint64
	nominee *nominee
}

// of finds what is kept for a pod. Nothing is for pods with volumes, which find different ones of a
// node's.
func (x *alikes) of(s *Scheduler, p *v1.Pod, class *compile.Class) *nomineeMemo {
	if storage.HasClaims(p) || class.Query.GetVolumeRestrictions() != nil {
		return &nomineeMemo{}
	}
	key := alike{class: class.ID(), priority: compile.Priority(p), namespace: p.Namespace}
	if len(class.Scorer.Repellers()) > 0 {
		key.required, key.repelled = hasRequiredTerms(p), s.repelled(class.Scorer)
	}
	memo := x.known[key]
	if memo == nil {
		if len(x.known) >= maxAlikes {
			clear(x.known)
		}
		if x.known == nil {
			x.known = map[alike]*nomineeMemo{}
		}
		memo = &nomineeMemo{nodes: map[string]knownNominee{}}
		x.known[key] = memo
	}
	return memo
}

// unseen are the counters of what nominated pods do that the plugins for a pod do not look
// at. InterPodAffinity's PreFilter skips where the pod has no required terms and no pod
// that is there repels it. ReadWriteOncePod claims are claimsOf's.
func (s *Scheduler) unseen(p *v1.Pod, class *compile.Class) []uint32 {
	var out []uint32
	q := class.Query
	if repellers := class.Scorer.Repellers(); len(repellers) > 0 && !hasRequiredTerms(p) && !s.repelled(class.Scorer) {
		out = slices.Clone(repellers)
	}
	out = append(out, q.GetVolumeRestrictions().GetNamed()...)
	for _, i := range q.GetVolumeRestrictions().GetClaims() {
		for _, c := range q.Measures[i].GetCounters() {
			out = append(out, c.GetCounter())
		}
	}
	return out
}

func hasRequiredTerms(p *v1.Pod) bool {
	a := p.Spec.Affinity
	return a != nil && (a.PodAffinity != nil && len(a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution) > 0 ||
		a.PodAntiAffinity != nil && len(a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution) > 0)
}

// repelled tells whether a pod that is there repels the class.
func (s *Scheduler) repelled(class *scorer.Class) bool {
	for i := range s.cache.NumShards() {
		if class.Repelled(s.cache.Table(i)) {
			return true
		}
	}
	return false
}

// withoutCounters is a usage without some counters.
func withoutCounters(u *pb.PodUsage, ids []uint32) *pb.PodUsage {
	if !slices.ContainsFunc(u.GetCounters(), func(v *pb.CounterValue) bool { return slices.Contains(ids, v.GetCounter()) }) {
		return u
	}
	return &pb.PodUsage{
		Requests: u.GetRequests(), NonZeroMilliCpu: u.GetNonZeroMilliCpu(), NonZeroMemoryBytes: u.GetNonZeroMemoryBytes(),
		HostPorts: u.GetHostPorts(),
		Counters: slices.DeleteFunc(slices.Clone(u.GetCounters()), func(v *pb.CounterValue) bool {
			return slices.Contains(ids, v.GetCounter())
		}),
	}
}

// spreadBeyond counts, for each hard constraint, the pods that its counters leave out: those
// that are being deleted, and all where the constraint selects every pod.
func spreadBeyond(p *v1.Pod, class *compile.Class, pods []*v1.Pod) []int64 {
	out := make([]int64, len(class.HardSelectors))
	for i, selects := range class.HardSelectors {
		for _, other := range pods {
			if other.Namespace == p.Namespace && (other.DeletionTimestamp != nil || selects.Empty()) && selects.Matches(other.Labels) {
				out[i]++
			}
		}
	}
	return out
}

// claimsOf counts the volumes of nominated pods that VolumeRestrictions counts: by the names of
// the pod's claims alone.
func (s *Scheduler) claimsOf(p *v1.Pod, class *compile.Class, pods []*v1.Pod) int64 {
	if len(class.Query.GetVolumeRestrictions().GetClaims()) == 0 {
		return 0
	}
	n := int64(0)
	for i := range p.Spec.Volumes {
		own := p.Spec.Volumes[i].PersistentVolumeClaim
		if own == nil || mounts(p.Spec.Volumes[:i], own.ClaimName) > 0 || !s.alone(p.Namespace, own.ClaimName) {
			continue
		}
		for _, other := range pods {
			n += mounts(other.Spec.Volumes, own.ClaimName)
		}
	}
	return n
}

// mounts counts the volumes that are claims of a name.
func mounts(list []v1.Volume, claim string) (n int64) {
	for i := range list {
		if c := list[i].PersistentVolumeClaim; c != nil && c.ClaimName == claim {
			n++
		}
	}
	return n
}

// alone tells whether a claim is for one pod alone.
func (s *Scheduler) alone(namespace, name string) bool {
	claim := s.cache.volumes.Claim(namespace, name)
	return claim != nil && slices.Contains(claim.Spec.AccessModes, v1.ReadWriteOncePod)
}

// addTo adds to a row's verdict what counters do not tell of the nominated pods. Where the pod
// has no disk besides, and none of its claims is in use, VolumeRestrictions' PreFilter skips: in a
// dry run the scorer knows.
func (n *nominee) addTo(v *scorer.Verdict, q *pb.Query, dry bool) {
	hard := q.GetSpread().GetHard()
	for i, more := range n.spread {
		place := hard[i].GetPlace()
		m := &v.Measured[place.GetMeasure()]
		twice := slices.ContainsFunc(hard[:i], func(c *pb.HardConstraint) bool { return c.GetPlace().GetMeasure() == place.GetMeasure() })
		if more == 0 || !m.Included || twice {
			continue
		}
		m.Value += more
		if in, ok := place.GetIn().(*pb.Place_RowValue); ok && v.Passed {
			v.Key.Values[in.RowValue] += more
		}
	}
	if n.claims > 0 && (dry || len(q.GetVolumeRestrictions().GetDisks()) > 0) {
		v.Measured[q.GetVolumeRestrictions().GetClaims()[0]].Value += n.claims
	}
}

// probe is what looking at one row alone needs; its memory is used again.
type probe struct {
	totals   scorer.RowTotals
	verdict  scorer.Verdict
	result   scorer.Result
	standing scorer.Standing
	reasons  []scorer.Reason
}

// refusedWith tells whether a row refuses a class once more pods are on it, and why. The
// class is the pick's, or that without what narrows it. The reasons are told only in a
// diagnosis, and hold until the next call.
func (p *pick) refusedWith(at int, n *nominee, class *scorer.Class, tables tables, e *scorer.Evaluator) (refused bool, reasons []scorer.Reason) {
	r, x := &p.repaired[at], &p.probe
	table := tables.Table(int(r.row.Shard))
	table.Totals(r.row.Index, &x.totals)
	n.join(table, &x.totals, n.volumes)
	p.judged++
	e.Row(table, r.row.Index, &x.totals, class, p.diagnosed, &x.verdict)
	n.addTo(&x.verdict, class.Query(), false)
	x.reasons = x.reasons[:0]
	if !x.verdict.Passed {
		_, why := e.Reasons(table, r.row.Index, &x.totals, class)
		x.reasons = append(x.reasons, why...)
		return true, x.reasons
	}
	if !class.FiltersGroups() {
		return false, nil
	}
	shape := p.shape
	p.move(&r.verdict, -1)
	group := p.move(&x.verdict, +1)
	p.settle()
	refused = !p.standing.Groups[group].Feasible
	if refused {
		_, why := p.class.GroupReasons(p.result, &p.standing, group)
		x.reasons = append(x.reasons, why...)
	}
	p.move(&x.verdict, -1)
	p.move(&r.verdict, +1)
	p.shape = shape
	return refused, x.reasons
}

// veto takes the rows that nominees keep from a pod out of the answer, until liftVetoes. It
// is false where the answer does not serve then: the maxima that it rests on are those of
// all rows.
//
// What was found of a row and its nominee holds until either changes; where a filter of the class looks
// beyond a row, until anything changes that the class counts over all rows.
func (p *pick) veto(list []*nominee, tables tables, e *scorer.Evaluator) bool {
	serves, grouped := true, p.class.FiltersGroups()
	p.round++
	for _, n := range list {
		r := p.row(n.row, tables, e)
		at, _ := p.index.find(n.row)
		if r.round = p.round; r.checked != n || grouped && r.shape != p.shape {
			p.lift(r)
			p.check(at, n, tables, e)
			r = &p.repaired[at]
			r.round = p.round
		}
		serves = serves && !(r.vetoed && r.extreme)
	}
	// Rows that nobody keeps from this pod.
	kept := p.vetoes[:0]
	for _, at := range p.vetoes {
		r := &p.repaired[at]
		if r.vetoed && r.round != p.round {
			p.lift(r)
		}
		if r.listed = r.vetoed; r.vetoed {
			kept = append(kept, at)
		}
	}
	p.vetoes = kept
	return serves
}

// check looks whether a row refuses the pod with its nominee, and vetoes it then.
func (p *pick) check(at int, n *nominee, tables tables, e *scorer.Evaluator) {
	refused, reasons := p.refusedWith(at, n, p.class, tables, e)
	r := &p.repaired[at]
	r.checked, r.shape = n, p.shape
	if !refused {
		return
	}
	r.vetoed = true
	if !r.listed {
		r.listed = true
		p.vetoes = append(p.vetoes, at)
	}
	p.countVeto(r, -1)
	if p.diagnosed {
		p.countReasons(r.reasons, -1)
		r.vetoReasons = append(r.vetoReasons[:0], reasons...)
		p.countReasons(r.vetoReasons, +1)
	}
}

// lift undoes the veto of a row, if there is one.
func (p *pick) lift(r *repairedRow) {
	r.checked = nil
	if !r.vetoed {
		return
	}
	r.vetoed = false
	p.countVeto(r, +1)
	if p.diagnosed {
		p.countReasons(r.vetoReasons, -1)
		p.countReasons(r.reasons, +1)
	}
}

// countVeto takes a row out of its group, or puts it back; what its pods add to measures
// stays.
func (p *pick) countVeto(r *repairedRow, by int) {
	if r.group >= 0 {
		p.result.Groups[r.group].Rows += by
		p.result.Feasible += by
		p.settled = false
	}
}

// liftVetoes undoes veto.
func (p *pick) liftVetoes() {
	for _, at := range p.vetoes {
		r := &p.repaired[at]
		p.lift(r)
		r.listed = false
	}
	p.vetoes = p.vetoes[:0]
}

// alone tells whether a row is feasible, and what it scores where it is the only one.
func (p *pick) alone(at int) (score int64, ok bool) {
	r, x := &p.repaired[at], &p.probe
	p.settle()
	if r.vetoed || r.group < 0 || !p.standing.Groups[r.group].Feasible {
		return 0, false
	}
	if p.result.Normalised {
		return r.verdict.Local + p.class.GroupScore(r.verdict.Key.Raw[:p.class.KeyLen()], r.verdict.Key.Raw[:p.class.KeyLen()]), true
	}
	x.result.Reset(p.class.ID(), 0)
	x.result.Measures = p.result.Measures
	x.result.Groups = append(x.result.Groups, scorer.Group{Key: r.verdict.Key, Rows: 1})
	p.class.Settle(&x.result, &x.standing)
	score = r.local + x.standing.Groups[0].Score
	x.result.Measures = nil
	return score, true
}

// ownOutside finds a pod's own nominated node where a PreFilter has narrowed the nodes to others: it
// is tried all the same, before them, with the class that class is without that; nil: there is none.
func (s *Scheduler) ownOutside(a *attempt) (row cache.Row, class *scorer.Class, err error) {
	name, q := a.pod.Nomination(), a.class.Query
	row, ok := s.cache.RowOf(name)
	if !ok || q.GetNarrowed() == nil || slices.Contains(q.GetNarrowed().GetNames(), name) {
		return row, nil, nil
	}
	if class, err = unnarrowed(q); err == nil {
		class = s.pinned(class)
	}
	return row, class, err
}

// unnarrowed is the class of a query without what a PreFilter narrows the nodes to.
func unnarrowed(q *pb.Query) (*scorer.Class, error) {
	wide := proto.CloneOf(q)
	wide.Narrowed = nil
	return scorer.NewClass(wide)
}

// ownReasons is why such a node refuses the pod: of with the PreFilter, and instead without.
func (s *Scheduler) ownReasons(p *pick, a *attempt) (of, instead []scorer.Reason, err error) {
	row, class, err := s.ownOutside(a)
	if class == nil || err != nil {
		return nil, nil, err
	}
	t := tables{s.cache.Cache}
	r := p.row(row, t, s.eval)
	with := byRow(s.nominees(a.pod.Obj, a.class))[row]
	if with == nil {
		with = &nominee{}
	}
	if of = r.reasons; r.vetoed {
		of = r.vetoReasons
	}
	at, _ := p.index.find(row)
	_, instead = p.refusedWith(at, with, class, t, s.eval)
	return of, slices.Clone(instead), nil
}

// join adds the pods to what a row's pods add up to; volumes are by how much the counters of the
// node's volumes differ then.
func (n *nominee) join(t *scorer.Table, totals *scorer.RowTotals, volumes []*pb.CounterValue) {
	for _, u := range n.usages {
		totals.AddPod(t, u)
	}
	totals.AddCounters(volumes, 1)
}
