package config

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	configv1 "k8s.io/kube-scheduler/config/v1"
	"pgregory.net/rapid"

	"github.com/shardsched/shardsched/coordinator/framework"
	"github.com/shardsched/shardsched/coordinator/rules"
)

// failer is a test, a fuzz target or a property.
type failer interface {
	Helper()
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// comesBack holds what is written of a configuration to load to the same thing.
func comesBack(t failer, c *Config) {
	t.Helper()
	first, err := c.YAML()
	if err != nil {
		t.Fatalf("write: %v", err)
	}
	again, err := Parse("written", first)
	if err != nil {
		t.Fatalf("what was written: want no error, got %v\n%s", err, first)
	}
	if diff := cmp.Diff(c.Expanded(), again.Expanded()); diff != "" {
		t.Errorf("plugins: want -, got +\n%s", diff)
	}
	if diff := cmp.Diff(tablesOf(c), tablesOf(again)); diff != "" {
		t.Errorf("what tables are given: want -, got +\n%s", diff)
	}
	if c.PodInitialBackoff != again.PodInitialBackoff || c.PodMaxBackoff != again.PodMaxBackoff {
		t.Errorf("backoff: want %s to %s, got %s to %s", c.PodInitialBackoff, c.PodMaxBackoff, again.PodInitialBackoff, again.PodMaxBackoff)
	}
}

// tablesOf is what the tables are given, as text: arguments may have no list or an empty one.
func tablesOf(c *Config) []string {
	var out []string
	for _, p := range c.profiles {
		text, err := json.Marshal(p.table)
		if err != nil {
			panic(err) // plain data
		}
		out = append(out, string(text))
	}
	return out
}

// TestWhatIsWrittenComesBack makes configurations up, and holds each that loads to come
// back from its text.
func TestWhatIsWrittenComesBack(t *testing.T) {
	loaded := 0
	rapid.Check(t, func(t *rapid.T) {
		text, err := json.Marshal(drawConfiguration(t))
		if err != nil {
			t.Fatal(err)
		}
		c, err := Parse("f", text)
		if err != nil {
			return
		}
		loaded++
		comesBack(t, c)
	})
	if loaded == 0 {
		t.Error("configurations that load: want some, got none")
	}
}

func drawConfiguration(t *rapid.T) *configv1.KubeSchedulerConfiguration {
	c := &configv1.KubeSchedulerConfiguration{}
	c.SetGroupVersionKind(configv1.SchemeGroupVersion.WithKind(kind))
	initial := rapid.Int64Range(1, 5).Draw(t, "initial backoff")
	c.PodInitialBackoffSeconds = &initial
	for i := range rapid.IntRange(0, 3).Draw(t, "profiles") {
		name := string(rune('a' + i))
		c.Profiles = append(c.Profiles, configv1.KubeSchedulerProfile{
			SchedulerName: &name, Plugins: drawPlugins(t), PluginConfig: drawArguments(t),
		})
	}
	if rapid.IntRange(0, 5).Draw(t, "extender") == 0 {
		c.Extenders = []configv1.Extender{{URLPrefix: "http://x/", ManagedResources: []configv1.ExtenderManagedResource{
			{Name: "example.com/a", IgnoredByScheduler: rapid.Bool().Draw(t, "ignored")},
		}}}
	}
	return c
}

func drawPlugins(t *rapid.T) *configv1.Plugins {
	s := &configv1.Plugins{}
	set := func(name string, names []string, into *configv1.PluginSet) {
		if rapid.IntRange(0, 3).Draw(t, name) != 0 {
			return
		}
		for _, n := range rapid.SliceOfNDistinct(rapid.SampledFrom(append(names, "*")), 0, 3, rapid.ID).Draw(t, name+" disabled") {
			into.Disabled = append(into.Disabled, configv1.Plugin{Name: n})
		}
		for _, n := range rapid.SliceOfNDistinct(rapid.SampledFrom(names), 0, min(4, len(names)), rapid.ID).Draw(t, name+" enabled") {
			e := configv1.Plugin{Name: n}
			if rapid.Bool().Draw(t, name+" weighted") {
				weight := rapid.Int32Range(0, 9).Draw(t, name+" weight")
				e.Weight = &weight
			}
			into.Enabled = append(into.Enabled, e)
		}
	}
	var all []string
	for _, r := range rules.All() {
		all = append(all, r.Name)
	}
	set("multiPoint", all, &s.MultiPoint)
	for at := range framework.NumPoints {
		if at == framework.Bind || at == framework.QueueSort {
			continue // nothing runs without
		}
		var able []string
		for _, r := range rules.All() {
			if r.At(at) {
				able = append(able, r.Name)
			}
		}
		if len(able) > 0 {
			set(at.Field(), able, at.Of(s))
		}
	}
	return s
}

func drawArguments(t *rapid.T) []configv1.PluginConfig {
	var list []configv1.PluginConfig
	add := func(plugin string, options ...string) {
		if i := rapid.IntRange(-1, len(options)-1).Draw(t, plugin); i >= 0 {
			c := configv1.PluginConfig{Name: plugin}
			c.Args.Raw = []byte(options[i])
			list = append(list, c)
		}
	}
	add("NodeResourcesFit", `{}`, `{"scoringStrategy": {"type": "MostAllocated", "resources": [{"name": "cpu", "weight": 3}]}}`,
		`{"ignoredResources": ["example.com/a"], "ignoredResourceGroups": []}`,
		`{"scoringStrategy": {"type": "RequestedToCapacityRatio", "requestedToCapacityRatio": {"shape": [{"utilization": 0, "score": 10}, {"utilization": 100, "score": 0}]}}}`)
	add("NodeResourcesBalancedAllocation", `{}`, `{"resources": [{"name": "memory"}]}`)
	add("NodeAffinity", `{}`, `{"addedAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 3, "preference": {"matchExpressions": [{"key": "a", "operator": "Exists"}]}}]}}`)
	add("PodTopologySpread", `{}`, `{"defaultingType": "List"}`,
		`{"defaultingType": "List", "defaultConstraints": [{"maxSkew": 2, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}]}`)
	add("InterPodAffinity", `{}`, `{"hardPodAffinityWeight": 0, "ignorePreferredTermsOfExistingPods": true}`)
	add("VolumeBinding", `{}`, `{"bindTimeoutSeconds": 3}`)
	add("DynamicResources", `{}`, `{"filterTimeout": "0s", "bindingTimeout": "1m30s"}`)
	add("NodeName", `{"a": {"b": [1, 2]}}`)
	return list
}
