package manifest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
)

// TestRead reads the inputs of testdata/read and prints what comes out: the
// objects with their places, warnings, the note, errors.
//
//	read [file=NAME] [skip-invalid] [strict] [override] [namespace=NS] [crlf]
//	more file=NAME      adds a file to the next read
func TestRead(t *testing.T) {
	datadriven.Walk(t, "testdata/read", func(t *testing.T, path string) {
		dir := t.TempDir()
		var paths []string
		write := func(d *datadriven.TestData) {
			name := "in.yaml"
			d.MaybeScanArgs(t, "file", &name)
			text := d.Input + "\n"
			if d.HasArg("crlf") {
				text = strings.ReplaceAll(text, "\n", "\r\n")
			}
			file := filepath.Join(dir, name)
			if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
			paths = append(paths, file)
		}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			write(d)
			if d.Cmd == "more" {
				return ""
			}
			o := Options{Strict: d.HasArg("strict"), Override: d.HasArg("override"), OverrideFlag: "--override"}
			d.MaybeScanArgs(t, "namespace", &o.Namespace)
			got := readText(paths, o, d.HasArg("skip-invalid"))
			paths = nil
			return strings.ReplaceAll(got, dir+string(filepath.Separator), "")
		})
	})
}

// readText reads and describes.
func readText(paths []string, o Options, skip bool) string {
	var b strings.Builder
	report := &Report{SkipInvalid: skip, Warn: func(err error) { fmt.Fprintf(&b, "warning: %v\n", err) }}
	set, err := Read(paths, o, report)
	if set != nil {
		for _, obj := range set.Objects {
			fmt.Fprintf(&b, "%s: %s", obj.Position(""), obj)
			if obj.Over != nil {
				fmt.Fprintf(&b, ", applied to that of %s", obj.Over.Position(""))
			}
			b.WriteString("\n")
		}
		for _, note := range set.Notes() {
			fmt.Fprintln(&b, note)
		}
	}
	if err != nil {
		fmt.Fprintf(&b, "error: %v\n", err)
	}
	return b.String()
}

func TestReadFolder(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"b.yml":          node("b"),
		"a.yaml":         node("a"),
		"deep/c.json":    `{"apiVersion":"v1","kind":"Node","metadata":{"name":"c"}}`,
		"deep/README.md": "no manifest",
	} {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(filepath.Join(dir, "a.yaml"), filepath.Join(dir, "deep", "d.yaml")); err != nil {
		t.Fatal(err)
	}
	got := strings.ReplaceAll(readText([]string{dir}, Options{}, true), dir+"/", "")
	want := "warning: deep/d.yaml:4: Node a: metadata.name: given twice; first at a.yaml:4; skipped\n" +
		"a.yaml:1: Node a\nb.yml:1: Node b\ndeep/c.json:1: Node c\n"
	if got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

func TestPathsThatCannotBeRead(t *testing.T) {
	empty := t.TempDir()
	tests := []struct {
		name string
		path string
		o    Options
		want string
	}{
		{"a missing file", empty + "/none.yaml", Options{}, "none.yaml: no such file or directory"},
		{"an empty folder", empty, Options{}, "the folder holds no *.yaml, *.yml or *.json file"},
		{"no standard input", "-", Options{}, "standard input: there is none"},
		{"too much", "-", Options{Stdin: strings.NewReader(node("a")), MaxBytes: 10}, "standard input: the input is too large: at most 10 bytes are read at once"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := Read([]string{test.path}, test.o, &Report{SkipInvalid: true})
			if err == nil || !strings.HasSuffix(err.Error(), test.want) {
				t.Errorf("got %v, want … %s", err, test.want)
			}
		})
	}
}

func TestStandardInput(t *testing.T) {
	got := readText([]string{"-"}, Options{Stdin: strings.NewReader("\xef\xbb\xbf" + node("a"))}, false)
	if want := "standard input:1: Node a\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestHugeLabelGivesAShortError(t *testing.T) {
	text := node("a") + "  labels: {x: [" + strings.Repeat("x", 10<<20) + "]}\n"
	got := readText([]string{"-"}, Options{Stdin: strings.NewReader(text)}, false)
	want := "error: standard input:5: Node a: metadata.labels.x: expected a string, got an array\n"
	if got != want {
		t.Errorf("got %s, want %s", Clip(got), want)
	}
}

