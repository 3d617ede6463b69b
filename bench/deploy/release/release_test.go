package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"helm.sh/helm/v3/pkg/chart/loader"

	"github.com/shardsched/shardsched/bench/deploy/image"
	"github.com/shardsched/shardsched/bench/deploy/sbom"
)

// repo is a small repository of the same shape as this one.
type repo struct {
	t   *testing.T
	dir string
}

func newRepo(t *testing.T) *repo {
	t.Helper()
	r := &repo{t, t.TempDir()}
	r.run("git", "init", "-q")
	r.write("go.mod", "module github.com/shardsched/shardsched\n\ngo 1.26.0\n")
	r.write("cmd/shardsched/main.go", "package main\n\nfunc main() { println(\"here\") }\n")
	r.write("LICENSE", "Apache License")
	r.write("CHANGELOG.md", "# Changes\n\n## v0.2.0, not released\n\nLater.\n\n## v0.1.0, 2026-01-02\n\nThe first.\n\n### More\n\nOf it.\n\n## v0.0.1, 2026-01-01\n")
	r.write("deploy/chart/Chart.yaml", "apiVersion: v2\nname: shardsched\nversion: 0.0.0\nappVersion: v0.0.0\n")
	r.write("deploy/chart/templates/pod.yaml", "kind: Pod\n")
	for _, folder := range golden {
		r.write(filepath.Join(folder, "v0.1.0.jsonl"), "{}\n")
	}
	r.commit()
	r.run("git", "tag", "v0.1.0")
	return r
}

func (r *repo) write(path, text string) {
	r.t.Helper()
	path = filepath.Join(r.dir, path)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		r.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		r.t.Fatal(err)
	}
}

func (r *repo) commit() {
	r.t.Helper()
	r.run("git", "add", "--all")
	r.run("git", "-c", "user.name=Somebody", "-c", "user.email=somebody@example.com", "-c", "commit.gpgsign=false", "commit", "-q", "-m", "change")
}

func (r *repo) run(command ...string) string {
	r.t.Helper()
	out, err := r.try(command...)
	if err != nil {
		r.t.Fatalf("%v: %v\n%s", command, err, out)
	}
	return out
}

func (r *repo) try(command ...string) (string, error) {
	c := exec.CommandContext(r.t.Context(), command[0], command[1:]...)
	c.Dir = r.dir
	out, err := c.CombinedOutput()
	return string(out), err
}

// release makes one of the repository as it is, in a folder that it returns.
func (r *repo) release(version string) (dir, log string, err error) {
	r.t.Helper()
	var said bytes.Buffer
	dir = filepath.Join(r.t.TempDir(), "dist")
	source, err := image.Open(r.t.Context(), r.dir)
	if err != nil {
		r.t.Fatal(err)
	}
	err = (&release{version: version, out: dir, source: source, log: &said}).make(r.t.Context())
	return dir, said.String(), err
}

