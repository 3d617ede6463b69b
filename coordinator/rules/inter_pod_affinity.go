package rules

import (
	"cmp"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/shardsched/shardsched/coordinator/compile"
	"github.com/shardsched/shardsched/coordinator/count"
	"github.com/shardsched/shardsched/coordinator/framework"
	"github.com/shardsched/shardsched/coordinator/queue"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// InterPodAffinity is the plugin for terms of pods about other pods.
const InterPodAffinity = "InterPodAffinity"

func interPodAffinity() *Rule {
	return &Rule{
		Name: InterPodAffinity,
		Part: compile.Part{
			Plugin: pb.Plugin_PLUGIN_INTER_POD_AFFINITY,
			FilterAsks: func(q *pb.Query) bool {
				a := q.GetInterPodAffinity()
				return len(a.GetRequired())+len(a.GetAnti())+len(a.GetExistingAnti()) > 0
			},
			ScoreAsks: func(q *pb.Query) bool { return len(q.GetInterPodAffinity().GetPreferred()) > 0 },
		},
		Points: []framework.Point{framework.PreFilter, framework.Filter, framework.PreScore, framework.Score},
		Weight: 2,
		Arguments: arguments(completeInterPodAffinity, validateInterPodAffinity,
			func(c *compile.ProfileConfig) *configv1.InterPodAffinityArgs { return &c.InterPodAffinity }),
		Hints: queue.InterPodAffinity,
		Words: nearWords(),
	}
}

func completeInterPodAffinity(a *configv1.InterPodAffinityArgs) {
	orElse(&a.HardPodAffinityWeight, 1)
}

func validateInterPodAffinity(path *field.Path, a *configv1.InterPodAffinityArgs) field.ErrorList {
	return between(path.Child("hardPodAffinityWeight"), *a.HardPodAffinityWeight, 0, 100)
}

// The reasons of the plugin.
const (
	saysAffinity     = "node(s) didn't match pod affinity rules"
	saysAntiAffinity = "node(s) didn't match pod anti-affinity rules"
	saysExisting     = "node(s) didn't satisfy existing pods anti-affinity rules"
)

func nearWords() *Words {
	return &Words{
		Says:  []string{saysAffinity, saysAntiAffinity, saysExisting, "parsing pod: "},
		Lacks: nearLacks,
		Wants: func(a *Asked) []Want {
			near := count.ReadAffinity(a.Pod)
			var out []Want
			for _, reason := range a.Reasons {
				switch reason {
				case saysAffinity:
					out = append(out, Want{Cause: "affinity to " + termsText(near.Required), Help: "such a pod, or room beside it"})
				case saysAntiAffinity:
					out = append(out, Want{Cause: "anti-affinity to " + termsText(near.Anti), Help: "more " + domainsText(near.Anti)})
				case saysExisting:
					out = append(out, Want{Cause: "other pods have anti-affinity to this one", Help: "hosts or zones without these pods"})
				default: // "parsing pod: …"
					out = append(out, Want{Cause: "its affinity can not be read", Detail: short(reason), Help: "another affinity"})
				}
			}
			return out
		},
	}
}

func nearLacks(r *Refused) []string {
	near := count.ReadAffinity(r.Pod)
	where, key := "here", ""
	if r.Unmet != nil {
		var domain string
		if key, domain = r.topologyOf(r.Unmet); key != "" {
			if where = "in " + domainText(key, domain); r.Unmet.Missing {
				return []string{"the node has no label " + key + ", which the pod's affinity is by"}
			}
		}
	}
	switch {
	case slices.Contains(r.Reasons, saysAffinity):
		if text := termsText(near.Required); r.Unmet != nil && r.Unmet.Total == 0 {
			return []string{"no pod with " + text}
		} else if key == v1.LabelHostname {
			return []string{"no pod on this host with " + text}
		} else {
			return []string{"no pod " + where + " with " + text}
		}
	case slices.Contains(r.Reasons, saysAntiAffinity):
		if names := nearNames(r, func(p *v1.Pod) bool { return matchesAny(near.Anti, p) }); names != "" {
			return []string{"anti-affinity with " + names}
		}
		return []string{"anti-affinity with a pod " + where + " that has " + termsText(near.Anti)}
	}
	existing := func(p *v1.Pod) bool { return count.HasAffinity(p) && matchesAny(count.ReadAffinity(p).Anti, r.Pod) }
	if names := nearNames(r, existing); names != "" {
		return []string{names + " has anti-affinity to this pod"}
	}
	return []string{"a pod " + where + " has anti-affinity to this pod"}
}

// nearNames names pods of the node that a term is about, each with where they are.
func nearNames(r *Refused, about func(*v1.Pod) bool) string {
	if !r.Named {
		return ""
	}
	if names := r.named(about); names != "" {
		return names + " on this host"
	}
	return ""
}

// matchesAny tells whether one of some terms is about a pod, as far as that is told by the names of namespaces.
func matchesAny(terms []count.AffinityTerm, other *v1.Pod) bool {
	return slices.ContainsFunc(terms, func(t count.AffinityTerm) bool {
		return (slices.Contains(t.Names, other.Namespace) || !t.Namespaces.MatchesNothing()) && t.Selector.Matches(other.Labels)
	})
}

// termsText words what terms are about: app=db in namespace default.
func termsText(terms []count.AffinityTerm) string {
	var words []string
	for i := range terms {
		t := &terms[i]
		text := short(t.Selector.String())
		switch {
		case t.Selector.Empty():
			text = "any labels"
		case t.Selector.MatchesNothing():
			text = "no labels at all (the selector is missing)"
		}
		if !t.Namespaces.MatchesNothing() {
			text += " in namespaces with " + cmp.Or(short(t.Namespaces.String()), "any labels")
		} else if len(t.Names) == 1 {
			text += " in namespace " + t.Names[0]
		} else {
			text += " in namespaces " + listed(t.Names)
		}
		words = append(words, text)
	}
	return listed(words)
}

// domainsText words what more of would help: hosts, zones.
func domainsText(terms []count.AffinityTerm) string {
	var words []string
	for i := range terms {
		if word := keyText(terms[i].TopologyKey) + "s"; !slices.Contains(words, word) {
			words = append(words, word)
		}
	}
	return listed(words)
}
