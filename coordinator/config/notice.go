package config

import (
	"fmt"
	"slices"

	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/shardsched/shardsched/coordinator/framework"
	"github.com/shardsched/shardsched/coordinator/rules"
)

// notEvaluated are the plugins that some point of some profile has and that nothing is done for: their feature gates are off. They
// are in the default list's order.
func notEvaluated(profiles []profile) []string {
	var names []string
	for _, r := range rules.All() {
		if slices.ContainsFunc(profiles, func(p profile) bool { return !r.Evaluated(p.gates) && p.lists.run(r.Name) }) {
			names = append(names, r.Name)
		}
	}
	return names
}

// run tells whether any point runs a plugin.
func (l *lists) run(name string) bool {
	return slices.ContainsFunc(l[:], func(list []string) bool { return slices.Contains(list, name) })
}

// notice is a field that is set and changes nothing, with the reason.
type notice struct {
	text       string
	standalone bool // it has an effect where there is an API server
	decides    bool // kube-scheduler decides otherwise by it
}

func texts(list []notice, kubernetes bool) []string {
	var out []string
	for _, n := range list {
		if !kubernetes || !n.standalone {
			out = append(out, n.text)
		}
	}
	return out
}

// noEffect are the fields of a file that are set and change nothing.
func noEffect(doc *document, c *configv1.KubeSchedulerConfiguration, profiles []profile, written []configv1.KubeSchedulerProfile) []notice {
	var list []notice
	sampled := *c.PercentageOfNodesToScore != allNodes
	for _, f := range []struct {
		field, reason string
		standalone    bool
	}{
		{"parallelism", "a worker has as many cores as it is given", false},
		{"leaderElection.renewDeadline", "a lease is renewed several times in its duration", true},
		{"leaderElection.retryPeriod", "a lease is renewed several times in its duration", true},
		{"leaderElection.resourceLock", "the leader's lease is kept in etcd", true},
		{"leaderElection.resourceName", "the leader's lease is kept in etcd, by the name of the cluster", true},
		{"leaderElection.resourceNamespace", "the leader's lease is kept in etcd, by the name of the cluster", true},
		{"clientConnection", "there is no API server to connect to", true},
		{"enableProfiling", "a flag turns profiling on", true},
		{"enableContentionProfiling", "a flag turns profiling on", true},
		{percentage, "every node is scored", false},
		{"delayCacheUntilActive", "only the leader keeps a cache", true},
	} {
		if f.field == "parallelism" && slices.ContainsFunc(profiles, func(p profile) bool { return len(p.outOfTree) > 0 }) {
			continue // out-of-tree plugins look at so many nodes at once
		}
		if doc.sets(f.field) {
			list = append(list, notice{text: f.field + ": " + f.reason, standalone: f.standalone, decides: f.field == percentage && sampled})
		}
	}
	if !*c.LeaderElection.LeaderElect {
		list = append(list, notice{text: "leaderElection.leaderElect: a leader is always elected", standalone: true})
	}
	return append(list, noEffectInProfiles(profiles, written)...)
}

// percentage is how many of 100 nodes upstream scores; allNodes is all of them, as here.
const (
	percentage = "percentageOfNodesToScore"
	allNodes   = 100
)

// Departures are the fields of the file by which kube-scheduler would decide otherwise, each with what is done here.
func (c *Config) Departures() []string {
	var list []string
	for _, p := range c.profiles {
		for _, name := range notEvaluated([]profile{p}) {
			list = append(list, fmt.Sprintf("profile %s: %s is not evaluated, for its feature gate is off: pods are scheduled as if it "+
				"were not there", p.name, name))
		}
	}
	for _, n := range c.noEffect {
		if n.decides {
			list = append(list, n.text)
		}
	}
	return list
}

