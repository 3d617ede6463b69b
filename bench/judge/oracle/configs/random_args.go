package configs

import (
	"fmt"
	"strings"
)

// arguments gives some plugins theirs.
func (g *generator) arguments() {
	var lines []string
	for _, a := range []struct {
		plugin string
		args   func() string
	}{
		{"DefaultPreemption", g.preemption}, {"DynamicResources", g.claims}, {"InterPodAffinity", g.affinity},
		{"NodeAffinity", g.added}, {"NodeResourcesBalancedAllocation", g.balance}, {"NodeResourcesFit", g.fit},
		{"PodTopologySpread", g.spread}, {"VolumeBinding", g.volumes},
		{"NodeName", func() string { return "a: 1" }}, {"Unheard", func() string { return "b: {c: 2}" }},
	} {
		if !g.chance(4) {
			continue
		}
		fields := a.args()
		if g.chance(150) {
			fields = join(fields, "unheard: 1")
		}
		if g.chance(20) {
			fields = join(fields, "kind: "+g.pick([]string{a.plugin + "Args"}, words("NodeAffinityArgs|Node")))
		}
		if g.chance(20) {
			fields = join(fields, "apiVersion: "+g.pick(words("kubescheduler.config.k8s.io/v1"),
				words("v1|kubescheduler.config.k8s.io/v1beta3|a/b/c")))
		}
		line := fmt.Sprintf("- {name: %s, args: {%s}}", a.plugin, fields)
		if g.chance(30) {
			line = fmt.Sprintf("- {name: %s}", a.plugin)
		}
		lines = append(lines, line)
		if g.chance(200) {
			lines = append(lines, line)
		}
	}
	if len(lines) == 0 {
		return
	}
	g.Shuffle(len(lines), func(i, j int) { lines[i], lines[j] = lines[j], lines[i] })
	g.line(1, "pluginConfig:")
	for _, l := range lines {
		g.line(1, "%s", l)
	}
}

func join(parts ...string) string {
	var some []string
	for _, p := range parts {
		if p != "" {
			some = append(some, p)
		}
	}
	return strings.Join(some, ", ")
}

// maybe is a field with one of some values, or nothing.
func (g *generator) maybe(name, right, wrong string) string {
	if g.chance(3) {
		return ""
	}
	return name + ": " + g.pick(words(right), words(wrong))
}

// some is a list of up to n things.
func (g *generator) some(n int, thing func() string) string {
	var out []string
	for range g.IntN(n + 1) {
		out = append(out, thing())
	}
	return "[" + strings.Join(out, ", ") + "]"
}

func (g *generator) preemption() string {
	return join(g.maybe("minCandidateNodesPercentage", "1|10|100|0", "-1|101"),
		g.maybe("minCandidateNodesAbsolute", "1|100|100000", "-1|0"))
}

func (g *generator) claims() string {
	return join(g.maybe("filterTimeout", "0s|1s|1h", "-1s|x"), g.maybe("bindingTimeout", "1s|10m", "999ms|-3s"))
}

func (g *generator) affinity() string {
	return join(g.maybe("hardPodAffinityWeight", "0|1|100", "-1|101|x"), g.maybe("ignorePreferredTermsOfExistingPods", "true|false", "x"))
}

func (g *generator) added() string {
	required := func() string {
		return fmt.Sprintf("requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: %s}", g.some(2, g.term))
	}
	preferred := func() string {
		return fmt.Sprintf("preferredDuringSchedulingIgnoredDuringExecution: %s", g.some(2, func() string {
			return fmt.Sprintf("{weight: %s, preference: %s}", g.pick(words("1|100"), words("0|101")), g.term())
		}))
	}
	switch g.IntN(4) {
	case 0:
		return "addedAffinity: {" + required() + "}"
	case 1:
		return "addedAffinity: {" + preferred() + "}"
	case 2:
		return "addedAffinity: {" + join(required(), preferred()) + "}"
	}
	return "addedAffinity: " + g.pick(words("{}|null"), words("3"))
}

