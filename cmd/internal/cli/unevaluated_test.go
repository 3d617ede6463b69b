package cli

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/shardsched/shardsched/coordinator/build"
)

func TestPodsAreToldOfWhatIsNotEvaluated(t *testing.T) {
	plain, spread, bound := build.Pod("plain").Obj(), build.Pod("spread").Obj(), build.Pod("bound").Node("n").Obj()
	spread.Spec.TopologySpreadConstraints = []v1.TopologySpreadConstraint{{TopologyKey: "zone"}}
	spread.Spec.Volumes = []v1.Volume{{VolumeSource: v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: "c"}}}}
	bound.Spec.Affinity = &v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{}}
	var out strings.Builder
	warnUnevaluated(&out, []*v1.Pod{plain, spread, bound})
	want := "warning: 1 pods have topology spread constraints (such as default/spread), which this version does not evaluate: they are placed as if they had none\n" +
		"warning: 1 pods have persistent volume claims (such as default/spread), which this version does not evaluate: they are placed as if they had none\n"
	if out.String() != want {
		t.Errorf("got\n%swant\n%s", out.String(), want)
	}
}