// noEffectInProfiles is noEffect for what the profiles set.
func noEffectInProfiles(profiles []profile, written []configv1.KubeSchedulerProfile) []notice {
	var list []notice
	add := func(decides bool, texts ...string) {
		for _, text := range texts {
			list = append(list, notice{text: text, decides: decides})
		}
	}
	for i := range written {
		path := fmt.Sprintf("profiles[%d]", i)
		if p := written[i].PercentageOfNodesToScore; p != nil {
			add(*p != allNodes, path+".percentageOfNodesToScore: every node is scored")
		}
		if written[i].Plugins != nil {
			add(false, unknownDisabled(path+".plugins", written[i].Plugins, profiles[i].all)...)
		}
		add(true, halves(path+".plugins", &profiles[i])...)
		list = append(list, idleArguments(path+".pluginConfig", &profiles[i], written[i].PluginConfig)...)
	}
	return list
}

// unknownDisabled are names that are disabled and belong to no plugin: a slip, most likely.
func unknownDisabled(path string, s *configv1.Plugins, all known) []string {
	var notes []string
	set := func(name string, list []configv1.Plugin) {
		for i, d := range list {
			if _, ok := all.find(d.Name); !ok && d.Name != "*" {
				notes = append(notes, fmt.Sprintf("%s.%s.disabled[%d]: no plugin %q", path, name, i, clip(d.Name)))
			}
		}
	}
	set("multiPoint", s.MultiPoint.Disabled)
	for p := range framework.NumPoints {
		set(p.Field(), p.Of(s).Disabled)
	}
	return notes
}

// halves are the places where upstream would run one half of a plugin, and it would
// matter: a filter or score without its preparation (which fails every pod there), a preparation that
// refuses or narrows by itself, or volumes that are filtered by and not bound. Here they come together.
func halves(path string, p *profile) []string {
	var notes []string
	l := p.lists
	for _, pair := range [][2]framework.Point{{framework.PreFilter, framework.Filter}, {framework.PreScore, framework.Score}} {
		before, main := pair[0], pair[1]
		for _, r := range rules.All() {
			if !r.Evaluated(p.gates) || !r.At(before) || !r.At(main) {
				continue
			}
			at := fmt.Sprintf("%s.%s: %s", path, before.Field(), r.Name)
			prepared, runs := slices.Contains(l[before], r.Name), slices.Contains(l[main], r.Name)
			switch {
			case runs && !prepared && (main == framework.Filter || r.Plugin.Scores()):
				notes = append(notes, fmt.Sprintf("%s is prepared all the same, for it is at %s", at, main.Field()))
			case prepared && !runs && main == framework.Filter && r.RefusesEarly:
				notes = append(notes, fmt.Sprintf("%s narrows nothing, for it is not at %s", at, main.Field()))
			}
		}
	}
	for _, at := range []framework.Point{framework.Reserve, framework.PreBind} {
		if binds := slices.Contains(l[at], rules.VolumeBinding); binds != slices.Contains(l[framework.Filter], rules.VolumeBinding) {
			notes = append(notes,
				fmt.Sprintf("%s.%s: %s does this where it is at %s", path, at.Field(), rules.VolumeBinding, framework.Filter.Field()))
		}
	}
	return notes
}

// idleArguments are arguments that nothing reads, or that change nothing.
func idleArguments(path string, p *profile, list []configv1.PluginConfig) []notice {
	var notes []notice
	for i, c := range list {
		of, known := p.all.find(c.Name)
		reason, decides := "", false
		switch {
		case !known:
			reason = fmt.Sprintf("no plugin %q", clip(c.Name))
		case of.outOfTree && slices.Contains(p.outOfTree, c.Name):
			continue
		case of.outOfTree:
			reason = c.Name + " is not in use"
		case of.Arguments == nil:
			reason = c.Name + " takes no arguments"
		case !p.lists.run(c.Name):
			reason = c.Name + " is not in use"
		case c.Name == rules.DefaultPreemption:
			decides = true // upstream looks for victims on so many nodes
			reason = "preemption looks at all nodes: minCandidateNodesPercentage and minCandidateNodesAbsolute only bound what extenders " +
				"with a preempt verb are shown"
		default:
			continue
		}
		notes = append(notes, notice{text: fmt.Sprintf("%s[%d]: %s", path, i, reason), decides: decides})
	}
	return notes
}
