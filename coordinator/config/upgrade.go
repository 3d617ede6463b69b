package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"

	configv1 "k8s.io/kube-scheduler/config/v1"
	kjson "sigs.k8s.io/json"
	sigsyaml "sigs.k8s.io/yaml"

	"github.com/shardsched/shardsched/coordinator/framework"
	"github.com/shardsched/shardsched/coordinator/rules"
)

// The older versions that Upgrade takes. Between them the default plugins changed, and how their weights came about.
const (
	v1beta1 = "kubescheduler.config.k8s.io/v1beta1"
	v1beta2 = "kubescheduler.config.k8s.io/v1beta2"
	v1beta3 = "kubescheduler.config.k8s.io/v1beta3"
)

// OlderVersions are those that Upgrade takes, the oldest first.
func OlderVersions() []string { return []string{v1beta1, v1beta2, v1beta3} }

func isOlder(version string) bool { return slices.Contains(OlderVersions(), version) }

// Plugins that v1 has not.
const (
	avoidPods     = "NodePreferAvoidPods"
	selectSpread  = "SelectorSpread"
	leastScorer   = "NodeResourcesLeastAllocated"
	mostScorer    = "NodeResourcesMostAllocated"
	ratioScorer   = "RequestedToCapacityRatio"
	labelPlugin   = "NodeLabel"
	serviceAffine = "ServiceAffinity"
)

// scorers are the plugins that are strategies of NodeResourcesFit now.
func scorers() map[string]configv1.ScoringStrategyType {
	return map[string]configv1.ScoringStrategyType{
		leastScorer: configv1.LeastAllocated, mostScorer: configv1.MostAllocated, ratioScorer: configv1.RequestedToCapacityRatio,
	}
}

// lost tells of a plugin that no plugin of v1 does the work of; empty: it is none of these.
func lost(name string) string {
	switch name {
	case selectSpread:
		return "PodTopologySpread's system default constraints come near"
	case labelPlugin:
		return "NodeAffinity's addedAffinity does the like"
	case serviceAffine:
		return "InterPodAffinity does the like, where the pods ask for it"
	}
	return ""
}

// Upgraded is a configuration of an older version, made v1.
type Upgraded struct {
	// File and From are its name and its version.
	File, From string
	// Notes tell, field by field, what was done.
	Notes []string
	text  []byte
}

// YAML is the configuration with the notes as comments.
func (u *Upgraded) YAML() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "# %s of %s, made v1. Plugins that are younger are in the profiles, by default.\n", comment(u.File), u.From)
	for _, n := range u.Notes {
		fmt.Fprintf(&b, "#   %s\n", comment(n))
	}
	b.Write(u.text)
	return b.Bytes()
}

// comment keeps a text on its line.
func comment(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r == '\u0085' || r == '\u2028' || r == '\u2029' {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))
}

// Upgrade makes v1 of a configuration of v1beta1, v1beta2 or v1beta3 by which pods are scheduled as by that. Where v1 has nothing that
// does the same, or the result is no valid v1, the error names the field, as *Error, several of them joined.
func (r Reader) Upgrade(file string, data []byte) (*Upgraded, error) {
	if len(data) > maxBytes {
		return nil, &Error{File: file, Problem: fmt.Sprintf("larger than %d MiB", maxBytes>>20)}
	}
	doc, err := newDocument(file, data)
	if err != nil {
		return nil, err
	}
	u := &upgrade{found: problems{doc: doc}}
	root := u.header()
	if root == nil {
		return nil, u.found.err()
	}
	if err := u.strict(root); err != nil {
		return nil, err
	}
	root["apiVersion"] = configv1.SchemeGroupVersion.String()
	u.profiles(root)
	if err := u.found.err(); err != nil {
		return nil, err
	}
	text, err := sigsyaml.Marshal(root)
	if err != nil {
		return nil, fmt.Errorf("write scheduler configuration: %w", err)
	}
	if _, err := r.Parse(file, text); err != nil {
		return nil, unseen(err)
	}
	return &Upgraded{File: file, From: u.version, Notes: u.notes, text: text}, nil
}

// unseen takes out the lines, which are those of a text that nobody has seen.
func unseen(err error) error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var list []error
		for _, e := range joined.Unwrap() {
			list = append(list, unseen(e))
		}
		return errors.Join(list...)
	}
	var e *Error
	if !errors.As(err, &e) {
		return err
	}
	moved := *e
	moved.Line, moved.Problem = 0, "as v1: "+e.Problem
	return &moved
}

