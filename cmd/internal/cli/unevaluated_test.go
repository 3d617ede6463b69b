package cli

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/shardsched/shardsched/coordinator/build"
)

func TestPodsAreToldOfWhatIsNotEvaluated(t *testing.T) {
	plain, claiming, bound := build.Pod("plain").Obj(), build.Pod("claiming").Obj(), build.Pod("bound").Node("n").Obj()
	claiming.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "gpu"}}
	bound.Spec.ResourceClaims = claiming.Spec.ResourceClaims
	var out strings.Builder
	warnUnevaluated(&out, []*v1.Pod{plain, claiming, bound})
	want := "warning: 1 pods have resource claims (such as default/claiming), which this version does not evaluate: they are placed as if they had none\n"
	if out.String() != want {
		t.Errorf("got\n%swant\n%s", out.String(), want)
	}
}
