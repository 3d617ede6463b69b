package config

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/shardsched/shardsched/coordinator/compile"
)

// Config is a configuration read, completed and checked. It is immutable.
type Config struct {
	// PodInitialBackoff and PodMaxBackoff bound how long a pod waits for its next attempt.
	PodInitialBackoff, PodMaxBackoff time.Duration

	profiles     []profile
	notEvaluated []string
	noEffect     []string
}

// profile is one profile, resolved.
type profile struct {
	name  string
	lists *lists
	table compile.ProfileConfig // what of it is evaluated over tables
}

// maxBytes is how large a file may be: more than any configuration needs.
const maxBytes = 4 << 20

// Load reads a KubeSchedulerConfiguration file, YAML or JSON. What is wrong with the file
// comes as *Error, several of them joined.
func Load(path string) (*Config, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("scheduler configuration: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxBytes+1))
	if err != nil {
		return nil, fmt.Errorf("scheduler configuration: %w", err)
	}
	return parse(path, data)
}

// Default is what holds without a file: upstream's default profile.
func Default() *Config {
	c := &configv1.KubeSchedulerConfiguration{}
	complete(c)
	made, err := build(&document{}, c, nil)
	if err != nil {
		panic(err) // the default is ours and a test holds it
	}
	return made
}

// parse reads the bytes of a file.
func parse(file string, data []byte) (*Config, error) {
	if len(data) > maxBytes {
		return nil, &Error{File: file, Problem: fmt.Sprintf("larger than %d MiB", maxBytes>>20)}
	}
	doc, err := newDocument(file, data)
	if err != nil {
		return nil, err
	}
	c, err := decode(doc)
	if err != nil {
		return nil, err
	}
	found := problems{doc: doc}
	if n := len(c.Profiles); n > maxProfiles {
		found.fields(field.ErrorList{field.TooMany(field.NewPath("profiles"), n, maxProfiles)})
		return nil, found.err()
	}
	written := c.DeepCopy()
	complete(c)
	found.fields(validate(c))
	if err := found.err(); err != nil {
		return nil, err
	}
	return build(doc, c, written.Profiles)
}

// build resolves a completed, valid configuration. written are its profiles as the file
// has them.
func build(doc *document, c *configv1.KubeSchedulerConfiguration, written []configv1.KubeSchedulerProfile) (*Config, error) {
	made := &Config{
		PodInitialBackoff: seconds(*c.PodInitialBackoffSeconds),
		PodMaxBackoff:     seconds(*c.PodMaxBackoffSeconds),
	}
	found := problems{doc: doc}
	ignored := ignoredByExtenders(c.Extenders)
	for i := range c.Profiles {
		var own *configv1.Plugins
		if i < len(written) {
			own = written[i].Plugins
		}
		p := found.profile(fmt.Sprintf("profiles[%d]", i), &c.Profiles[i], own)
		if p == nil {
			continue
		}
		if len(ignored) > 0 {
			p.table.Fit.IgnoredResources = ignored
		}
		if _, err := compile.NewProfile(p.table); err != nil {
			found.at(fmt.Sprintf("profiles[%d]", i), strings.TrimPrefix(err.Error(), fmt.Sprintf("profile %q: ", p.name)))
			continue
		}
		made.profiles = append(made.profiles, *p)
	}
	if err := found.err(); err != nil {
		return nil, err
	}
	made.notEvaluated = notEvaluated(made.profiles, c.Extenders)
	made.noEffect = noEffect(doc, made.profiles, written)
	return made, nil
}

// seconds is a number of seconds, as long as a Duration can be.
func seconds(n int64) time.Duration {
	const most = int64(1<<63-1) / int64(time.Second)
	return time.Duration(min(n, most)) * time.Second
}

// profile resolves one profile; nil: something is wrong, and noted.
func (p *problems) profile(path string, c *configv1.KubeSchedulerProfile, written *configv1.Plugins) *profile {
	all, bad := expandAll(c.Plugins)
	if bad != nil {
		p.at(path+".plugins."+entry(written, bad.set, bad.plugin), bad.text)
		return nil
	}
	name := *c.SchedulerName
	if n := len(all[queueSort]); n != 1 {
		p.at(path+".plugins.queueSort", fmt.Sprintf("only one queue sort plugin required for profile with scheduler name %q, but got %d", name, n))
		return nil
	}
	if len(all[bind]) == 0 {
		p.at(path+".plugins.bind", fmt.Sprintf("at least one bind plugin is needed for profile with scheduler name %q", name))
		return nil
	}
	made := &profile{name: name, lists: all, table: compile.ProfileConfig{Name: name}}
	for _, e := range all[filter] {
		if known, _ := find(e); known.evaluated() {
			made.table.Filters = append(made.table.Filters, known.table)
		}
	}
	weight := weights(c.Plugins)
	for _, e := range all[score] {
		if weight[e] < 0 {
			p.at(path+".plugins."+negative(written, e), fmt.Sprintf("Invalid value: %d: must not be negative", weight[e]))
			return nil
		}
		if known, _ := find(e); known.evaluated() {
			made.table.Scores = append(made.table.Scores, compile.PluginWeight{Plugin: known.table, Weight: weight[e]})
		}
	}
	made.setArguments(c.PluginConfig)
	return made
}

// setArguments takes the arguments that are evaluated.
func (p *profile) setArguments(list []configv1.PluginConfig) {
	for _, c := range list {
		switch args := c.Args.Object.(type) {
		case *configv1.NodeAffinityArgs:
			p.table.NodeAffinity = *args
		case *configv1.NodeResourcesFitArgs:
			p.table.Fit = *args
		case *configv1.NodeResourcesBalancedAllocationArgs:
			p.table.Balanced = *args
		}
	}
}

// entry is where a set of the file enables a plugin, the last time.
func entry(written *configv1.Plugins, set, plugin string) string {
	path := set + ".enabled"
	for i, e := range setOf(written, set).Enabled {
		if e.Name == plugin {
			path = fmt.Sprintf("%s.enabled[%d]", set, i)
		}
	}
	return path
}

// negative is where the file gives a plugin its weight.
func negative(written *configv1.Plugins, plugin string) string {
	if holds(setOf(written, score.field()).Enabled, plugin) {
		return entry(written, score.field(), plugin) + ".weight"
	}
	return entry(written, "multiPoint", plugin) + ".weight"
}

// setOf is a set by its name in the file.
func setOf(s *configv1.Plugins, name string) configv1.PluginSet {
	if s == nil {
		return configv1.PluginSet{}
	}
	for p := range numPoints {
		if p.field() == name {
			return *p.of(s)
		}
	}
	return s.MultiPoint
}

// ignoredByExtenders are the resources that extenders keep the scheduler from looking at.
// They take the place of NodeResourcesFit's ignoredResources, as in upstream.
func ignoredByExtenders(list []configv1.Extender) []string {
	var names []string
	for _, e := range list {
		for _, r := range e.ManagedResources {
			if r.IgnoredByScheduler {
				names = append(names, r.Name)
			}
		}
	}
	return names
}

// Profiles are the profiles by scheduler name; at least one.
func (c *Config) Profiles() (map[string]*compile.Profile, error) {
	out := make(map[string]*compile.Profile, len(c.profiles))
	for _, p := range c.profiles {
		made, err := compile.NewProfile(p.table)
		if err != nil {
			return nil, err
		}
		out[p.name] = made
	}
	return out, nil
}

// NotEvaluated names the plugins (and extenders) that the configuration has in use
// and this version does not evaluate: pods are scheduled as if they were not there.
func (c *Config) NotEvaluated() []string { return slices.Clone(c.notEvaluated) }

// NoEffect names the fields that the file sets, or the like, and that change nothing, each
// with the reason.
func (c *Config) NoEffect() []string { return slices.Clone(c.noEffect) }