func TestReleaseTwice(t *testing.T) {
	r := newRepo(t)
	dir, log, err := r.release("v0.1.0")
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"LICENSE", "NOTES.md", "SHA256SUMS", "images.tar",
		"shardsched-0.1.0.tgz", "shardsched-linux-amd64", "shardsched-linux-amd64.cdx.json", "shardsched-linux-arm64", "shardsched-linux-arm64.cdx.json",
		"shardsched-slim-linux-amd64", "shardsched-slim-linux-amd64.cdx.json", "shardsched-slim-linux-arm64", "shardsched-slim-linux-arm64.cdx.json",
	}
	if d := cmp.Diff(want, names(t, dir)); d != "" {
		t.Errorf("files (-want +got):\n%s", d)
	}
	notes := read(t, dir, "NOTES.md")
	if want := "The first.\n\n### More\n\nOf it.\n\n## Known vulnerabilities\n\nNot looked for: govulncheck was not run"; !strings.HasPrefix(notes, want) {
		t.Errorf("got notes %q, want %q …", notes, want)
	}
	if !strings.Contains(log, "govulncheck: NOT RUN") {
		t.Errorf("got %q, want it to say that govulncheck was not run", log)
	}
	wantImages(t, dir)
	wantChart(t, dir)
	var bom sbom.BOM
	if err := json.Unmarshal([]byte(read(t, dir, "shardsched-slim-linux-arm64.cdx.json")), &bom); err != nil {
		t.Fatal(err)
	}
	if c := bom.Metadata.Component; c.Version != "v0.1.0" || !slices.Contains(c.Properties, sbom.Property{Name: "go:GOARCH", Value: "arm64"}) {
		t.Errorf("got a bill of %v, want one of v0.1.0 for arm64", c)
	}
	sums := exec.CommandContext(t.Context(), "sha256sum", "--check", "--strict", "SHA256SUMS")
	sums.Dir = dir
	if out, err := sums.CombinedOutput(); err != nil || strings.Count(string(out), ": OK\n") != len(want)-1 {
		t.Errorf("sha256sum: %v, %s, want all files but itself to be as it says", err, out)
	}
	again, _, err := r.release("v0.1.0")
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(read(t, dir, "SHA256SUMS"), read(t, again, "SHA256SUMS")); d != "" {
		t.Errorf("checksums of the second release of one commit (-first +second):\n%s", d)
	}
}

// wantImages holds that the tar is a layout with both tags, each for both platforms.
func wantImages(t *testing.T, dir string) {
	t.Helper()
	tree := t.TempDir()
	if out, err := exec.CommandContext(t.Context(), "tar", "-xf", filepath.Join(dir, "images.tar"), "-C", tree).CombinedOutput(); err != nil {
		t.Fatalf("tar: %v\n%s", err, out)
	}
	all, err := layout.ImageIndexFromPath(tree)
	if err != nil {
		t.Fatal(err)
	}
	top, err := all.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, d := range top.Manifests {
		index, err := all.ImageIndex(d.Digest)
		if err != nil {
			t.Fatal(err)
		}
		m, err := index.IndexManifest()
		if err != nil {
			t.Fatal(err)
		}
		for _, img := range m.Manifests {
			got = append(got, d.Annotations["org.opencontainers.image.ref.name"]+" "+img.Platform.String())
		}
	}
	want := []string{"v0.1.0 linux/amd64", "v0.1.0 linux/arm64", "v0.1.0-slim linux/amd64", "v0.1.0-slim linux/arm64"}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("images (-want +got):\n%s", d)
	}
}

// wantChart holds that the package is a folder shardsched/ with the version set.
func wantChart(t *testing.T, dir string) {
	t.Helper()
	tree := t.TempDir()
	if out, err := exec.CommandContext(t.Context(), "tar", "-xzf", filepath.Join(dir, "shardsched-0.1.0.tgz"), "-C", tree).CombinedOutput(); err != nil {
		t.Fatalf("tar: %v\n%s", err, out)
	}
	want := "apiVersion: v2\nname: shardsched\nversion: 0.1.0\nappVersion: \"v0.1.0\"\n"
	if got := read(t, tree, "shardsched/Chart.yaml"); got != want {
		t.Errorf("got Chart.yaml %q, want %q", got, want)
	}
	if got := read(t, tree, "shardsched/templates/pod.yaml"); got != "kind: Pod\n" {
		t.Errorf("got the template %q, want it as it is", got)
	}
}

