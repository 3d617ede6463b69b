package compile

import (
	"encoding/binary"
	"slices"

	v1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	helper "k8s.io/component-helpers/resource"

	"github.com/shardsched/shardsched/coordinator/count"
	"github.com/shardsched/shardsched/coordinator/selector"
	"github.com/shardsched/shardsched/coordinator/storage"
)

// signature writes what rules read of a pod into bytes: equal bytes mean an equal
// query, under the same profile and images. It reuses its memory from pod to pod.
type signature struct {
	writing
	requests writing  // those of the pod, until they follow what an outline is made of
	names    []string // scratch for sorting
}

// signed is a pod's signature: what an outline is made of, then the requests, then the volumes that volume plugins look at.
// outline and plan are the lengths of the parts of which an outline and a plan are made.
type signed struct {
	bytes         []byte
	outline, plan int
}

// pod writes a pod's signature.
func (s *signature) pod(p *v1.Pod, prof *Profile) signed {
	s.bytes, s.requests.bytes = s.bytes[:0], s.requests.bytes[:0]
	s.text(p.Spec.NodeName)
	s.tolerations(p.Spec.Tolerations)
	s.bytes = selector.AppendLabels(s.bytes, p.Spec.NodeSelector)
	s.affinity(p)
	s.flag(len(p.Spec.ResourceClaims) > 0)
	s.count(len(p.Spec.InitContainers))
	for i := range p.Spec.InitContainers {
		c := &p.Spec.InitContainers[i]
		s.flag(isSidecar(c))
		s.container(c)
	}
	s.count(len(p.Spec.Containers))
	for i := range p.Spec.Containers {
		s.container(&p.Spec.Containers[i])
	}
	for i := range p.Spec.Volumes {
		if v := p.Spec.Volumes[i].Image; v != nil {
			s.flag(true)
			s.text(v.Reference)
		}
	}
	s.flag(false)
	for _, part := range prof.written {
		if part.Reads != nil {
			s.text(part.Reads(p))
		}
	}
	s.spread(p)
	s.bytes = count.AppendAffinity(s.bytes, p)
	s.list(p.Spec.Overhead)
	s.flag(p.Spec.Resources != nil)
	if p.Spec.Resources != nil {
		s.list(p.Spec.Resources.Requests)
	}
	s.status(p)
	s.cel(p, prof)
	outline := len(s.bytes)
	s.bytes = append(s.bytes, s.requests.bytes...)
	plan := len(s.bytes)
	if prof.cel != nil && prof.cel.readsRequests {
		outline = plan
	}
	s.volumes(p)
	return signed{s.bytes, outline, plan}
}

func (s *signature) tolerations(list []v1.Toleration) {
	s.count(len(list))
	for i := range list {
		s.text(list[i].Key)
		s.text(string(list[i].Operator))
		s.text(list[i].Value)
		s.text(string(list[i].Effect))
	}
}

func (s *signature) affinity(p *v1.Pod) {
	required, preferred := nodeAffinityOf(p)
	s.flag(required != nil)
	if required != nil {
		s.count(len(required.NodeSelectorTerms))
		for i := range required.NodeSelectorTerms {
			s.term(&required.NodeSelectorTerms[i])
		}
	}
	s.count(len(preferred))
	for i := range preferred {
		s.bytes = binary.AppendVarint(s.bytes, int64(preferred[i].Weight))
		s.term(&preferred[i].Preference)
	}
}

func (s *signature) term(t *v1.NodeSelectorTerm) {
	s.requirements(t.MatchExpressions)
	s.requirements(t.MatchFields)
}

func (s *signature) requirements(list []v1.NodeSelectorRequirement) {
	s.count(len(list))
	for i := range list {
		s.text(list[i].Key)
		s.text(string(list[i].Operator))
		s.count(len(list[i].Values))
		for _, v := range list[i].Values {
			s.text(v)
		}
	}
}

func (s *signature) container(c *v1.Container) {
	s.text(c.Image)
	s.list(c.Resources.Requests)
	for i := range c.Ports {
		if port := &c.Ports[i]; port.HostPort > 0 {
			s.count(int(port.HostPort))
			s.text(port.HostIP)
			s.text(string(port.Protocol))
		}
	}
	s.count(0) // no port has the number 0
}

// status writes what in-place resizes have made of the pod's requests.
func (s *signature) status(p *v1.Pod) {
	told := hasStatusResources(p)
	s.flag(told)
	if !told {
		return
	}
	s.flag(helper.IsPodResizeInfeasible(p))
	for _, list := range [][]v1.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for i := range list {
			s.text(list[i].Name)
		}
	}
	for _, statuses := range [][]v1.ContainerStatus{p.Status.InitContainerStatuses, p.Status.ContainerStatuses} {
		s.count(len(statuses))
		for i := range statuses {
			s.text(statuses[i].Name)
			s.flag(statuses[i].Resources != nil)
			if statuses[i].Resources != nil {
				s.list(statuses[i].Resources.Requests)
				s.list(statuses[i].AllocatedResources)
			}
		}
	}
	s.flag(p.Status.Resources != nil)
	if p.Status.Resources != nil {
		s.list(p.Status.Resources.Requests)
		s.list(p.Status.AllocatedResources)
	}
}

