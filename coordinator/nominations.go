package coordinator

import (
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/shardsched/shardsched/coordinator/answers"
	"github.com/shardsched/shardsched/coordinator/cache"
	"github.com/shardsched/shardsched/coordinator/compile"
	"github.com/shardsched/shardsched/coordinator/queue"
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
	answers.Nominee
	node   string
	pods   []*v1.Pod
	beside *v1.Pod // the pod that looks at them, or one alike
}

// nominees lists the nodes that a pod finds promised to others, sorted by name. Those of pods that
// look at them alike are kept: the same pointer stands for the same pods.
func (s *Scheduler) nominees(p *v1.Pod, class *compile.Class) []*nominee {
	if class.Query == nil || len(s.queue.NominatedNodes()) == 0 {
		return nil
	}
	memo, own := s.alikes.of(s, p, class), ""
	mountsVolumes := volumes.StorageMatters(p) || class.Query.GetVolumeRestrictions() != nil
	if pending := s.queue.Get(p.UID); pending != nil {
		own = pending.NominatedNode
	}
	if memo.listed && own == "" && memo.at == s.queue.Nominations() && memo.batch == s.batches && !(mountsVolumes && memo.volumes) {
		return memo.list
	}
	var out []*nominee
	attaching := false
	if len(memo.nodes) > 2*len(s.queue.NominatedNodes())+maxAlikes {
		clear(memo.nodes) // most of them are not nominated any more
	}
	for _, node := range s.queue.NominatedNodes() {
		change := s.queue.NominationsOf(node)
		known := memo.nodes[node]
		if known.change != change {
			known = knownNominee{change: change, attaches: s.nominatedAttach(node)}
		}
		attaching = attaching || known.attaches
		alone := node == own || mountsVolumes && known.attaches // what is found is for this pod alone
		if alone || !s.lasts(&known, node) {
			known.nominee, known.batch, known.found = s.nomineeOf(node, p, class), s.batches, true
		}
		if known.nominee != nil {
			out = append(out, known.nominee)
		}
		if alone {
			known.nominee, known.found = nil, false
		}
		memo.nodes[node] = known
	}
	if own == "" && !(mountsVolumes && attaching) {
		memo.list, memo.at, memo.listed, memo.batch, memo.volumes = out, s.queue.Nominations(), true, s.batches, attaching
	}
	return out
}

// lasts tells whether what was found of a node's pods in an earlier batch holds yet: volumes that they attach may be
// others by now.
func (s *Scheduler) lasts(known *knownNominee, node string) bool {
	if !known.found || known.batch == s.batches {
		return known.found
	}
	row, ok := s.cache.RowOf(node)
	return ok && known.nominee != nil && known.nominee.Row == row && !known.attaches
}

// nominatedAttach tells whether pods that are nominated to a node may attach volumes.
func (s *Scheduler) nominatedAttach(node string) bool {
	return slices.ContainsFunc(s.queue.Nominated(node), func(p *queue.Pod) bool { return volumes.StorageMatters(p.Obj) })
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
	n := &nominee{node: node, pods: pods, beside: p}
	n.Row = row
	unseen := s.unseen(p, class)
	for _, other := range pods {
		n.Usages = append(n.Usages, withoutCounters(s.cache.UsageOf(other), unseen))
	}
	n.Volumes = s.cache.volumes.Joining(node, pods, p)
	n.Spread = spreadBeyond(p, class, pods)
	n.Claims = s.claimsOf(p, class, pods)
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
	nodes map[string]knownNominee
	// list is the whole of it, as of so many changes of nominations, for pods that are nominated to
	// none of the nodes. volumes: pods with volumes may find other ones.
	list            []*nominee
	at              uint64
	batch           uint64
	listed, volumes bool
}

// knownNominee is a node's, as of the change. Its nominee, once it is found, is as of the batch, and nil where nobody comes
// before the pod.
type knownNominee struct {
	change   uint64
	attaches bool // nominatedAttach
	found    bool
	batch    uint64
	nominee  *nominee
}

// of finds what is kept for a pod. Pods with volumes find different ones of a node's: for them what is kept holds only where
// nominated pods attach none.
func (x *alikes) of(s *Scheduler, p *v1.Pod, class *compile.Class) *nomineeMemo {
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

// ownOutside finds a pod's own nominated node where a PreFilter has narrowed the nodes to others: it
// is tried all the same, before them, with the class that class is without that; nil: there is none.
func (s *Scheduler) ownOutside(a *attempt) (row cache.Row, class *scorer.Class, err error) {
	name, q := a.pod.Nomination(), a.class.Query
	row, ok := s.cache.RowOf(name)
	if !ok || q.GetNarrowed() == nil || slices.Contains(q.GetNarrowed().GetNames(), name) {
		return row, nil, nil
	}
	if class, err = compile.Unnarrowed(q); err == nil {
		class = s.answers.Pinned(class)
	}
	return row, class, err
}

// ownReasons is why such a node refuses the pod: of with the PreFilter, and instead without.
func (s *Scheduler) ownReasons(p *answers.Answer, a *attempt) (of, instead []scorer.Reason, err error) {
	row, class, err := s.ownOutside(a)
	if class == nil || err != nil {
		return nil, nil, err
	}
	with := byRow(s.nominees(a.pod.Obj, a.class))[row]
	instead = slices.Clone(p.RefusedWith(row, with.forEngine(), class))
	return p.WhyRefused(row), instead, nil
}

// refusal words why no node takes the pod, and names the plugins that refuse it. more is counted besides.
func (s *Scheduler) refusal(p *answers.Answer, a *attempt, more answers.Reasons) (string, []string, error) {
	of, instead, err := s.ownReasons(p, a)
	if err != nil {
		return "", nil, err
	}
	more.Add(of, -1)
	more.Add(instead, +1)
	message, by := p.Message(s.cache.Nodes(), more)
	return message, by, nil
}

// forEngine is the part that the decision engine knows; nil: nobody is nominated.
func (n *nominee) forEngine() *answers.Nominee {
	if n == nil {
		return nil
	}
	return &n.Nominee
}

// forEngine are the parts of nominees that the decision engine knows.
func forEngine(list []*nominee) []*answers.Nominee {
	if len(list) == 0 {
		return nil
	}
	out := make([]*answers.Nominee, len(list))
	for i, n := range list {
		out[i] = &n.Nominee
	}
	return out
}
