package configs

import (
	"path/filepath"
	"testing"

	"github.com/shardsched/shardsched/coordinator/config"
	"github.com/shardsched/shardsched/coordinator/config/policy"
)

// TestPoliciesLoadUpstream holds what legacy policies are translated into to load in kube-scheduler too, and to
// come to the same plugins there. The policies are those of the translation's own scripts, for the first, the
// last and a middle version, and the algorithm providers.
func TestPoliciesLoadUpstream(t *testing.T) {
	u, err := newUpstream()
	if err != nil {
		t.Fatal(err)
	}
	good := 0
	hold := func(name string, p *policy.Policy, minor int) {
		r, err := policy.Translate(p, policy.Options{Minor: minor})
		if err != nil {
			return // refused by name: the scripts say so
		}
		text, err := r.YAML()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		up := u.load(t.Context(), text)
		ours, err := config.Parse("file", text)
		if diff := u.compare(t.Context(), ours, err, up); diff != nil {
			t.Errorf("%s from 1.%d: %v\nthe file:\n%s", name, minor, diff, text)
		}
		if err == nil {
			good++
			reload(t, ours)
		}
	}
	for path, script := range read(t, "../../../../coordinator/config/policy/testdata/[a-z]*") {
		for _, text := range inputs(script) {
			p, err := policy.Parse("policy", []byte(text))
			if err != nil {
				p, err = policy.ParseConfigMap("policy", []byte(text))
			}
			if err != nil {
				continue
			}
			for _, minor := range []int{policy.FirstMinor, 15, policy.LastMinor} {
				hold(filepath.Base(path), p, minor)
			}
		}
	}
	for _, name := range policy.Providers() {
		for minor := policy.FirstMinor; minor <= policy.LastMinor; minor++ {
			p, err := policy.Provider(name)
			if err != nil {
				t.Fatal(err)
			}
			hold(name, p, minor)
		}
	}
	if good < 60 {
		t.Errorf("policies: want at least 60 that load, got %d", good)
	}
}

// TestUpgradesLoadUpstream holds what older configurations are made into to load in kube-scheduler too, and to come to the same there.
func TestUpgradesLoadUpstream(t *testing.T) {
	u, err := newUpstream()
	if err != nil {
		t.Fatal(err)
	}
	good := 0
	for _, script := range read(t, "../../../../coordinator/config/testdata/upgrade") {
		for _, text := range inputs(script) {
			made, err := config.Reader{}.Upgrade("old", []byte(text))
			if err != nil {
				continue // refused by name: the script says so
			}
			good++
			ours, err := config.Parse("file", made.YAML())
			if diff := u.compare(t.Context(), ours, err, u.load(t.Context(), made.YAML())); diff != nil {
				t.Errorf("%v\nthe file:\n%s", diff, made.YAML())
			}
			if err == nil {
				reload(t, ours)
			}
		}
	}
	if good < 6 {
		t.Errorf("got %d configurations that are made v1, want at least 6", good)
	}
}
