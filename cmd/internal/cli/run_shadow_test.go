package cli

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/shardsched/shardsched/cmd/internal/shadow"
	"github.com/shardsched/shardsched/coordinator/config"
	"github.com/shardsched/shardsched/coordinator/extender"
	"github.com/shardsched/shardsched/internal/testkit/build"
)

func TestReportsAreWrittenWhole(t *testing.T) {
	dir := t.TempDir()
	r := &shadow.Report{}
	r.Judge(nil)
	for name, want := range map[string]string{"a.html": "<!DOCTYPE html>", "a.json": `{`, "a.txt": "0s, 0 nodes"} {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte("old"), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := writeReport(file, r); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(file)
		if err != nil || !strings.HasPrefix(strings.ToLower(string(text)), strings.ToLower(want)) {
			t.Errorf("%s: got %.40q, %v, want %q", name, text, err, want)
		}
		if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: got %v, %v, want it to be its owner's", name, info.Mode(), err)
		}
	}
	if list, _ := os.ReadDir(dir); len(list) != 3 {
		t.Errorf("got %v, want three files", list)
	}
	if err := writeReport(filepath.Join(dir, "no", "a.json"), r); err == nil || !strings.Contains(err.Error(), "report: ") {
		t.Errorf("got %v, want an error about the report", err)
	}
}

// TestAReportThatCanNotBeWrittenIsToldAtOnce tells it before anything is asked of an API server.
func TestAReportThatCanNotBeWrittenIsToldAtOnce(t *testing.T) {
	dir := t.TempDir()
	kept := filepath.Join(dir, "kept.txt")
	if err := errors.Join(os.WriteFile(kept, []byte("old"), 0o600), os.Mkdir(filepath.Join(dir, "a.html"), 0o700)); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{filepath.Join(dir, "a.html"), filepath.Join(dir, "no", "a.json")} {
		_, errs, code := command(t, "shadow", "--kubeconfig", filepath.Join(dir, "none"), "--report", kept, "--report", name)
		if code != exitFailed || !strings.Contains(errs, "report: ") || !strings.Contains(errs, filepath.Base(name)) {
			t.Errorf("%s: got %d, %q, want the report refused", name, code, errs)
		}
	}
	if text, err := os.ReadFile(kept); err != nil || string(text) != "old" {
		t.Errorf("got %q, %v, want the report of before as it was", text, err)
	}
	if list, _ := os.ReadDir(dir); len(list) != 2 {
		t.Errorf("got %v, want nothing left", list)
	}
}

func TestWhoIsNotAsked(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config.yaml")
	text := `apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
extenders:
- {urlPrefix: "http://127.0.0.1:1/gpu", filterVerb: filter, managedResources: [{name: example.com/gpu}]}
profiles:
- schedulerName: default-scheduler
- schedulerName: own
  plugins: {filter: {enabled: [{name: Mine}]}}
`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := config.ReaderFor([]string{"Mine"}).Load(file)
	if err != nil {
		t.Fatal(err)
	}
	extenders, err := extender.NewAll(c.Extenders(), extender.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ask := notAsked(c, extenders)
	own := build.Pod("own").Obj()
	own.Spec.SchedulerName = "own"
	if got := ask(build.Pod("plain").Obj()); got != "" {
		t.Errorf("a plain pod: got %q, want nobody", got)
	}
	if got := ask(own); !strings.Contains(got, "plugins") {
		t.Errorf("a pod of a profile with a plugin: got %q", got)
	}
	if got := ask(build.Pod("gpu").Request("example.com/gpu", "1").Obj()); !strings.Contains(got, "http://127.0.0.1:1/gpu") {
		t.Errorf("a pod that the extender manages: got %q", got)
	}
	if got := ask(build.Pod("member").Member("gang").Obj()); got != "its PodGroup has a say in it" {
		t.Errorf("a member of a pod group: got %q", got)
	}
	var b strings.Builder
	tellLeftOut(&b, c)
	if got := b.String(); !strings.Contains(got, "profile own") || !strings.Contains(got, "http://127.0.0.1:1/gpu") {
		t.Errorf("got %q, want both named", got)
	}
}
