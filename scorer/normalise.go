package scorer

// maxNodeScore is the best score that a plugin gives.
const maxNodeScore = 100

// normalisation is what becomes of a plugin's raw scores.
type normalisation int

const (
	// local: the raw score counts as it is.
	local normalisation = iota
	// normalised: stretched so that the largest becomes maxNodeScore.
	normalised
	// normalisedReverse: the same, and the largest becomes 0.
	normalisedReverse
)

// apply is upstream's DefaultNormalizeScore for one score, where top is the maximum
// over all feasible nodes.
func (n normalisation) apply(raw, top int64) int64 {
	switch {
	case n == local:
		return raw
	case top <= 0 && n == normalisedReverse:
		return maxNodeScore
	case top <= 0:
		return raw
	}
	s := maxNodeScore * raw / top
	if n == normalisedReverse {
		return maxNodeScore - s
	}
	return s
}

// GroupScore is the weighted sum of the normalised plugins for a Key.Raw of
// Class.KeyLen numbers. extrema[i] is the maximum of key[i] over all feasible rows of the
// cluster. The second of two rounds adds it to the local score.
func (c *Class) GroupScore(key, extrema []int64) int64 {
	total := int64(0)
	for i := range c.scores {
		if s := &c.scores[i]; s.key >= 0 && s.key < len(key) {
			total += s.weight * s.normalisation.apply(key[s.key], extremum(extrema, s.key))
		}
	}
	return total
}

// Normalise is the score from 0 to 100 that becomes of a plugin's raw one.
func (c *Class) Normalise(p PluginScore, extrema []int64) int64 {
	for i := range c.scores {
		if s := &c.scores[i]; s.plugin == p.Plugin {
			return s.normalisation.apply(p.Raw, extremum(extrema, s.key))
		}
	}
	return p.Raw
}

func extremum(extrema []int64, i int) int64 {
	if i < 0 || i >= len(extrema) {
		return 0
	}
	return extrema[i]
}
