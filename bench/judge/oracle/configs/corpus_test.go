package configs

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/klog/v2"

	"github.com/shardsched/shardsched/coordinator/config"
)

// file is a configuration file of the corpus.
type file struct{ name, text string }

// TestMain keeps upstream quiet: it logs what it overrides.
func TestMain(m *testing.M) {
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
	os.Exit(m.Run())
}

// TestCorpus holds every file of testdata, and every one that the loader's own tests
// have, against kube-scheduler.
func TestCorpus(t *testing.T) {
	u, err := newUpstream()
	if err != nil {
		t.Fatal(err)
	}
	files := append(corpus(t), scripts(t)...)
	good := 0
	for _, f := range files {
		t.Run(f.name, func(t *testing.T) {
			up := u.load(t.Context(), []byte(f.text))
			ours, err := config.Parse("file", []byte(f.text))
			if diff := u.compare(t.Context(), ours, err, up); diff != nil {
				t.Errorf("%v\nthe file:\n%s", diff, f.text)
			}
			if err == nil {
				good++
				reload(t, ours)
			}
		})
	}
	t.Logf("%d files, %d of them good", len(files), good)
	if len(files) < 200 || good < 40 {
		t.Errorf("corpus: got %d files, %d of them good: want at least 200 and 40", len(files), good)
	}
}

// reload holds a configuration to come back from its text: the same plugins at all points, and the
// same text.
func reload(t *testing.T, c *config.Config) {
	t.Helper()
	first, err := c.YAML()
	if err != nil {
		t.Fatal(err)
	}
	again, err := config.Parse("written", first)
	if err != nil {
		t.Fatalf("what was written does not load: %v\n%s", err, first)
	}
	if diff := cmp.Diff(c.Expanded(), again.Expanded()); diff != "" {
		t.Errorf("plugins: first -, written and loaded +\n%s", diff)
	}
	second, err := again.YAML()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(first), string(second)); diff != "" && !repeats(c) {
		t.Errorf("written once -, written, loaded and written +\n%s", diff)
	}
}

// repeats tells of a plugin that the multi-point has twice and every point refuses: its two entries
// change places with every reading, in kube-scheduler too.
func repeats(c *config.Config) bool {
	for _, p := range c.Completed().Profiles {
		seen := map[string]bool{}
		for _, e := range p.Plugins.MultiPoint.Enabled {
			if seen[e.Name] {
				return true
			}
			seen[e.Name] = true
		}
	}
	return false
}

// corpus reads testdata. A line "=== name" begins a file that lacks apiVersion and kind,
// "==! name" one that stands there whole.
func corpus(t *testing.T) []file {
	t.Helper()
	var out []file
	for path, text := range read(t, "testdata/*.txt") {
		for _, part := range strings.Split("\n"+text, "\n==")[1:] {
			title, body, _ := strings.Cut(part, "\n")
			body += "\n"
			if title[0] == '=' {
				body = head + body
			}
			out = append(out, file{fmt.Sprintf("%s/%s", filepath.Base(path), strings.TrimSpace(title[1:])), body})
		}
	}
	return out
}

// scripts reads the inputs of the loader's golden scripts, and its samples.
func scripts(t *testing.T) []file {
	t.Helper()
	const folder = "../../../../coordinator/config/testdata/"
	var out []file
	for path, text := range read(t, folder+"*") {
		if filepath.Ext(path) == ".yaml" {
			out = append(out, file{filepath.Base(path), text})
			continue
		}
		for i, text := range inputs(text) {
			out = append(out, file{fmt.Sprintf("%s/%d", filepath.Base(path), i), text})
		}
	}
	return out
}

// inputs are those of a golden script: a command, the input, ---- and the outcome, up to an empty
// line.
func inputs(script string) []string {
	var out, input []string
	const (
		outside = iota
		inside
		outcome
	)
	at := outside
	for line := range strings.Lines(script) {
		switch bare := strings.TrimSpace(line); {
		case at == inside && bare == "----":
			at = outcome
			if len(input) > 0 {
				out = append(out, strings.Join(input, ""))
			}
		case at == inside:
			input = append(input, line)
		case at == outcome && bare == "":
			at = outside
		case at == outside && bare != "" && bare[0] != '#':
			at, input = inside, nil
		}
	}
	return out
}

func read(t *testing.T, pattern string) map[string]string {
	t.Helper()
	paths, err := filepath.Glob(pattern)
	if err != nil || len(paths) == 0 {
		t.Fatalf("%s: want files, got %v and %v", pattern, paths, err)
	}
	out := map[string]string{}
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		out[path] = string(data)
	}
	return out
}
