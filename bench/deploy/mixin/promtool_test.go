package mixin

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// root is the folder of the main module.
const root = "../../.."

// promtool is the file of Prometheus' tool.
type promtool string

func newPromtool(t *testing.T) promtool {
	t.Helper()
	file := filepath.Join(t.TempDir(), "promtool")
	// The main module is only where the versions are looked up: nothing of it is built.
	build := exec.CommandContext(t.Context(), "go", "build", "-modfile=.ci/promtool.mod", "-tags=remove_all_sd", "-o", file,
		"github.com/prometheus/prometheus/cmd/promtool")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build promtool: %v\n%s", err, out)
	}
	return promtool(file)
}

// run runs it in a folder and returns what it prints.
func (p promtool) run(t *testing.T, dir string, args ...string) (string, error) {
	t.Helper()
	c := exec.CommandContext(t.Context(), string(p), args...)
	c.Dir, c.Env = dir, append(os.Environ(), "NO_COLOR=1")
	out, err := c.CombinedOutput()
	return string(out), err
}

func TestMixin(t *testing.T) {
	tool := newPromtool(t)
	t.Run("alerts", tool.alerts)
	t.Run("dashboards", tool.dashboards)
}

// alerts runs promtool's unit tests of all alerts.
func (p promtool) alerts(t *testing.T) {
	dir := filepath.Join(root, "deploy/mixin")
	for _, args := range [][]string{{"check", "rules", "rules.yaml"}, {"test", "rules", "rules_test.yaml"}} {
		if out, err := p.run(t, dir, args...); err != nil {
			t.Errorf("promtool %v: %v\n%s", args, err, out)
		}
	}
}
