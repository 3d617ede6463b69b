package placement

import (
	"fmt"
)

// Member is a scheduled member of a pod group: its pod ("namespace/name"), and where it is.
type Member struct {
	Pod string
	// Node is the name of its node, if there is none of that name; else empty.
	Node string
	// Value is the node's value of the topology key. Labelled is false where the node has no such label.
	Value    string
	Labelled bool
}

// Pin is the domain that the scheduled members of a pod group hold the others to. The errors are upstream's, word for word.
//
// Differs from upstream: the empty value is a value like others. Upstream overlooks a second domain behind it.
func Pin(members []Member) (value string, err error) {
	for i, m := range members {
		switch {
		case m.Node != "":
			err = fmt.Errorf("getting node for pod %s: nodeinfo not found for node name %q", m.Pod, m.Node)
		case !m.Labelled:
			err = fmt.Errorf("no topology domain found for pod %s", m.Pod)
		case i > 0 && m.Value != value:
			err = fmt.Errorf("more than 1 domain found for pod group: %s, %s", value, m.Value)
		}
		if err != nil {
			return "", fmt.Errorf("cannot determine domain for already scheduled pods: %w", err)
		}
		value = m.Value
	}
	return value, nil
}

// NoPlacements is the status of a pod group where no node has the topology key.
const NoPlacements = "no feasible placements found"

// NoneAvailable is the status of a pod group that none of so many placements takes enough of. first is the status of the one whose
// refusals are shown.
func NoneAvailable(placements int, first string) string {
	return fmt.Sprintf("0/%d placements are available, first placement status: %s", placements, first)
}
