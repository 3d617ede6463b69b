package config

import (
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"
	componentv1alpha1 "k8s.io/component-base/config/v1alpha1"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/shardsched/shardsched/coordinator/compile"
	"github.com/shardsched/shardsched/coordinator/groups"
	"github.com/shardsched/shardsched/coordinator/rules"
)

// Config is a configuration read, completed and checked. It is immutable.
type Config struct {
	// PodInitialBackoff and PodMaxBackoff bound how long a pod waits for its next attempt.
	PodInitialBackoff, PodMaxBackoff time.Duration
	// LeaseDuration is the time to live of the leader's lease; 0: the file names none.
	LeaseDuration time.Duration
	// LeaderElection and ClientConnection are complete. They count where objects come from an
	// API server, and so do the three below.
	LeaderElection   componentv1alpha1.LeaderElectionConfiguration
	ClientConnection componentv1alpha1.ClientConnectionConfiguration
	// Profiling serves profiles beside the metrics; ContentionProfiling those of blocking too.
	Profiling, ContentionProfiling bool
	// DelayCacheUntilActive keeps a standby's caches empty until it leads.
	DelayCacheUntilActive bool

	completed    *configv1.KubeSchedulerConfiguration
	profiles     []profile
	notEvaluated []string
	noEffect     []notice
	all          known
	gates        groups.Gates
}

// Change alters a configuration that is complete and not checked yet: flags do.
type Change func(*configv1.KubeSchedulerConfiguration)

// profile is one profile, resolved.
type profile struct {
	name  string
	lists *lists
	// outOfTree are those of all that are in use.
	all       known
	gates     groups.Gates
	outOfTree []string
	table     compile.ProfileConfig // what of it is evaluated over tables
}

// maxBytes is how large a file may be: more than any configuration needs.
const maxBytes = 4 << 20

// Reader reads configurations that name out-of-tree plugins, which are compiled in beside upstream's.
type Reader struct {
	all   known
	gates groups.Gates
}

// ReaderFor knows out-of-tree plugins by these names.
func ReaderFor(outOfTree []string) Reader {
	all := make(known, len(outOfTree))
	for _, name := range outOfTree {
		all[name] = struct{}{}
	}
	return Reader{all: all}
}

// With reads under these feature gates: those of pod groups have their plugins in the default list.
func (r Reader) With(gates groups.Gates) Reader {
	r.gates = gates
	return r
}

// Load is Reader.Load without out-of-tree plugins.
func Load(path string, changes ...Change) (*Config, error) { return Reader{}.Load(path, changes...) }

// FromDefault is Reader.FromDefault without out-of-tree plugins.
func FromDefault(changes ...Change) (*Config, error) { return Reader{}.FromDefault(changes...) }

// Parse is Reader.Parse without out-of-tree plugins.
func Parse(file string, data []byte, changes ...Change) (*Config, error) {
	return Reader{}.Parse(file, data, changes...)
}

// Load reads a KubeSchedulerConfiguration file, YAML or JSON. What is wrong with the file
// comes as *Error, several of them joined.
func (r Reader) Load(path string, changes ...Change) (*Config, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("scheduler configuration: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxBytes+1))
	if err != nil {
		return nil, fmt.Errorf("scheduler configuration: %w", err)
	}
	return r.Parse(path, data, changes...)
}

// Default is what holds without a file: upstream's default profile.
func Default() *Config { return defaultUnder(groups.Gates{}) }

func defaultUnder(gates groups.Gates) *Config {
	made, err := Reader{}.With(gates).FromDefault()
	if err != nil {
		panic(err) // the default is ours and a test holds it
	}
	return made
}

// FromDefault is what holds without a file, changed.
func (r Reader) FromDefault(changes ...Change) (*Config, error) {
	c := &configv1.KubeSchedulerConfiguration{}
	complete(c, r.gates)
	return r.finish(&document{}, c, nil, changes)
}

// Parse is Load for the bytes of a file, which errors name as file.
func (r Reader) Parse(file string, data []byte, changes ...Change) (*Config, error) {
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
	complete(c, r.gates)
	return r.finish(doc, c, written.Profiles, changes)
}

// finish changes a completed configuration, checks and resolves it.
func (r Reader) finish(doc *document, c *configv1.KubeSchedulerConfiguration, written []configv1.KubeSchedulerProfile,
	changes []Change) (*Config, error) {
	for _, change := range changes {
		change(c)
	}
	found := problems{doc: doc}
	found.fields(validate(c))
	if err := found.err(); err != nil {
		return nil, err
	}
	return r.build(doc, c, written)
}

// seconds is a number of seconds, as long as a Duration can be.
func seconds(n int64) time.Duration {
	const most = int64(1<<63-1) / int64(time.Second)
	return time.Duration(min(n, most)) * time.Second
}

// Profiles are the profiles by scheduler name; at least one.
func (c *Config) Profiles() (map[string]*compile.Profile, error) {
	out := make(map[string]*compile.Profile, len(c.profiles))
	for _, p := range c.profiles {
		made, err := rules.NewProfile(p.table)
		if err != nil {
			return nil, err
		}
		out[p.name] = made
	}
	return out, nil
}

// PodGroups are the feature gates that the configuration was read under.
func (c *Config) PodGroups() groups.Gates { return c.gates }

// NotEvaluated names the plugins that the configuration has in use and this version does
// not evaluate: pods are scheduled as if they were not there.
func (c *Config) NotEvaluated() []string { return slices.Clone(c.notEvaluated) }

// Extenders are those that the configuration names, in its order. Each has a timeout.
func (c *Config) Extenders() []configv1.Extender { return c.completed.DeepCopy().Extenders }

// NoEffect names the fields that the file sets, or the like, and that change nothing, each
// with the reason, where there is no API server.
func (c *Config) NoEffect() []string { return texts(c.noEffect, false) }

// NoEffectInKubernetes is NoEffect where objects come from an API server.
func (c *Config) NoEffectInKubernetes() []string { return texts(c.noEffect, true) }
