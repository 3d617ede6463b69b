package kube

import (
	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// sharedParts bounds how many parts of a sort are remembered in each of a pool's halves, and
	// sharedBytes what they take.
	sharedParts = 1 << 14
	sharedBytes = 16 << 20
	// largestShared is how long a part may be to be remembered. Longer ones are not those of many objects.
	largestShared = 64 << 10
)

// partBytes is about what a part takes whose key has that many bytes.
func partBytes(key []byte) int { return 256 + 4*len(key) }

// shared lets objects have their equal parts in common: pods of one workload have the same
// containers, labels and owner, nodes of one machine type the same resources and images.
type shared struct {
	buffer []byte

	texts      pool[string]
	labels     pool[map[string]string]
	lists      pool[v1.ResourceList]
	images     pool[v1.ContainerImage]
	ownerLists pool[[]metav1.OwnerReference]
	bodies     pool[v1.PodSpec] // containers
	affinities pool[*v1.Affinity]
	rests      pool[v1.PodSpec]
	volumeList pool[[]v1.Volume]
	statuses   pool[v1.PodStatus]
	devices    pool[resourcev1.Device] // attributes and capacities
	claims     pool[resourcev1.ResourceClaimSpec]
}

func newShared() *shared {
	return &shared{
		texts: newPool[string](4 * sharedParts), labels: newPool[map[string]string](sharedParts),
		lists: newPool[v1.ResourceList](sharedParts), images: newPool[v1.ContainerImage](4 * sharedParts),
		ownerLists: newPool[[]metav1.OwnerReference](sharedParts), bodies: newPool[v1.PodSpec](sharedParts),
		affinities: newPool[*v1.Affinity](sharedParts), rests: newPool[v1.PodSpec](sharedParts),
		volumeList: newPool[[]v1.Volume](sharedParts), statuses: newPool[v1.PodStatus](sharedParts),
		devices: newPool[resourcev1.Device](sharedParts), claims: newPool[resourcev1.ResourceClaimSpec](sharedParts),
	}
}

// pool remembers parts by their bytes. It has a young and an old half: what is asked for is
// in the young one or comes back to it, and when that is full, the old half is dropped. A
// part that is dropped lives on in the objects that have it.
type pool[T any] struct {
	young, old map[string]T
	limit      int
	bytes      int // of the young half
}

func newPool[T any](limit int) pool[T] { return pool[T]{young: map[string]T{}, limit: limit} }

// get returns the part with a key, or this one, which is kept.
func (p *pool[T]) get(key []byte, part T) T {
	if known, ok := p.young[string(key)]; ok {
		return known
	}
	if len(key) > largestShared {
		return part
	}
	if known, ok := p.old[string(key)]; ok {
		part = known
	}
	if len(p.young) >= p.limit || p.bytes+partBytes(key) > sharedBytes {
		p.old, p.young, p.bytes = p.young, make(map[string]T, len(p.young)), 0
	}
	p.young[string(key)] = part
	p.bytes += partBytes(key)
	return part
}

// part is what a key is made of: Kubernetes' protobuf, whose maps are sorted.
type part interface {
	Size() int
	MarshalToSizedBuffer([]byte) (int, error)
}

// key is a part's bytes, good until the next call; nil where it has none.
func (s *shared) key(p part) []byte {
	n := p.Size()
	if n == 0 {
		return nil
	}
	if cap(s.buffer) < n {
		s.buffer = make([]byte, 2*n)
	}
	key := s.buffer[:n]
	if _, err := p.MarshalToSizedBuffer(key); err != nil {
		panic(err) // it writes to memory
	}
	return key
}

func (s *shared) text(x string) string {
	if x == "" {
		return ""
	}
	if known, ok := s.texts.young[x]; ok {
		return known
	}
	return s.texts.get([]byte(x), x)
}

func (s *shared) labelMap(m map[string]string) map[string]string {
	if len(m) == 0 {
		return nil
	}
	key := s.key(&metav1.LabelSelector{MatchLabels: m})
	if known, ok := s.labels.young[string(key)]; ok {
		return known
	}
	own := make(map[string]string, len(m))
	for k, v := range m {
		own[s.text(k)] = s.text(v)
	}
	return s.labels.get(key, own)
}

func (s *shared) amounts(l v1.ResourceList) v1.ResourceList {
	if len(l) == 0 {
		return nil
	}
	return s.lists.get(s.key(&v1.ResourceRequirements{Requests: l}), l)
}

func (s *shared) image(i *v1.ContainerImage) v1.ContainerImage { return s.images.get(s.key(i), *i) }

func (s *shared) owners(list []metav1.OwnerReference) []metav1.OwnerReference {
	if len(list) == 0 {
		return nil
	}
	return s.ownerLists.get(s.key(&metav1.ObjectMeta{OwnerReferences: list}), list)
}

func (s *shared) containers(first, rest []v1.Container) (_, _ []v1.Container) {
	body := v1.PodSpec{InitContainers: first, Containers: rest}
	body = s.bodies.get(s.key(&body), body)
	return body.InitContainers, body.Containers
}

func (s *shared) affinity(a *v1.Affinity) *v1.Affinity {
	if a == nil {
		return nil
	}
	return s.affinities.get(s.key(a), a)
}

func (s *shared) rest(spec *v1.PodSpec) v1.PodSpec { return s.rests.get(s.key(spec), *spec) }

func (s *shared) volumes(list []v1.Volume) []v1.Volume {
	if len(list) == 0 {
		return nil
	}
	return s.volumeList.get(s.key(&v1.PodSpec{Volumes: list}), list)
}

func (s *shared) claim(spec *resourcev1.ResourceClaimSpec) resourcev1.ResourceClaimSpec {
	return s.claims.get(s.key(spec), *spec)
}

func (s *shared) resized(status *v1.PodStatus) v1.PodStatus {
	return s.statuses.get(s.key(status), *status)
}
