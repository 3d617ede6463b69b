package rules

import (
	"reflect"
	"testing"

	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/shardsched/shardsched/coordinator/compile"
	"github.com/shardsched/shardsched/coordinator/framework"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
	"github.com/shardsched/shardsched/scorer"
)

// TestEachRuleIsListedOnce holds names and numbers of the catalogue to those of queries.
func TestEachRuleIsListedOnce(t *testing.T) {
	names, numbers := map[string]bool{}, map[pb.Plugin]string{}
	for _, r := range All() {
		if names[r.Name] {
			t.Errorf("%s is listed twice", r.Name)
		}
		if found := Find(r.Name); found == nil || found.Name != r.Name {
			t.Errorf("%s: found %v", r.Name, found)
		}
		names[r.Name] = true
		if r.Plugin == pb.Plugin_PLUGIN_UNSPECIFIED {
			continue
		}
		numbers[r.Plugin] = r.Name
		if got := scorer.PluginName(r.Plugin); got != r.Name {
			t.Errorf("%s: tables call it %s", r.Name, got)
		}
		if r.Plugin.Filters() && !r.At(framework.Filter) || r.Plugin.Scores() && !r.At(framework.Score) {
			t.Errorf("%s: want the points at which tables evaluate it, got %v", r.Name, r.Points)
		}
	}
	numbers[pb.Plugin_PLUGIN_DYNAMIC_RESOURCES] = DynamicResources // tables evaluate it, but pods with claims are refused
	for number := range pb.Plugin_name {
		if p := pb.Plugin(number); p != pb.Plugin_PLUGIN_UNSPECIFIED && numbers[p] == "" {
			t.Errorf("%v: want a rule with this number, got none", p)
		}
	}
}

// TestArgumentsAreOfTheirKind holds types of arguments to the kind that files name.
func TestArgumentsAreOfTheirKind(t *testing.T) {
	upstreams := 0
	for _, r := range All() {
		if r.Arguments == nil {
			continue
		}
		if got, want := reflect.TypeOf(r.Arguments.Empty()).Elem().Name(), r.Name+"Args"; got != want {
			t.Errorf("arguments of %s: want %s, got %s", r.Name, want, got)
		}
		want := configv1.SchemeGroupVersion
		if r.Ours {
			want = compile.CELGroupVersion
		} else {
			upstreams++
		}
		if r.Arguments.Version != want {
			t.Errorf("arguments of %s: want version %s, got %s", r.Name, want, r.Arguments.Version)
		}
	}
	if upstreams != 8 {
		t.Errorf("upstream's plugins with arguments: want 8, got %d", upstreams)
	}
}
