package config

import (
	"fmt"
	"slices"

	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/shardsched/shardsched/coordinator/framework"
	"github.com/shardsched/shardsched/coordinator/rules"
)

// notEvaluated are the plugins that some point of some profile runs in upstream and that this
// version does not evaluate, in the default list's order.
func notEvaluated(profiles []profile) []string {
	var names []string
	for _, r := range rules.All() {
		if !r.Evaluated() && slices.ContainsFunc(profiles,
			func(p profile) bool { return p.lists.run(r.Name) }) {
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
func noEffect(doc *document, electing bool, profiles []profile, written []configv1.KubeSchedulerProfile) []notice {
	var list []notice
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
		{"percentageOfNodesToScore", "every node is scored", false},
		{"delayCacheUntilActive", "only the leader keeps a cache", true},
	} {
		if f.field == "parallelism" && slices.ContainsFunc(profiles, func(p profile) bool { return len(p.outOfTree) > 0 }) {
			continue // out-of-tree plugins look at so many nodes at once
		}
		if doc.sets(f.field) {
			list = append(list, notice{f.field + ": " + f.reason, f.standalone})
		}
	}
	if !electing {
		list = append(list, notice{"leaderElection.leaderElect: a leader is always elected", true})
	}
	for _, text := range noEffectInProfiles(profiles, written) {
		list = append(list, notice{text: text})
	}
	return list
}

// noEffectInProfiles is noEffect for what the profiles set.
func noEffectInProfiles(profiles []profile, written []configv1.KubeSchedulerProfile) []string {
	var notes []string
	for i := range written {
		path := fmt.Sprintf("profiles[%d]", i)
		if written[i].PercentageOfNodesToScore != nil {
			notes = append(notes, path+".percentageOfNodesToScore: every node is scored")
		}
		if written[i].Plugins != nil {
			notes = append(notes, unknownDisabled(path+".plugins", written[i].Plugins, profiles[i].all)...)
		}
		notes = append(notes, halves(path+".plugins", profiles[i].lists)...)
		notes = append(notes, idleArguments(path+".pluginConfig", &profiles[i], written[i].PluginConfig)...)
	}
	return notes
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
func halves(path string, l *lists) []string {
	var notes []string
	for _, pair := range [][2]framework.Point{{framework.PreFilter, framework.Filter}, {framework.PreScore, framework.Score}} {
		before, main := pair[0], pair[1]
		for _, r := range rules.All() {
			if !r.Evaluated() || !r.At(before) || !r.At(main) {
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
	for _, p := range []framework.Point{framework.Reserve, framework.PreBind} {
		if binds := slices.Contains(l[p], rules.VolumeBinding); binds != slices.Contains(l[framework.Filter], rules.VolumeBinding) {
			notes = append(notes,
				fmt.Sprintf("%s.%s: %s does this where it is at %s", path, p.Field(), rules.VolumeBinding, framework.Filter.Field()))
		}
	}
	return notes
}

// idleArguments are arguments that nothing reads, or that change nothing.
func idleArguments(path string, p *profile, list []configv1.PluginConfig) []string {
	var notes []string
	for i, c := range list {
		of, known := p.all.find(c.Name)
		reason := ""
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
			reason = "preemption looks at all nodes: minCandidateNodesPercentage and minCandidateNodesAbsolute only bound what extenders " +
				"with a preempt verb are shown"
		default:
			continue
		}
		notes = append(notes, fmt.Sprintf("%s[%d]: %s", path, i, reason))
	}
	return notes
}
