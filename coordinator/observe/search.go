package observe

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/shardsched/shardsched/coordinator/compile"
)

// soughtAtOnce is at how many placed pods one step of an explanation looks for its own: each takes tens of nanoseconds.
const soughtAtOnce = 8192

// search is how far a pod on a node was looked for.
type search struct {
	uid types.UID // empty: not found yet
	// left is how many pods of the namespace are not looked at yet; 0: all, or none.
	left   int
	rounds int
}

// step looks at some pods of a namespace; true: there are no more to look at, or the pod is found. One that is placed anew
// meanwhile may be passed over, so that a search of several steps is made twice.
func (x *search) step(c Placed, namespace, name string) (last bool) {
	if x.uid != "" {
		if pod, _, _ := c.Pod(x.uid); pod != nil {
			return true
		}
		*x = search{}
	}
	begins := x.left == 0
	if begins {
		x.left = math.MaxInt
		x.rounds++
	}
	x.uid, x.left = c.Find(namespace, name, x.left, soughtAtOnce)
	return x.uid != "" || x.left == 0 && (begins || x.rounds == 2)
}

// notOurs says whose a pod is that none of the profiles is for.
func notOurs(pod *v1.Pod, profiles map[string]*compile.Profile) string {
	ours := strings.Join(slices.Sorted(maps.Keys(profiles)), ", ")
	return fmt.Sprintf("its schedulerName is %s, and this scheduler's are %s: only that one can tell why it is where it is",
		pod.Spec.SchedulerName, ours)
}
