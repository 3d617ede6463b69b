package coordinator

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	configv1 "k8s.io/kube-scheduler/config/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/shardsched/shardsched/coordinator/objects"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// wantReviews holds what is remembered of a pod's last decision: a line for each reviewer.
func (x *scenario) wantReviews(when, uid string, want ...string) {
	x.t.Helper()
	var past []*pb.PastDecision
	if err := x.call(x.ctx, func() { past = x.history.Past(types.UID(uid)) }); err != nil {
		x.t.Fatal(err)
	}
	if len(past) == 0 {
		x.t.Fatalf("%s: no decision of %s is remembered", when, uid)
	}
	var got []string
	for _, r := range past[0].Reviews {
		line := r.Reviewer
		if r.Score != nil {
			line += fmt.Sprint(" +", *r.Score)
		}
		for _, why := range r.Refusals {
			line += fmt.Sprintf(" [%d %s: %s]", why.Nodes, why.Reason, strings.Join(slices.Sorted(slices.Values(why.Examples)), " "))
		}
		got = append(got, line)
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		x.t.Errorf("%s: got %q, want %q", when, got, want)
	}
}

// A decision remembers which nodes plugins have refused, why, and what they added to the chosen node's score.
func TestWhatGuestsSayIsRemembered(t *testing.T) {
	g := newTestPlugin()
	g.fits = func(node string) *fwk.Status {
		if node == "n" {
			return no("in maintenance")
		}
		return nil
	}
	g.score = func(node string) int64 { return map[string]int64{"o": 100, "p": 1}[node] }
	runScenarioWith(t, withPlugins(t, "", g), clusterOf(nodesOf("4", "n", "o", "p")), nil, func(x *scenario) {
		x.deliver(objects.Added, cores("a", "1"))
		x.wantPods("as the plugin scores", "a promised o")
		x.wantReviews("placed", "a", "plugin Guest +100 [1 in maintenance: n]")
		g.fits = func(string) *fwk.Status { return no("in maintenance") }
		x.deliver(objects.Added, cores("b", "1"))
		x.wantReviews("refused on all", "b", "plugin Guest [3 in maintenance: n o p]")
		g.fits = func(string) *fwk.Status { return nil }
		g.only = []string{"o", "nowhere"}
		x.deliver(objects.Added, cores("c", "1"))
		x.wantReviews("narrowed", "c", "plugin Guest [2 node(s) didn't satisfy plugin(s) [Guest]: ]")
		g.only = nil
		g.tell("PreFilter", fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "over quota"))
		x.deliver(objects.Added, cores("d", "1"))
		x.wantReviews("rejected", "d", "plugin Guest [3 over quota: ]")
	})
}

// A decision remembers which nodes each extender has refused, also without a reason, and what each added to the score.
func TestWhatExtendersSayIsRemembered(t *testing.T) {
	bar := configv1.Extender{URLPrefix: "http://x/bar", NodeCacheCapable: true, Weight: 3, PrioritizeVerb: "prioritize", FilterVerb: "filter"}
	runScenarioAdvised(t, clusterOf(nodesOf("4", "a", "b", "c", "d", "e")), func(x *scenario, a *advisor) {
		a.filter("/foo/filter", map[string]string{"a": "no foo", "nobody": "never heard of"}, "b", "c", "d")
		a.filter("/bar/filter", map[string]string{"d": "no bar"}, "b", "c")
		for _, path := range []string{"/foo", "/bar"} {
			a.on(path+"/prioritize", func(context.Context, []byte) (any, error) {
				return extenderv1.HostPriorityList{{Host: "c", Score: 7}, {Host: "b", Score: 1}}, nil
			})
		}
		x.deliver(objects.Added, wanting("p", "1"))
		x.wantPods("as the extenders score", "p promised c")
		x.wantReviews("placed", "p", "extender http://x/foo +140 [1 no foo: a] [1 : e]", "extender http://x/bar +210 [1 no bar: d]")
		a.filter("/bar/filter", nil)
		x.deliver(objects.Added, wanting("q", "1"))
		x.wantReviews("refused", "q", "extender http://x/foo [1 no foo: a] [1 : e]", "extender http://x/bar [3 : b c d]")
	}, foo("filter", "prioritize"), bar)
}