// upgrade is one under way.
type upgrade struct {
	found   problems
	version string
	notes   []string
}

func (u *upgrade) note(path, format string, a ...any) {
	u.notes = append(u.notes, path+": "+fmt.Sprintf(format, a...))
}

// before tells whether the file's version is older than another.
func (u *upgrade) before(version string) bool { return u.version < version }

// header is the whole document, if it is of an older version; nil: it is not, and that is noted.
func (u *upgrade) header() map[string]any {
	var top map[string]json.RawMessage
	var root map[string]any
	if kjson.UnmarshalCaseSensitivePreserveInts(u.found.doc.json, &top) != nil ||
		kjson.UnmarshalCaseSensitivePreserveInts(u.found.doc.json, &root) != nil || root == nil {
		u.found.named("", "expected an object of kind "+kind)
		return nil
	}
	version, kindIs, ok := u.found.gvk("", top)
	switch {
	case !ok:
	case kindIs != kind:
		u.found.at("kind", fmt.Sprintf("%q: expected %s", clip(kindIs), kind))
	case version == configv1.SchemeGroupVersion.String():
		u.found.at("apiVersion", "is v1 already")
	case !isOlder(version):
		u.found.at("apiVersion", fmt.Sprintf("%q: expected one of %s", clip(version), strings.Join(OlderVersions(), ", ")))
	default:
		u.version = version
		return root
	}
	return nil
}

// strict holds the document to the fields of its version, which are those of v1 and the addresses, but for some that are younger.
func (u *upgrade) strict(root map[string]any) error {
	for _, name := range []string{"healthzBindAddress", "metricsBindAddress"} {
		value, there := root[name]
		if !there {
			continue
		}
		delete(root, name)
		if text, ok := value.(string); u.before(v1beta3) && ok && isOff(text) {
			u.note(name, "left out: it was off")
			continue
		}
		u.found.at(name, "has no meaning in v1, where the flags --bind-address and --secure-port say where health and metrics are served")
	}
	raw, err := json.Marshal(root)
	if err != nil {
		return err
	}
	u.found.strict("", raw, func() any { return &configv1.KubeSchedulerConfiguration{} }, &configv1.KubeSchedulerConfiguration{})
	u.younger("", root, "delayCacheUntilActive")
	for i, p := range objects(root["profiles"]) {
		path := fmt.Sprintf("profiles[%d]", i)
		u.younger(path, p, percentage)
		sets, _ := p["plugins"].(map[string]any)
		u.younger(path+".plugins", sets, framework.PlacementGenerate.Field(), framework.PlacementScore.Field())
		if u.before(v1beta3) {
			u.younger(path+".plugins", sets, "multiPoint")
		}
		if u.before(v1beta2) {
			u.younger(path+".plugins", sets, framework.PreEnqueue.Field())
		}
	}
	return u.found.err()
}

// younger refuses fields that came after the file's version.
func (u *upgrade) younger(path string, in map[string]any, fields ...string) {
	for _, f := range fields {
		if _, there := in[f]; there {
			u.found.at(strings.TrimPrefix(path+"."+f, "."), u.version+" has no such field")
		}
	}
}

// isOff tells of an address by which nothing was served.
func isOff(address string) bool {
	_, port, err := net.SplitHostPort(address)
	return address == "" || address == "0" || err == nil && port == "0"
}

// objects are the maps of a list, by index.
func objects(list any) map[int]map[string]any {
	out := map[int]map[string]any{}
	of, _ := list.([]any)
	for i, e := range of {
		if m, ok := e.(map[string]any); ok {
			out[i] = m
		}
	}
	return out
}

func (u *upgrade) profiles(root map[string]any) {
	if u.before(v1beta2) {
		u.note("profiles", "%s, which was in the default list, is gone: nodes with its annotation are not avoided any more; taint them",
			avoidPods)
	}
	list, _ := root["profiles"].([]any)
	if len(list) == 0 {
		list = []any{map[string]any{}}
	}
	for i, e := range list {
		if e == nil {
			e = map[string]any{}
		}
		p := e.(map[string]any) // strict has seen to it
		u.profile(fmt.Sprintf("profiles[%d]", i), p)
		list[i] = p
	}
	if len(list) > 1 || len(list[0].(map[string]any)) > 0 {
		root["profiles"] = list
	}
}

