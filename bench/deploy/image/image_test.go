package image

import (
	"archive/tar"
	"bytes"
	"debug/buildinfo"
	"errors"
	"io"
	"io/fs"
	"log"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

var labels = Labels{Version: "v1.2.3", Revision: "0123abcd", Source: "https://example.com/x", Created: time.Unix(1_700_000_000, 0).UTC()}

// indexOf makes an index of files that hold the given texts.
func indexOf(t *testing.T, l Labels, amd, arm string) v1.ImageIndex {
	t.Helper()
	dir := t.TempDir()
	files := []File{{Platform{"linux", "amd64"}, filepath.Join(dir, "amd")}, {Platform{"linux", "arm64"}, filepath.Join(dir, "arm")}}
	for i, text := range []string{amd, arm} {
		if err := os.WriteFile(files[i].Path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	index, err := Index(l, files...)
	if err != nil {
		t.Fatal(err)
	}
	return index
}

func digest(t *testing.T, x interface{ Digest() (v1.Hash, error) }) string {
	t.Helper()
	h, err := x.Digest()
	if err != nil {
		t.Fatal(err)
	}
	return h.String()
}

// layoutOf is the tar of a layout that holds an index.
func layoutOf(t *testing.T, index v1.ImageIndex) []byte {
	t.Helper()
	dir := t.TempDir()
	if err := Save(dir, "v1.2.3", index); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := Archive(&out, dir, "", labels.Created); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// The same is equal to the last byte; what differs has another digest.
func TestSameDigestTwice(t *testing.T) {
	first, again := indexOf(t, labels, "one", "two"), indexOf(t, labels, "one", "two")
	if a, b := digest(t, first), digest(t, again); a != b {
		t.Errorf("got digests %s and %s, want them equal", a, b)
	}
	if !bytes.Equal(layoutOf(t, first), layoutOf(t, again)) {
		t.Error("got two different tars of layouts, want them equal")
	}
	later := labels
	later.Created = later.Created.Add(time.Second)
	for what, other := range map[string]v1.ImageIndex{
		"another binary": indexOf(t, labels, "one", "three"), "another time": indexOf(t, later, "one", "two"),
	} {
		if digest(t, first) == digest(t, other) {
			t.Errorf("%s: got the same digest, want another", what)
		}
	}
}

func TestIndexHasAnImageForEachPlatform(t *testing.T) {
	dir := t.TempDir()
	for _, tag := range []string{"v1.2.3", "v1.2.3-slim"} { // the second goes beside the first
		if err := Save(dir, tag, indexOf(t, labels, "amd "+tag, "arm "+tag)); err != nil {
			t.Fatal(err)
		}
	}
	saved, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	top, err := saved.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	if len(top.Manifests) != 2 || top.Manifests[1].Annotations[refName] != "v1.2.3-slim" {
		t.Fatalf("got %v in the layout, want two tags", top.Manifests)
	}
	index, err := saved.ImageIndex(top.Manifests[1].Digest)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(index); err != nil {
		t.Error(err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(labels.all(), manifest.Annotations); d != "" {
		t.Errorf("annotations (-want +got):\n%s", d)
	}
	for i, arch := range []string{"amd64", "arm64"} {
		if got := manifest.Manifests[i].Platform.String(); got != "linux/"+arch {
			t.Errorf("image %d: got platform %s, want linux/%s", i, got, arch)
		}
		img, err := index.Image(manifest.Manifests[i].Digest)
		if err != nil {
			t.Fatal(err)
		}
		checkConfig(t, img, arch, &labels)
		tree := unpack(t, img)
		text, err := os.ReadFile(filepath.Join(tree, Binary))
		if want := arch[:3] + " v1.2.3-slim"; err != nil || string(text) != want {
			t.Errorf("image %d: got the binary %q, %v; want %q", i, text, err, want)
		}
	}
}

func checkConfig(t *testing.T, img v1.Image, arch string, l *Labels) {
	t.Helper()
	c, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if c.OS != "linux" || c.Architecture != arch || !c.Created.Equal(l.Created) {
		t.Errorf("got %s/%s of %v, want linux/%s of %v", c.OS, c.Architecture, c.Created, arch, l.Created)
	}
	if c.Config.User != "65532:65532" || !slices.Equal(c.Config.Entrypoint, []string{"/usr/local/bin/shardsched"}) || len(c.Config.Cmd) > 0 {
		t.Errorf("got %v, want user 65532:65532 and the program as the entrypoint", c.Config)
	}
	if d := cmp.Diff(l.all(), c.Config.Labels); d != "" {
		t.Errorf("labels (-want +got):\n%s", d)
	}
	for _, h := range c.History {
		if !h.Created.Equal(l.Created) {
			t.Errorf("history %q is of %v, want %v", h.CreatedBy, h.Created, l.Created)
		}
	}
}

// unpack makes the tree of an image, and holds what is in it to what may be: the program and certificates; no shell.
func unpack(t *testing.T, img v1.Image) string {
	t.Helper()
	dir := t.TempDir()
	for at := dir; len(at) > len(os.TempDir()); at = filepath.Dir(at) { // whoever runs it comes to it
		if err := os.Chmod(at, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	flat := mutate.Extract(img)
	defer flat.Close()
	var files []string
	for r := tar.NewReader(flat); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		to := filepath.Join(dir, h.Name)
		if h.FileInfo().IsDir() {
			if err := os.MkdirAll(to, 0o755); err != nil {
				t.Fatal(err)
			}
			if filepath.Clean(h.Name) == "tmp" && h.Mode&0o7777 == 0o1777 { // for everybody
				if err := os.Chmod(to, fs.ModeSticky|0o777); err != nil {
					t.Fatal(err)
				}
			}
			continue
		}
		if h.Uid != 0 || h.Gid != 0 || h.Mode&0o022 != 0 {
			t.Errorf("%s: got owner %d:%d and mode %o, want root's, and writable for nobody else", h.Name, h.Uid, h.Gid, h.Mode)
		}
		files = append(files, h.Name)
		f, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_EXCL, h.FileInfo().Mode().Perm())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(f, r); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	slices.Sort(files)
	if info, err := os.Stat(filepath.Join(dir, "tmp")); err != nil || info.Mode().Perm() != 0o777 {
		t.Errorf("/tmp: got %v, %v; want a folder for everybody", info, err)
	}
	if d := cmp.Diff([]string{Roots, Binary}, files); d != "" {
		t.Errorf("files (-want +got):\n%s", d)
	}
	return dir
}

func TestPushedIsWhatIsPulled(t *testing.T) {
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	defer server.Close()
	reference := strings.TrimPrefix(server.URL, "http://") + "/shardsched:v1.2.3"
	index := indexOf(t, labels, "one", "two")
	if err := Push(t.Context(), reference, index); err != nil {
		t.Fatal(err)
	}
	from, err := name.ParseReference(reference)
	if err != nil {
		t.Fatal(err)
	}
	pulled, err := remote.Index(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(pulled); err != nil {
		t.Error(err)
	}
	if a, b := digest(t, index), digest(t, pulled); a != b {
		t.Errorf("pulled: got %s, want %s as it was pushed", b, a)
	}
	if err := Push(t.Context(), "no tag", index); err == nil {
		t.Error("push to a reference that is none: got no error, want one")
	}
}

// TestSlimImageRuns builds the slim image of the commit for this machine as a release does, in a clone, unpacks it and runs it as the image's
// user, who can write nothing.
func TestSlimImageRuns(t *testing.T) {
	clone := filepath.Join(t.TempDir(), "clone")
	if out, err := exec.CommandContext(t.Context(), "git", "clone", "-q", "--shared", "../../..", clone).CombinedOutput(); err != nil {
		t.Fatalf("git clone: %v\n%s", err, out)
	}
	source, err := Open(t.Context(), clone)
	if err != nil {
		t.Fatal(err)
	}
	here := File{Platform{"linux", runtime.GOARCH}, filepath.Join(t.TempDir(), "shardsched")}
	if err := source.Compile(t.Context(), here.Path, here.Platform, SlimTag); err != nil {
		t.Fatal(err)
	}
	info, err := buildinfo.ReadFile(here.Path)
	if err != nil {
		t.Fatal(err)
	}
	settings := map[string]string{}
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	if settings["vcs.revision"] != source.Revision || settings["CGO_ENABLED"] != "0" || settings["-trimpath"] != "true" {
		t.Errorf("got %v, want revision %s, no cgo, and paths of no machine", settings, source.Revision)
	}
	for _, m := range info.Deps {
		if m.Path == "go.etcd.io/etcd/server/v3" {
			t.Errorf("got %s %s in the slim binary, want it left out", m.Path, m.Version)
		}
	}
	l := Labels{Version: "v0", Revision: source.Revision, Source: "https://example.com/x", Created: source.Time}
	index, err := Index(l, here)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	img, err := index.Image(manifest.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	checkConfig(t, img, runtime.GOARCH, &l)
	tree := unpack(t, img)
	before := list(t, tree)
	if out, err := inTree(t, tree, "version"); err != nil || !strings.HasPrefix(out, "shardsched ") || !strings.Contains(out, "linux/"+runtime.GOARCH) {
		t.Errorf("version: got %q, %v; want the version", out, err)
	}
	for _, args := range [][]string{{"up"}, {"coordinator", "--standalone", "--embedded-etcd"}} {
		if out, err := inTree(t, tree, args...); err == nil || !strings.Contains(out, "this build has no etcd server") {
			t.Errorf("%v: got %q, %v; want it refused for the etcd server that is not there", args, out, err)
		}
	}
	if d := cmp.Diff(before, list(t, tree)); d != "" {
		t.Errorf("files afterwards (-before +after):\n%s", d)
	}
	size, err := os.Stat(here.Path)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("the binary has %d bytes", size.Size())
}

// inTree runs the program of a tree. Root runs it as the image's user, with the tree as all that there is; anybody else can't, and
// runs it as it is.
func inTree(t *testing.T, tree string, args ...string) (string, error) {
	t.Helper()
	c := exec.CommandContext(t.Context(), filepath.Join(tree, Binary), args...)
	c.Env = []string{}
	if os.Getuid() == 0 {
		c.Path, c.Dir = "/"+Binary, "/"
		c.SysProcAttr = &syscall.SysProcAttr{Chroot: tree, Credential: &syscall.Credential{Uid: 65532, Gid: 65532}}
	} else {
		t.Log("not root: the program runs as this user, and sees all of this machine's files")
	}
	out, err := c.CombinedOutput()
	return string(out), err
}

// list has the sizes of all files of a tree.
func list(t *testing.T, tree string) map[string]int64 {
	t.Helper()
	out := map[string]int64{}
	err := filepath.WalkDir(tree, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err == nil && !d.IsDir() {
			out[path] = info.Size()
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// Go records nothing of a commit in a linked worktree, and a folder without git has none.
func TestOpenWantsAClone(t *testing.T) {
	dir := t.TempDir()
	if _, err := Open(t.Context(), dir); err == nil || !strings.Contains(err.Error(), "want a clone") {
		t.Errorf("a folder without .git: got %v, want it refused", err)
	}
	if err := os.WriteFile(filepath.Join(dir, ".git"), []byte("gitdir: elsewhere\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), dir); err == nil || !strings.Contains(err.Error(), "want a clone") {
		t.Errorf("a linked worktree: got %v, want it refused", err)
	}
}

func TestParsePlatform(t *testing.T) {
	for _, c := range []struct {
		text string
		ok   bool
	}{{"linux/arm64", true}, {"linux", false}, {"/amd64", false}, {"linux/", false}, {"linux/arm/v7", false}, {"", false}} {
		p, err := ParsePlatform(c.text)
		if (err == nil) != c.ok || c.ok && p.String() != c.text {
			t.Errorf("%q: got %v, %v", c.text, p, err)
		}
	}
}

// TestRefusesWhatNeedsALoader: a program that was linked with a C library.
func TestRefusesWhatNeedsALoader(t *testing.T) {
	shell, err := exec.LookPath("sh")
	if err != nil {
		t.Fatal(err)
	}
	if err := static(shell); err == nil || !strings.Contains(err.Error(), "want a static binary") {
		t.Errorf("%s: got %v, want it refused", shell, err)
	}
}
