package cli

import (
	"fmt"
	"io"

	v1 "k8s.io/api/core/v1"
)

// demand is something that a pod may ask for.
type demand struct {
	what string
	has  func(*v1.PodSpec) bool
}

// unevaluated are the demands that no rule looks at yet.
func unevaluated() []demand {
	return []demand{
		{"resource claims", func(s *v1.PodSpec) bool { return len(s.ResourceClaims) > 0 }},
	}
}

// warnUnevaluated tells, once for each kind, of pods that ask for what is not
// evaluated: they are placed as if they did not.
func warnUnevaluated(w io.Writer, pods []*v1.Pod) {
	for _, u := range unevaluated() {
		n, example := 0, ""
		for _, p := range pods {
			if p.Spec.NodeName != "" || !u.has(&p.Spec) {
				continue
			}
			if n++; n == 1 {
				example = p.Namespace + "/" + p.Name
			}
		}
		if n > 0 {
			fmt.Fprintf(w, "warning: %d pods have %s (such as %s), which this version does not evaluate: they are placed as if they had none\n", n, u.what, example)
		}
	}
}