func (u *upgrade) profile(path string, p map[string]any) {
	plugins, _ := p["plugins"].(map[string]any)
	if plugins == nil {
		plugins = map[string]any{}
	}
	for _, point := range slices.Sorted(maps.Keys(plugins)) {
		if set, ok := plugins[point].(map[string]any); ok {
			u.set(fmt.Sprintf("%s.plugins.%s", path, point), set)
		}
	}
	config, _ := p["pluginConfig"].([]any)
	if u.before(v1beta3) {
		score, _ := plugins["score"].(map[string]any)
		if score == nil {
			score = map[string]any{}
		}
		if u.before(v1beta2) {
			config = u.strategy(path, score, config)
		}
		u.weights(path+".plugins.score", score)
		if len(score) > 0 {
			plugins["score"] = score
		}
	}
	if len(plugins) > 0 {
		p["plugins"] = plugins
	}
	if config = u.arguments(path+".pluginConfig", config); len(config) > 0 {
		p["pluginConfig"] = config
	} else {
		delete(p, "pluginConfig")
	}
}

// keep leaves in a list of a set the plugins that stay.
func keep(set map[string]any, list string, stays func(i int, name string, e map[string]any) bool) {
	var left []any
	of, _ := set[list].([]any)
	for i, e := range of {
		m, _ := e.(map[string]any)
		name, _ := m["name"].(string)
		if stays(i, name, m) {
			left = append(left, e)
		}
	}
	if delete(set, list); len(left) > 0 {
		set[list] = left
	}
}

// setLists tells whether a list of a set has a plugin.
func setLists(set map[string]any, list, name string) bool {
	for _, e := range objects(set[list]) {
		if e["name"] == name {
			return true
		}
	}
	return false
}

// set takes out of a set the plugins that v1 has not, but for scorers.
func (u *upgrade) set(path string, set map[string]any) {
	keep(set, "enabled", func(i int, name string, e map[string]any) bool {
		at := fmt.Sprintf("%s.enabled[%d]", path, i)
		_, scores := scorers()[name]
		switch {
		case lost(name) != "":
			u.found.at(at, fmt.Sprintf("no plugin of v1 does what %s did: %s", name, lost(name)))
		case scores && !u.before(v1beta2):
			u.found.at(at, fmt.Sprintf("%s was refused in this version: it is a scoringStrategy of %s", name, rules.NodeResourcesFit))
		case name == rules.NodeResourcesFit && u.before(v1beta2) && strings.HasSuffix(path, ".score"):
			u.found.at(at, name+" did not score in this version")
		case isRemoved(name) && setLists(set, "enabled", rules.NodeVolumeLimits):
			u.note(at, "%s left out: NodeVolumeLimits counts such volumes, which are CSI's now", name)
			return false
		case isRemoved(name):
			u.note(at, "%s is NodeVolumeLimits, which counts such volumes: they are CSI's now", name)
			e["name"] = rules.NodeVolumeLimits
		case name == avoidPods:
			u.note(at, "%s left out: nodes with its annotation are not avoided any more; taint them", name)
			return false
		}
		return true
	})
	keep(set, "disabled", func(i int, name string, _ map[string]any) bool {
		gone := isRemoved(name) || lost(name) != "" || name == avoidPods
		if gone {
			u.note(fmt.Sprintf("%s.disabled[%d]", path, i), "%s left out: v1 has no such plugin", name)
		}
		return !gone
	})
}

// strategy makes the scorers of v1beta1 a strategy of NodeResourcesFit, which did not score then. LeastAllocated was the default.
func (u *upgrade) strategy(path string, score map[string]any, config []any) []any {
	at, byDefault := path+".plugins.score", !setLists(score, "disabled", "*") && !setLists(score, "disabled", leastScorer)
	weight := map[string]any{}
	if byDefault {
		weight[leastScorer] = int64(1)
	}
	keep(score, "enabled", func(_ int, name string, e map[string]any) bool {
		if _, is := scorers()[name]; !is {
			return true
		}
		weight[name] = int64(1)
		if w, ok := e["weight"].(int64); ok && w != 0 {
			weight[name] = w
		}
		return false
	})
	keep(score, "disabled", func(_ int, name string, _ map[string]any) bool { _, is := scorers()[name]; return !is })
	used := slices.Sorted(maps.Keys(weight))
	switch {
	case len(used) > 1:
		u.found.at(at, fmt.Sprintf("%s both score, and %s scores in one way", strings.Join(used, " and "), rules.NodeResourcesFit))
		return config
	case len(used) == 0:
		if !setLists(score, "disabled", "*") {
			u.note(at, "%s does not score: no plugin that it stands for did", rules.NodeResourcesFit)
			disabled, _ := score["disabled"].([]any)
			score["disabled"] = append(disabled, map[string]any{"name": rules.NodeResourcesFit})
		}
		return u.moved(path, "", config)
	case used[0] != leastScorer || weight[leastScorer] != int64(1) || !byDefault:
		enabled, _ := score["enabled"].([]any)
		score["enabled"] = append(enabled, map[string]any{"name": rules.NodeResourcesFit, "weight": weight[used[0]]})
		u.note(at, "%s is %s by %s", used[0], rules.NodeResourcesFit, scorers()[used[0]])
	}
	return u.moved(path, used[0], config)
}

