package plugins

import (
	"fmt"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/shardsched/shardsched/bench/cluster/controlplane/testbed"
	"github.com/shardsched/shardsched/cmd/shardsched-plugins/gang"
	"github.com/shardsched/shardsched/cmd/shardsched-plugins/load"
	"github.com/shardsched/shardsched/internal/testkit/build"
)

// gang makes the pods of a gang of four, each with one slot.
func (s *side) gang(name string) (pods []string) {
	s.T.Helper()
	for i := range 4 {
		pod := fmt.Sprintf("%s-%d", name, i)
		s.create(build.Pod(pod).Request(s.slot(), "1").Label(gang.NameLabel, name).Label(gang.SizeLabel, "4"), gangProfile)
		pods = append(pods, pod)
	}
	return pods
}

func gangThatFits() story {
	return story{
		name: "a gang that fits is bound together",
		node: "gang-yes", slots: "4",
		ends: true,
		happens: func(s *side) {
			for _, pod := range s.gang("gang-yes") {
				s.Bound(s.key(pod))
			}
		},
		wants: []string{`gang-yes-0: pod: node "gang-yes-SIDE"`, "gang-yes-3: pod: "},
	}
}

func gangThatDoesNot() story {
	return story{
		name: "a gang that does not fit is not bound, and gives its room back",
		node: "gang-no", slots: "3",
		ends: true,
		happens: func(s *side) {
			pods := s.gang("gang-no")
			// One finds no room, and the others wait for it in vain.
			keys := make([]string, len(pods))
			for i, pod := range pods {
				keys[i] = s.key(pod)
			}
			s.Until("have waited in vain, or found no room", func(p *v1.Pod) bool {
				if p == nil || !testbed.IsUnschedulable(p) {
					return false
				}
				why := testbed.ScheduledCondition(p).Message
				return strings.Contains(why, "at plugin Gang") || strings.Contains(why, `gang "gang-no" lost pod`) || strings.Contains(why, "Insufficient")
			}, keys...)
			s.delete(pods[0]) // those that are left do not even try
			s.create(build.Pod("gang-room").Request(s.slot(), "3"), "")
			s.Bound(s.key("gang-room"))
		},
		wants: []string{"gang-no-0: pod: is gone", `gang-no-1: pod: node ""`, `gang-no-2: pod: node ""`, `gang-no-3: pod: node ""`, `gang-room: pod: node "gang-no-SIDE"`},
	}
}

func quotas() story {
	return story{
		name: "a pod waits for its namespace's quota until another ends",
		ends: true,
		happens: func(s *side) {
			s.create(build.Pod("quota-first").NodeSelector("name", "n1").CPU("2"), quotaProfile)
			s.Bound(s.key("quota-first"))
			s.create(build.Pod("quota-second").NodeSelector("name", "n1").CPU("2"), quotaProfile)
			why := s.Unschedulable(s.key("quota-second"))
			if want := fmt.Sprintf("namespace %q would use 4 of 3 cpu", s.name); !strings.Contains(why, want) {
				s.T.Errorf("got %q, want %q", why, want)
			}
			s.create(build.Pod("quota-third").NodeSelector("name", "n1").CPU("1"), quotaProfile)
			s.Bound(s.key("quota-third"))
			_, err := s.Admin.CoreV1().Pods(s.name).Patch(s.Context(), "quota-first", types.MergePatchType, []byte(`{"status": {"phase": "Succeeded"}}`), metav1.PatchOptions{}, "status")
			s.must(err)
			s.Bound(s.key("quota-second"))
		},
	}
}

func loads() story {
	return story{
		name: "pods go where the load comes closest to the target",
		ends: true,
		happens: func(s *side) {
			s.create(build.Pod("load-first"), loadProfile)
			s.Bound(s.key("load-first"))
		},
		wants: []string{`load-first: pod: node "n2"`},
	}
}

func (p *pair) loadsLater() story {
	return story{
		name: "pods follow the load",
		ends: true,
		before: func(t *testing.T) {
			patch := fmt.Sprintf(`{"metadata": {"annotations": {%q: "40"}}}`, load.CPU)
			if _, err := p.Admin.CoreV1().Nodes().Patch(t.Context(), "n1", types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
				t.Fatal(err)
			}
		},
		happens: func(s *side) {
			s.pod("load-probe", "A.PreFilter", "once Unschedulable not yet")
			s.refused("load-probe")
			s.wake("n1", "load")
			s.bound("load-probe") // the scheduler knows of the node's change
			s.create(build.Pod("load-second"), loadProfile)
			s.Bound(s.key("load-second"))
		},
		wants: []string{`load-second: pod: node "n1"`},
	}
}
