package groups

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
)

// Annotations of PodGroups that ask for more than upstream's API can say.
const (
	PreferredTopology = "shardsched.io/preferred-topology" // labels of nodes, the narrowest first: "rack,block"
	SliceTopology     = "shardsched.io/slice-topology"     // a label of nodes
	SliceSize         = "shardsched.io/slice-size"         // a number of members
	GiveUpAfter       = "shardsched.io/give-up-after"      // a duration: "30m"
	RetryAfter        = "shardsched.io/retry-after"        // a duration: "5m"
)

// Asks are what annotations of a PodGroup ask for. The zero value asks for nothing.
type Asks struct {
	// Preferred are labels of nodes: members are to have one value of the first, or else of the second, and so on, or else any.
	Preferred []string
	// SliceSize consecutive members each are to be in one domain of the label SliceKey; 0: there are no slices.
	SliceKey  string
	SliceSize int
	// GiveUpAfter is for how long the pod group is tried; 0: for ever. RetryAfter is when one that was given up is tried again; 0: when
	// it has a new member or the PodGroup changes.
	GiveUpAfter, RetryAfter time.Duration
}

const (
	// maxPreferred bounds the levels: no network has more of them, and each costs a pass over all domains.
	maxPreferred = 8
	// maxAsked bounds durations, to what a Time can be moved by.
	maxAsked = 10 * 365 * 24 * time.Hour
	// maxQuoted bounds how much of an annotation an error repeats, in bytes.
	maxQuoted = 64
)

// asksOf reads the annotations. An error names one, its value, and what was expected.
func asksOf(annotations map[string]string) (Asks, error) {
	var a Asks
	r := reader{annotations: annotations}
	r.known()
	a.Preferred = r.labels(PreferredTopology)
	if keys := r.labels(SliceTopology); len(keys) > 1 {
		r.refuse(SliceTopology, "one label of nodes")
	} else if len(keys) == 1 {
		a.SliceKey = keys[0]
	}
	a.SliceSize = r.size(SliceSize)
	a.GiveUpAfter = r.duration(GiveUpAfter)
	a.RetryAfter = r.duration(RetryAfter)
	switch {
	case a.SliceKey != "" && a.SliceSize == 0:
		r.refuse(SliceTopology, SliceSize+" beside it")
	case a.SliceKey == "" && a.SliceSize > 0:
		r.refuse(SliceSize, SliceTopology+" beside it")
	case a.RetryAfter > 0 && a.GiveUpAfter == 0:
		r.refuse(RetryAfter, GiveUpAfter+" beside it")
	}
	if r.err != nil {
		return Asks{}, r.err
	}
	return a, nil
}

// reader reads annotations, and keeps the first error.
type reader struct {
	annotations map[string]string
	err         error
}

func (r *reader) refuse(annotation, expected string) {
	if r.err != nil {
		return
	}
	value, rest := r.annotations[annotation], ""
	if len(value) > maxQuoted {
		value, rest = value[:maxQuoted], "…"
	}
	r.err = fmt.Errorf("annotation %s is %q%s, expected %s", annotation, value, rest, expected)
}

// known refuses annotations of our name that ask for nothing: misspelt ones.
func (r *reader) known() {
	asks := []string{PreferredTopology, SliceTopology, SliceSize, GiveUpAfter, RetryAfter}
	for _, key := range slices.Sorted(maps.Keys(r.annotations)) {
		if strings.HasPrefix(key, "shardsched.io/") && !slices.Contains(asks, key) {
			r.err = fmt.Errorf("annotation %s is not known, expected one of %s", key, strings.Join(asks, ", "))
			return
		}
	}
}

// labels reads labels of nodes, with commas between them.
func (r *reader) labels(annotation string) []string {
	value, ok := r.annotations[annotation]
	if !ok {
		return nil
	}
	if strings.Count(value, ",") >= maxPreferred {
		r.refuse(annotation, fmt.Sprintf("at most %d labels of nodes", maxPreferred))
		return nil
	}
	keys := strings.Split(value, ",")
	for i, key := range keys {
		keys[i] = strings.TrimSpace(key)
		if len(validation.IsQualifiedName(keys[i])) > 0 {
			r.refuse(annotation, "names of labels of nodes, with commas between them")
			return nil
		}
		if slices.Contains(keys[:i], keys[i]) {
			r.refuse(annotation, "each label once")
			return nil
		}
	}
	return keys
}

func (r *reader) size(annotation string) int {
	value, ok := r.annotations[annotation]
	if !ok {
		return 0
	}
	n, err := strconv.Atoi(value)
	if err != nil || n < 1 || n > MaxMembers {
		r.refuse(annotation, fmt.Sprintf("a number of members from 1 to %d", MaxMembers))
		return 0
	}
	return n
}

func (r *reader) duration(annotation string) time.Duration {
	value, ok := r.annotations[annotation]
	if !ok {
		return 0
	}
	d, err := time.ParseDuration(value)
	if err != nil || d <= 0 || d > maxAsked {
		r.refuse(annotation, "a duration above 0 and of at most 87600h, such as 30m or 12h")
		return 0
	}
	return d
}