func TestTextsOfOwnTypesAreCalledStrings(t *testing.T) {
	text := "apiVersion: v1\nkind: Pod\nmetadata: {name: p, namespace: x}\nspec:\n  preemptionPolicy: 3\n"
	got := readText([]string{"-"}, Options{Stdin: strings.NewReader(text)}, false)
	want := "error: standard input:5: Pod x/p: spec.preemptionPolicy: expected a string, got a number (put it in quotes)\n"
	if got != want {
		t.Errorf("got %s, want %s", Clip(got), want)
	}
}

func TestErrorsAreFoundByErrorsAs(t *testing.T) {
	_, err := Read([]string{"-"}, Options{Stdin: strings.NewReader("kind: Pod\n")}, &Report{})
	var e *Error
	if !errors.As(err, &e) || e.Position.Line != 1 || e.Field != "apiVersion" {
		t.Errorf("got %#v, want an *Error about apiVersion in line 1", err)
	}
}

func node(name string) string {
	return "apiVersion: v1\nkind: Node\nmetadata:\n  name: " + name + "\n"
}

// FuzzRead feeds arbitrary bytes: whatever they are, reading ends without a panic,
// and every error names a line that the input has.
func FuzzRead(f *testing.F) {
	f.Add([]byte(node("a")), false)
	f.Add([]byte("--- # c\napiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: Pod, metadata: {name: p}}\n"), false)
	f.Add([]byte(`{"kind":"PodList","apiVersion":"v1","items":[{"metadata":{"name":"a"}}]} [{"kind":"Node"}]`), true)
	f.Add([]byte("apiVersion: v1\nkind: Pod\nspec: {containers: [{resources: {requests: {cpu: x, memory: 1e-99999}}}]}\n"), false)
	f.Add([]byte("a: &a [*a]\n---\n? {}\n: b\n"), false)
	f.Add([]byte("%YAML 1.1\n---\n...\n\xff\xfe"), false)
	f.Fuzz(func(t *testing.T, text []byte, skip bool) {
		if len(text) > 1<<16 {
			return
		}
		report := &Report{SkipInvalid: skip}
		set, err := Read([]string{"-"}, Options{Stdin: strings.NewReader(string(text))}, report)
		if skip && err != nil {
			t.Fatalf("got %v although what is invalid is skipped", err)
		}
		lines := 1 + strings.Count(string(text), "\n")
		var all Errors
		if errors.As(err, &all) {
			for _, e := range all {
				if e.Position.Line < 0 || e.Position.Line > lines+1 {
					t.Errorf("got line %d in an input of %d: %v", e.Position.Line, lines, e)
				}
			}
		}
		for _, obj := range set.Objects {
			if p := obj.Position("spec.containers[0].image"); p.Line < 1 || p.Line > lines {
				t.Errorf("got position %v in an input of %d lines", p, lines)
			}
		}
	})
}

// Autoscalers are skipped, and told of by what all their versions have.
func TestAutoscalers(t *testing.T) {
	const text = `
{apiVersion: autoscaling/v1, kind: HorizontalPodAutoscaler, metadata: {name: a}, spec: {scaleTargetRef: {kind: Deployment, name: web}, maxReplicas: 4}}
---
{apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, metadata: {name: b, namespace: shop},
  spec: {scaleTargetRef: {kind: StatefulSet, name: db}, minReplicas: 2, maxReplicas: 3, metrics: [{type: External}]}}
---
{apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, metadata: {name: unreadable}, spec: {maxReplicas: many}}
`
	set, err := Read([]string{"-"}, Options{Stdin: strings.NewReader(text), Namespace: "mine"}, &Report{})
	if err != nil {
		t.Fatal(err)
	}
	want := []Autoscaler{{"mine", "a", "Deployment", "web", 1, 4}, {"shop", "b", "StatefulSet", "db", 2, 3}}
	if got := set.Autoscalers; !slices.Equal(got, want) || set.Skipped["HorizontalPodAutoscaler"] != 3 {
		t.Errorf("got %v, and %v skipped; want %v, and 3 skipped", got, set.Skipped, want)
	}
}
