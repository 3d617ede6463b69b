package configs

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/shardsched/shardsched/coordinator/framework"
	"github.com/shardsched/shardsched/coordinator/rules"
)

// head is how a file begins.
const head = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"

// generator makes configuration files up. Most are good; each of the others has one slip or
// a few.
type generator struct {
	*rand.Rand
	b strings.Builder
}

// newGenerator makes the same files of the same seed.
func newGenerator(seed, n uint64) *generator {
	return &generator{Rand: rand.New(rand.NewPCG(seed, n))}
}

// chance is true once in n.
func (g *generator) chance(n int) bool { return g.IntN(n) == 0 }

func (g *generator) line(depth int, format string, a ...any) {
	fmt.Fprintf(&g.b, "%s"+format+"\n", append([]any{strings.Repeat("  ", depth)}, a...)...)
}

// pick is one of some values; once in a hundred one that is wrong.
func (g *generator) pick(right, wrong []string) string {
	if len(wrong) > 0 && g.chance(100) {
		right = wrong
	}
	return right[g.IntN(len(right))]
}

func words(s string) []string { return strings.Split(s, "|") }

// file is a configuration file.
func (g *generator) file() string {
	g.b.Reset()
	g.b.WriteString(head)
	g.top()
	if n := g.IntN(4); n > 0 {
		g.line(0, "profiles:")
		for i := range n {
			g.profile(i, n)
		}
	}
	if g.chance(6) {
		g.line(0, "extenders:")
		for i := range 1 + g.IntN(2) {
			g.extender(i)
		}
	}
	return g.b.String()
}

func (g *generator) top() {
	for _, f := range []struct {
		name         string
		right, wrong string
	}{
		{"parallelism", "1|16|64|null", "0|-1|x"},
		{"percentageOfNodesToScore", "0|50|100|null", "-1|101"},
		{"podInitialBackoffSeconds", "1|2|10", "0|-1|600"},
		{"podMaxBackoffSeconds", "10|11|600", "0|-7"},
		{"delayCacheUntilActive", "true|false", "3"},
		{"enableProfiling", "true|false", "yes please"},
		{"enableContentionProfiling", "true|false", "1"},
		{"leaderElection", "{}|{leaderElect: false}|{leaseDuration: 30s}|{leaseDuration: 30s, renewDeadline: 12s500ms}",
			"{leaseDuration: 3s}|{resourceLock: endpoints}|{retryPeriod: 0s, renewDeadline: -1s}|{leader: true}"},
		{"clientConnection", "{}|{qps: 3, burst: 7}|{kubeconfig: /a/b}", "{burst: -1}|{rate: 3}"},
	} {
		if g.chance(6) {
			g.line(0, "%s: %s", f.name, g.pick(words(f.right), words(f.wrong)))
		}
	}
}

func (g *generator) profile(i, of int) {
	name := fmt.Sprintf("profile-%d", i)
	if g.chance(60) {
		name = "profile-0"
	}
	switch {
	case of == 1 && g.chance(2), g.chance(100):
		g.line(0, "- {}")
		return
	case g.chance(100):
		name = `""`
	}
	g.line(0, "- schedulerName: %s", name)
	if g.chance(10) {
		g.line(1, "percentageOfNodesToScore: %s", g.pick(words("0|33|100"), words("-3|300")))
	}
	if !g.chance(5) {
		g.line(1, "plugins:")
		g.sets()
	}
	if !g.chance(3) {
		g.arguments()
	}
}

// at are upstream's plugins that have a point; all of them for the multi-point.
func at(point string) []string {
	var out []string
	for _, r := range rules.All() {
		has := func(p framework.Point) bool { return p.Field() == point }
		if !r.Ours && (point == "multiPoint" || slices.ContainsFunc(r.Points, has)) {
			out = append(out, r.Name)
		}
	}
	return out
}

const points = "multiPoint preEnqueue queueSort preFilter filter postFilter preScore score reserve permit preBind bind postBind " +
	"placementGenerate placementScore"

func (g *generator) sets() {
	for _, point := range strings.Fields(points) {
		if !g.chance(4) {
			continue
		}
		// What no profile does without is left alone, most of the time.
		if (point == "bind" || point == "queueSort") && !g.chance(20) {
			continue
		}
		g.line(2, "%s:", point)
		if g.chance(2) {
			g.line(3, "disabled: [%s]", g.disabled(point))
		}
		if !g.chance(4) {
			g.line(3, "enabled: [%s]", g.enabled(point))
		}
	}
}

func (g *generator) disabled(point string) string {
	var out []string
	for _, name := range at(point) {
		mustStay := name == rules.PrioritySort || name == rules.DefaultBinder
		if g.chance(5) && (!mustStay || g.chance(10)) {
			out = append(out, "{name: "+name+"}")
		}
	}
	if point != "multiPoint" && g.chance(6) || g.chance(40) {
		out = append(out, `{name: "*"}`)
	}
	if g.chance(15) {
		out = append(out, "{name: Unheard}")
	}
	return strings.Join(out, ", ")
}

func (g *generator) enabled(point string) string {
	var out []string
	some := at(point)
	g.Shuffle(len(some), func(i, j int) { some[i], some[j] = some[j], some[i] })
	for _, name := range some {
		if !g.chance(3) {
			continue
		}
		out = append(out, g.entry(name))
		if g.chance(200) {
			out = append(out, g.entry(name))
		}
	}
	if g.chance(100) {
		all := at("multiPoint")
		out = append(out, g.entry(append(all, "Unheard", "EBSLimits", `"*"`, `""`)[g.IntN(len(all)+4)]))
	}
	return strings.Join(out, ", ")
}

func (g *generator) entry(name string) string {
	if g.chance(2) {
		return "{name: " + name + "}"
	}
	return fmt.Sprintf("{name: %s, weight: %s}", name, g.pick(words("0|1|2|5|100|2147483647|null"), words("-1|-100|2147483648|x")))
}

func (g *generator) extender(i int) {
	g.line(0, "- urlPrefix: http://127.0.0.1:%d/", 8000+i)
	for _, f := range []struct{ name, right, wrong string }{
		{"prioritizeVerb", `""`, "prioritize"},
		{"weight", "1|5", "-1|x"},
		{"bindVerb", "bind", `""`},
		{"httpTimeout", "1s|0s|2m", "3"},
		{"ignorable", "true|false", ""},
		{"nodeCacheCapable", "true|false", ""},
		{"managedResources", fmt.Sprintf("[]|[{name: example.com/a%d, ignoredByScheduler: true}]|[{name: example.com/b%d}]", i, i),
			"[{name: example.com/a0}]|[{name: cpu}]|[{name: a b}]"},
	} {
		if g.chance(3) {
			var wrong []string
			if f.wrong != "" {
				wrong = words(f.wrong)
			}
			g.line(1, "%s: %s", f.name, g.pick(words(f.right), wrong))
		}
	}
}