// Helm takes the chart of this repository as it is packed for a release.
func TestChartIsTakenByHelm(t *testing.T) {
	const root = "../../.."
	var files []string
	err := filepath.WalkDir(filepath.Join(root, chartFolder), func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			path, err = filepath.Rel(root, path)
			files = append(files, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	packed, err := packChart(root, files, "1.2.3-rc.1", time.Unix(1000, 0))
	if err != nil {
		t.Fatal(err)
	}
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	if _, err := z.Write(packed); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	c, err := loader.LoadArchive(&zipped)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Validate(); err != nil {
		t.Error(err)
	}
	if m := c.Metadata; m.Name != "shardsched" || m.Version != "1.2.3-rc.1" || m.AppVersion != "v1.2.3-rc.1" || len(c.Raw) != len(files) {
		t.Errorf("got %s %s of %s with %d files, want shardsched 1.2.3-rc.1 of v1.2.3-rc.1 with %d", m.Name, m.Version, m.AppVersion, len(c.Raw), len(files))
	}
}

func names(t *testing.T, dir string) (out []string) {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range list {
		out = append(out, f.Name())
	}
	return out
}

func read(t *testing.T, dir, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestWhatIsNoReleaseIsRefused(t *testing.T) {
	r := newRepo(t)
	refused := func(version, why string) {
		t.Helper()
		dir, _, err := r.release(version)
		if err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%q: got %v, want it refused: %s", version, err, why)
		}
		if _, err := os.Stat(dir); err == nil {
			t.Errorf("%q: want nothing left behind, got %s", version, dir)
		}
	}
	for _, version := range []string{"", "0.1.0", "v0.1", "v0.01.0", "v0.1.0+dirty", "v0.1.0 "} {
		refused(version, "want v and three numbers")
	}
	refused("v0.3.0", `want a heading "## v0.3.0, YEAR-MONTH-DAY"`)
	refused("v0.2.0", `want a heading "## v0.2.0, YEAR-MONTH-DAY"`) // it has no date
	refused("v0.0.1", `with text below it, got none`)
	r.write("notes.txt", "not committed")
	refused("v0.1.0", "files differ from commit")
	r.commit()
	refused("v0.1.0", "want the tag v0.1.0, got []")
	r.run("git", "rm", "-q", "-r", golden[0])
	r.commit()
	r.run("git", "tag", "--force", "v0.1.0")
	refused("v0.1.0", golden[0])
	for _, args := range [][]string{nil, {"elsewhere"}, {"image"}, {"image", "-platforms", "linux", "-out", "x"}, {"dist", "v0.1.0"}} {
		if err := run(context.Background(), append(args[:len(args):len(args)], flagsOf(args, r.dir)...)); err == nil {
			t.Errorf("release %q: got no error, want one", args)
		}
	}
}

// flagsOf lets a command that takes flags look at the small repository.
func flagsOf(args []string, root string) []string {
	if len(args) == 0 || args[0] == "elsewhere" || args[len(args)-1] == "v0.1.0" {
		return nil
	}
	return []string{"-root", root}
}

// TestTheWireMayOnlyGrow runs `make breaking` in a clone: without a release it says so, and after one it holds messages to it.
func TestTheWireMayOnlyGrow(t *testing.T) {
	top, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	r := &repo{t, filepath.Join(t.TempDir(), "clone")}
	if out, err := exec.CommandContext(t.Context(), "git", "clone", "-q", "--shared", "--no-tags", top, r.dir).CombinedOutput(); err != nil {
		t.Fatalf("git clone: %v\n%s", err, out)
	}
	r.write("Makefile", read(t, top, "Makefile"))
	if out := r.run("make", "breaking"); !strings.Contains(out, "there is no release yet") {
		t.Errorf("without a tag: got %q, want it to say so", out)
	}
	r.run("git", "tag", "v0.1.0")
	r.run("git", "tag", "v0.0.9")
	const file, field = "proto/shardsched/v1/worker.proto", "  uint64 turn = 10;\n"
	text := read(t, r.dir, file)
	if strings.Count(text, field) != 1 {
		t.Fatalf("%s: want %q once", file, field)
	}
	r.write(file, strings.Replace(text, field, field+"  uint64 later = 1000;\n", 1))
	if out := r.run("make", "breaking"); !strings.Contains(out, "messages since v0.1.0") {
		t.Errorf("with a field more: got %q, want it held to v0.1.0", out)
	}
	r.write(file, strings.Replace(text, field, "", 1))
	if out, err := r.try("make", "breaking"); err == nil || !strings.Contains(out, `"turn"`) {
		t.Errorf("with a field less: got %v, %q; want it refused for the field turn", err, out)
	}
}
