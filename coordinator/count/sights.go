package count

// keptSights bounds the bytes of what the spaces of an index keep by sight: a few hundred thousand kinds of pods.
const keptSights = 32 << 20

// sights is what is found for the pods of one space, by what its selectors see of their labels. A sight may be as long
// as the labels are, so bytes are counted, and not sights: those of all spaces as well, in of.
type sights[V any] struct {
	bySight map[string]V
	bytes   int
}

// keep keeps a value of some bytes; false: all spaces of the index have to forget what they keep first.
func (s *sights[V]) keep(sight string, v V, bytes int, of *int) bool {
	bytes += len(sight) + 64
	if *of > 0 && *of+bytes > keptSights {
		return false
	}
	if s.bySight == nil {
		s.bySight = map[string]V{}
	}
	s.bySight[sight] = v
	s.bytes += bytes
	*of += bytes
	return true
}

// forget drops what is kept.
func (s *sights[V]) forget(of *int) {
	*of -= s.bytes
	*s = sights[V]{}
}