// list writes what a part of the pod requests, the common resources first.
func (s *signature) list(l v1.ResourceList) {
	r := &s.requests
	r.count(len(l))
	found := 0
	for i, name := range [...]v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory, v1.ResourceEphemeralStorage} {
		if found == len(l) {
			return
		}
		if q, ok := l[name]; ok {
			r.count(i)
			r.quantity(&q)
			found++
		}
	}
	if found == len(l) {
		return
	}
	s.names = s.names[:0]
	for name := range l {
		switch name {
		case v1.ResourceCPU, v1.ResourceMemory, v1.ResourceEphemeralStorage:
		default:
			s.names = append(s.names, string(name))
		}
	}
	slices.Sort(s.names)
	r.count(3)
	for _, name := range s.names {
		q := l[v1.ResourceName(name)]
		r.text(name)
		r.quantity(&q)
	}
}

// quantity writes an exact value, without calculating with one that is wild.
func (w *writing) quantity(q *apiresource.Quantity) {
	if q.Sign() > 0 {
		if v, ok := q.AsInt64(); ok {
			w.bytes = binary.AppendVarint(append(w.bytes, 'i'), v)
			return
		}
		// A fraction of Gi and the like is kept as a big decimal; comparing that with
		// thousandths would allocate.
		if q.Format != apiresource.BinarySI {
			if v := q.MilliValue(); v > 0 && q.Cmp(*apiresource.NewMilliQuantity(v, apiresource.DecimalSI)) == 0 {
				w.bytes = binary.AppendVarint(append(w.bytes, 'm'), v)
				return
			}
		}
	}
	d := q.AsDec()
	scale := int64(d.Scale())
	if v, ok := d.Unscaled(); ok {
		w.bytes = binary.AppendVarint(binary.AppendVarint(append(w.bytes, 'd'), scale), v)
		return
	}
	w.bytes = binary.AppendVarint(append(w.bytes, 'b'), scale)
	w.flag(d.Sign() < 0)
	w.text(string(d.UnscaledBig().Bytes()))
}

// volumes writes what volume plugins read of a pod: the claims' names, and disks. What
// becomes of a claim is not the pod's.
func (s *signature) volumes(p *v1.Pod) {
	claims := false
	for i := range p.Spec.Volumes {
		v := &p.Spec.Volumes[i]
		if !mountsStorage(v) {
			continue
		}
		s.flag(true)
		name, generated, isClaim := storage.ClaimName(p, v)
		s.flag(isClaim)
		if !isClaim {
			s.disk(v)
			continue
		}
		s.text(name)
		s.flag(generated)
		if generated { // the claim has to be this very pod's
			s.text(p.Name)
			s.text(string(p.UID))
		}
		claims = true
	}
	s.flag(false)
	if claims {
		s.text(p.Namespace)
	}
}

// disk writes a volume of an in-tree plugin; errors name it.
func (s *signature) disk(v *v1.Volume) {
	encoded, err := v.VolumeSource.Marshal()
	if err != nil {
		panic(err) // it writes to memory
	}
	s.text(v.Name)
	s.count(len(encoded))
	s.bytes = append(s.bytes, encoded...)
}

// spread writes a pod's topology spread constraints, with its namespace: their counters
// are bound to it.
func (s *signature) spread(p *v1.Pod) {
	list := p.Spec.TopologySpreadConstraints
	s.count(len(list))
	if len(list) == 0 {
		return
	}
	s.text(p.Namespace)
	for i := range list {
		c := &list[i]
		s.text(c.TopologyKey)
		s.text(string(c.WhenUnsatisfiable))
		s.bytes = binary.AppendVarint(s.bytes, int64(c.MaxSkew))
		s.optional(c.MinDomains)
		s.policy(c.NodeAffinityPolicy)
		s.policy(c.NodeTaintsPolicy)
		s.bytes = selector.Append(s.bytes, c.LabelSelector)
		s.count(len(c.MatchLabelKeys))
		for _, key := range c.MatchLabelKeys {
			s.text(key)
		}
	}
}

func (s *signature) optional(n *int32) {
	s.flag(n != nil)
	if n != nil {
		s.bytes = binary.AppendVarint(s.bytes, int64(*n))
	}
}

func (s *signature) policy(p *v1.NodeInclusionPolicy) {
	s.flag(p != nil)
	if p != nil {
		s.text(string(*p))
	}
}
