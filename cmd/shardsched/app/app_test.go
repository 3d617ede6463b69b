package app

import (
	"context"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"
)

func none(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) { return nil, nil }

func TestNamesThatAreTaken(t *testing.T) {
	for name, options := range map[string][]Option{
		"Mine":             {WithPlugin("Mine", none), WithPlugin("Mine", none)},
		"NodeResourcesFit": {WithPlugin("NodeResourcesFit", none)},
	} {
		root := NewSchedulerCommand(options...)
		var out strings.Builder
		root.SetOut(&out)
		root.SetArgs([]string{"version"})
		err := root.ExecuteContext(t.Context())
		if want := "a plugin named " + name + " already exists"; err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

func TestACommandWithAPlugin(t *testing.T) {
	root := NewSchedulerCommand(WithPlugin("Mine", none))
	root.SetArgs([]string{"version"})
	if err := root.ExecuteContext(t.Context()); err != nil {
		t.Error(err)
	}
	for _, name := range []string{"coordinator", "up", "simulate", "worker", "apply", "explain"} {
		if c, _, err := root.Find([]string{name}); err != nil || c.Name() != name {
			t.Errorf("got no command %s: %v", name, err)
		}
	}
}
