package rules

import (
	"cmp"
	"slices"
	"strings"

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
					out = append(out, Want{Cause: "affinity " + termsText(near.Required), Help: "such a pod, or room beside it"})
				case saysAntiAffinity:
					out = append(out, Want{Cause: "anti-affinity " + termsText(near.Anti), Help: "more " + domainsText(near.Anti)})
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
	where, key, domain := "here", "", ""
	if r.Unmet != nil {
		if key, domain = r.topologyOf(r.Unmet); key != "" {
			if where = "in " + domainText(key, domain); r.Unmet.Missing {
				return []string{"the node has no label " + key + ", which the pod's affinity is by"}
			}
		}
		if key == v1.LabelHostname {
			where = "on this host"
		}
	}
	switch {
	case slices.Contains(r.Reasons, saysAffinity):
		if r.Unmet != nil && r.Unmet.Total == 0 {
			where = "anywhere"
		}
		return []string{"no pod " + where + " with " + selectorsText(near.Required)}
	case slices.Contains(r.Reasons, saysAntiAffinity):
		if names := nearNames(r, near.Anti, key, domain); names != "" {
			return []string{"anti-affinity with " + names + " " + where}
		}
		return []string{"anti-affinity with a pod " + where + " that has " + selectorsText(near.Anti)}
	}
	existing := func(p *v1.Pod) bool { return count.HasAffinity(p) && matchesAny(count.ReadAffinity(p).Anti, r.Pod) }
	names := "a pod"
	if r.Named {
		names = cmp.Or(r.named(existing), names)
	}
	return []string{"anti-affinity of " + names + " " + where + " to this pod"}
}

// nearNames names pods of a node's domain that terms are about: first those of the node, then those of other nodes, among some pods of
// the namespaces that the terms name.
func nearNames(r *Refused, terms []count.AffinityTerm, key, domain string) string {
	if !r.Named {
		return ""
	}
	terms = slices.DeleteFunc(slices.Clone(terms), func(t count.AffinityTerm) bool { return key != "" && t.TopologyKey != key })
	terms = terms[:min(len(terms), maxRequirements)] // each is held against thousands of pods
	about := func(p *v1.Pod) bool { return matchesAny(terms, p) }
	if names := r.named(about); names != "" || key == "" || key == v1.LabelHostname {
		return names
	}
	var names []string
	left := maxSought
	for i := range terms {
		for _, namespace := range terms[i].Names {
			for p := range r.Cluster.In(namespace) {
				if left--; left < 0 || len(names) > maxNamed {
					break
				}
				n := r.Cluster.Node(p.Spec.NodeName)
				if name := p.Namespace + "/" + p.Name; n != nil && n.Labels[key] == domain && p.UID != r.Pod.UID && about(p) &&
					!slices.Contains(names, name) {
					names = append(names, name)
				}
			}
		}
	}
	slices.Sort(names)
	return strings.Join(names[:min(len(names), maxNamed)], ", ")
}

// matchesAny tells whether one of some terms is about a pod, as far as that is told by the names of namespaces.
func matchesAny(terms []count.AffinityTerm, other *v1.Pod) bool {
	return slices.ContainsFunc(terms, func(t count.AffinityTerm) bool {
		return (slices.Contains(t.Names, other.Namespace) || !t.Namespaces.MatchesNothing()) && t.Selector.Matches(other.Labels)
	})
}

// termsText words terms: "by zone to app=db in namespace default".
func termsText(terms []count.AffinityTerm) string {
	var words []string
	for i := range terms {
		words = append(words, "by "+keyText(terms[i].TopologyKey)+" to "+selectorText(&terms[i]))
	}
	return listed(words)
}

// selectorsText words what terms are about.
func selectorsText(terms []count.AffinityTerm) string {
	var words []string
	for i := range terms {
		words = append(words, selectorText(&terms[i]))
	}
	return listed(words)
}

// selectorText words what a term is about: "app=db in namespace default".
func selectorText(t *count.AffinityTerm) string {
	text := short(t.Selector.String())
	switch {
	case t.Selector.Empty():
		text = "any labels"
	case t.Selector.MatchesNothing():
		text = "no labels at all (the selector is missing)"
	}
	switch {
	case !t.Namespaces.MatchesNothing():
		return text + " in namespaces with " + cmp.Or(short(t.Namespaces.String()), "any labels")
	case len(t.Names) == 1:
		return text + " in namespace " + t.Names[0]
	}
	return text + " in namespaces " + listed(t.Names)
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