func (g *generator) term() string {
	expression := func() string {
		key := g.pick(words("a|zone|example.com/b"), words(`""|"a b"|a/b/c`))
		return fmt.Sprintf("{key: %s, %s}", key, g.pick(
			words(`operator: In, values: [a, b]|operator: NotIn, values: [c]|operator: Exists|operator: DoesNotExist|`+
				`operator: Gt, values: ["3"]|operator: Lt, values: ["-4"]`),
			words(`operator: In|operator: Exists, values: [a]|operator: Gt, values: [a]|operator: Lt, values: ["1", "2"]|`+
				`operator: Like, values: [a]|operator: In, values: ["a b"]`)))
	}
	field := func() string {
		return fmt.Sprintf("{key: %s, operator: %s, values: [n]}", g.pick(words("metadata.name"), words("metadata.uid")),
			g.pick(words("In|NotIn"), words("Exists|Gt")))
	}
	fields := ""
	if g.chance(3) {
		fields = "matchFields: " + g.some(1, field)
	}
	return "{" + join("matchExpressions: "+g.some(2, expression), fields) + "}"
}

func (g *generator) balance() string {
	return "resources: " + g.some(2, func() string {
		return fmt.Sprintf("{name: %s, weight: %s}", g.pick(words("cpu|memory|example.com/gpu|ephemeral-storage"), words("a b")),
			g.pick(words("0|1|null"), words("2|-1")))
	})
}

func (g *generator) fit() string {
	strategy := g.pick(words("LeastAllocated|MostAllocated|RequestedToCapacityRatio"), words(`Some|""`))
	parts := []string{"type: " + strategy}
	if g.chance(2) {
		parts = append(parts, "resources: "+g.some(2, func() string {
			return fmt.Sprintf("{name: %s, weight: %s}", g.pick(words("cpu|memory|example.com/gpu|ephemeral-storage|pods"), words("a b")),
				g.pick(words("0|1|3|100|null"), words("101|-1")))
		}))
	}
	if (strategy == "RequestedToCapacityRatio") != g.chance(60) {
		parts = append(parts, "requestedToCapacityRatio: {shape: "+g.shape()+"}")
	}
	out := "scoringStrategy: {" + strings.Join(parts, ", ") + "}"
	if g.chance(4) {
		out = g.pick(words("scoringStrategy: null"), words("scoringStrategy: {}|scoringStrategy: []"))
	}
	return join(out, g.maybe("ignoredResources", "[]|[example.com/a]|[cpu, example.com/b]", `[""]|[a b]|[a/b/c]`),
		g.maybe("ignoredResourceGroups", "[]|[example.com]|[a, b]", `[""]|[example.com/a]|[a b]`))
}

func (g *generator) shape() string {
	return g.pick(words("[{utilization: 0, score: 0}, {utilization: 100, score: 10}]|[{utilization: 30, score: 5}]|[{utilization: 0, "+
		"score: 10}, {utilization: 50, score: 2}, {utilization: 100, score: 0}]"),
		words("[]|[{utilization: 50, score: 0}, {utilization: 40, score: 10}]|[{utilization: -1, score: 11}]|[{utilization: "+
			"101}]|[{score: -1}]"))
}

func (g *generator) spread() string {
	list := "defaultConstraints: " + g.some(2, func() string {
		fields := join("maxSkew: "+g.pick(words("1|2|100"), words("0|-1")),
			"topologyKey: "+g.pick(words("zone|kubernetes.io/hostname|a"), words(`""|a b`)),
			"whenUnsatisfiable: "+g.pick(words("ScheduleAnyway|DoNotSchedule"), words(`""|Maybe`)))
		if g.chance(30) {
			fields = join(fields, g.pick(words("minDomains: 3|nodeTaintsPolicy: Honor|matchLabelKeys: [a]"),
				words("labelSelector: {}|minDomains: x")))
		}
		return "{" + fields + "}"
	})
	if strings.Contains(list, "maxSkew") || g.chance(2) {
		return join(list, "defaultingType: "+g.pick(words("List"), words(`System|Chance|""`)))
	}
	return g.maybe("defaultingType", "System|List", "Chance")
}

func (g *generator) volumes() string {
	out := g.maybe("bindTimeoutSeconds", "0|1|600", "-1|x")
	if g.chance(60) {
		out = join(out, "shape: "+g.shape())
	}
	return out
}
