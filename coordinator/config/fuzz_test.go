package config

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"unicode/utf8"
)

// FuzzLoad reads arbitrary bytes. Whatever they are, the answer is a configuration that
// makes profiles, or errors that name the file, say something, and are of a bearable
// length.
func FuzzLoad(f *testing.F) {
	files, err := filepath.Glob("testdata/*.yaml")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	const head = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
	for _, text := range []string{
		"", "{", "[]", "null", "---\n---\n", "a: &a [*a]", "a: 1\na: 2", head + "profiles: [{}, {}]", head + "profiles: [null]",
		head + "profiles: [{pluginConfig: [{name: NodeAffinity, args: 3}]}]",
		head + "profiles: [{pluginConfig: [{name: NodeResourcesFit, args: {kind: 1}}]}]",
		`{"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration", "parallelism": 1e400}`,
		head + "? [a]\n: b", head + "<<: {parallelism: 1}", head + "podMaxBackoffSeconds: 9223372036854775807",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := Parse("f", data)
		if err != nil {
			checkError(t, err)
			return
		}
		got, err := c.Profiles()
		if err != nil || len(got) == 0 {
			t.Fatalf("profiles: want at least one and no error, got %d and %v", len(got), err)
		}
		if c.PodInitialBackoff <= 0 || c.PodMaxBackoff < c.PodInitialBackoff {
			t.Errorf("backoff: want a range above zero, got %s to %s", c.PodInitialBackoff, c.PodMaxBackoff)
		}
		if len(c.profiles) < 4 { // each is written with all that it has
			comesBack(t, c)
		}
	})
}

// FuzzUpgrade reads arbitrary bytes as an older version. What comes out is v1 and loads; an error is one that a user can use.
func FuzzUpgrade(f *testing.F) {
	for _, version := range OlderVersions() {
		head := "apiVersion: " + version + "\nkind: KubeSchedulerConfiguration\n"
		for _, text := range []string{
			"", "profiles: [null, {}]", "profiles: [{plugins: {score: {enabled: [null, {name: NodeResourcesMostAllocated}], disabled: null}}}]",
			"profiles: [{plugins: {filter: {enabled: [{name: EBSLimits}]}}, pluginConfig: [null, {name: RequestedToCapacityRatio, args: 3}]}]",
			"healthzBindAddress: 3", "profiles: [{plugins: null, pluginConfig: null}]",
		} {
			f.Add([]byte(head + text))
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		made, err := Reader{}.Upgrade("f", data)
		if err != nil {
			checkError(t, err)
			return
		}
		if _, err := Parse("f", made.YAML()); err != nil {
			t.Fatalf("what is made v1 does not load: %v\n%s", err, made.YAML())
		}
	})
}

// checkError holds every part of an error to be one that a user can use.
func checkError(t *testing.T, err error) {
	t.Helper()
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, e := range joined.Unwrap() {
			checkError(t, e)
		}
		return
	}
	var e *Error
	if !errors.As(err, &e) {
		t.Fatalf("error: want an *Error, got %T: %v", err, err)
	}
	if e.File != "f" || e.Problem == "" || e.Line < 0 {
		t.Errorf("error: want a file, a problem and a line, got %+v", *e)
	}
	if !utf8.ValidString(e.Problem) {
		t.Errorf("error: want text, got %q", e.Problem)
	}
}