// moved gives NodeResourcesFit the arguments of the scorer that is used; "": none is.
func (u *upgrade) moved(path, used string, config []any) []any {
	strategy := map[string]any{}
	if used != "" && used != leastScorer {
		strategy["type"] = string(scorers()[used])
	}
	var fit map[string]any
	var left []any
	for i, e := range config {
		c, _ := e.(map[string]any)
		name, _ := c["name"].(string)
		at := fmt.Sprintf("%s.pluginConfig[%d]", path, i)
		args, _ := c["args"].(map[string]any)
		switch _, scores := scorers()[name]; {
		case scores && name == used:
			u.strategyOf(at+".args", name, args, strategy)
			continue
		case scores:
			u.note(at, "%s left out: it is not in use", name)
			continue
		case name == rules.NodeResourcesFit:
			fit = c
			if _, there := args["scoringStrategy"]; there {
				u.found.at(at+".args.scoringStrategy", u.version+" has no such field")
			}
		}
		left = append(left, e)
	}
	if len(strategy) == 0 {
		return left
	}
	if fit == nil {
		fit = map[string]any{"name": rules.NodeResourcesFit}
		left = append(left, fit)
	}
	args, _ := fit["args"].(map[string]any)
	if args == nil {
		args = map[string]any{}
	}
	args["scoringStrategy"], fit["args"] = strategy, args
	return left
}

// strategyOf reads a scorer's arguments.
func (u *upgrade) strategyOf(path, name string, args, strategy map[string]any) {
	for _, key := range slices.Sorted(maps.Keys(args)) {
		switch {
		case key == "apiVersion" || key == "kind":
		case key == "resources":
			strategy["type"], strategy["resources"] = string(scorers()[name]), args[key]
		case key == "shape" && name == ratioScorer:
			strategy["requestedToCapacityRatio"] = map[string]any{"shape": args[key]}
		default:
			u.found.at(path+"."+key, fmt.Sprintf("unknown field of %sArgs", name))
		}
	}
	u.note(path, "moved to %s's scoringStrategy", rules.NodeResourcesFit)
}

// weights keeps weights that were 1 by default up to v1beta2.
func (u *upgrade) weights(path string, score map[string]any) {
	if setLists(score, "disabled", "*") {
		return
	}
	enabled, _ := score["enabled"].([]any)
	var kept []string
	for _, name := range []string{rules.TaintToleration, rules.NodeAffinity, rules.InterPodAffinity} {
		if setLists(score, "disabled", name) || setLists(score, "enabled", name) {
			continue
		}
		enabled = append(enabled, map[string]any{"name": name, "weight": int64(1)})
		kept = append(kept, fmt.Sprintf("%s (%d by default in v1)", name, rules.Find(name).Weight))
	}
	if len(kept) > 0 {
		score["enabled"] = enabled
		u.note(path, "weight 1 is kept of %s", strings.Join(kept, ", "))
	}
}

// arguments makes v1 of the arguments of built-in plugins. Those of others are the plugins' own.
func (u *upgrade) arguments(path string, config []any) []any {
	var left []any
	for i, e := range config {
		c, _ := e.(map[string]any)
		name, _ := c["name"].(string)
		args, _ := c["args"].(map[string]any)
		at := fmt.Sprintf("%s[%d]", path, i)
		if _, scores := scorers()[name]; scores || lost(name) != "" || isRemoved(name) {
			u.note(at, "%s left out: v1 has no such plugin", name)
			continue
		}
		if args["apiVersion"] == u.version && rules.Find(name) != nil {
			args["apiVersion"] = configv1.SchemeGroupVersion.String()
		}
		list, _ := args["defaultConstraints"].([]any)
		if _, typed := args["defaultingType"]; name == rules.PodTopologySpread && u.before(v1beta2) && len(list) > 0 && !typed {
			args["defaultingType"] = string(configv1.ListDefaulting)
			u.note(at+".args.defaultingType", "List, which v1beta1 took where there were defaultConstraints")
		}
		left = append(left, e)
	}
	return left
}
