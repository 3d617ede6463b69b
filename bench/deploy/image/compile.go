package image

import (
	"bytes"
	"context"
	"debug/elf"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// SlimTag is the build tag that leaves the etcd server out.
const SlimTag = "noetcd"

// Platform is what a binary runs on, in Go's words.
type Platform struct{ OS, Arch string }

// String is "linux/amd64".
func (p Platform) String() string { return p.OS + "/" + p.Arch }

// ParsePlatform reads "linux/amd64".
func ParsePlatform(s string) (Platform, error) {
	system, arch, ok := strings.Cut(s, "/")
	if !ok || system == "" || arch == "" || strings.Contains(arch, "/") {
		return Platform{}, fmt.Errorf("platform %q: want OS/ARCHITECTURE, as in linux/amd64", s)
	}
	return Platform{OS: system, Arch: arch}, nil
}

// Source is the commit that binaries are made of.
type Source struct {
	// Root is the top of the repository.
	Root     string
	Revision string
	// Time is the commit's. Everything that is built carries it, so that a second build is equal to the first.
	Time time.Time
	// Dirty tells that files differ from the commit's.
	Dirty bool
	// Tags point at the commit.
	Tags []string
}

// Open reads which commit a repository is at.
func Open(ctx context.Context, root string) (*Source, error) {
	s := &Source{}
	var err error
	if s.Root, err = filepath.Abs(root); err != nil {
		return nil, err
	}
	if info, err := os.Lstat(filepath.Join(s.Root, ".git")); err != nil || !info.IsDir() {
		return nil, fmt.Errorf("%s: want a clone with a folder .git, for Go records the commit of no other (%v)", s.Root, err)
	}
	head, err := s.git(ctx, "show", "--no-patch", "--format=%H %ct", "HEAD")
	if err != nil {
		return nil, err
	}
	revision, at, _ := strings.Cut(head, " ")
	seconds, err := strconv.ParseInt(at, 10, 64)
	if err != nil {
		return nil, fmt.Errorf("time of commit %s: %w", revision, err)
	}
	s.Revision, s.Time = revision, time.Unix(seconds, 0).UTC()
	changed, err := s.git(ctx, "status", "--porcelain")
	if err != nil {
		return nil, err
	}
	s.Dirty = changed != ""
	tags, err := s.git(ctx, "tag", "--points-at", "HEAD")
	s.Tags = strings.Fields(tags)
	return s, err
}

// Files are the tracked files below a folder, with their paths from the top of the repository.
func (s *Source) Files(ctx context.Context, folder string) ([]string, error) {
	list, err := s.git(ctx, "ls-files", "--", folder)
	return strings.Fields(list), err
}

func (s *Source) git(ctx context.Context, args ...string) (string, error) {
	c := exec.CommandContext(ctx, "git", args...)
	c.Dir = s.Root
	return output(c)
}

// output is what a command prints, without the newline at its end.
func output(c *exec.Cmd) (string, error) {
	var said bytes.Buffer
	c.Stderr = &said
	out, err := c.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w\n%s", strings.Join(c.Args, " "), err, said.Bytes())
	}
	return strings.TrimSpace(string(out)), nil
}

// Compile makes the static binary (ELF) of a commit for one platform. It records the commit, and the paths of no machine.
func (s *Source) Compile(ctx context.Context, out string, p Platform, tags ...string) error {
	c := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=true", "-ldflags=-s -w", "-tags", strings.Join(tags, ","),
		"-o", out, "./cmd/shardsched")
	c.Dir = s.Root
	c.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+p.OS, "GOARCH="+p.Arch, "GOAMD64=v1", "GOARM64=v8.0", "GOFLAGS=-mod=readonly")
	if _, err := output(c); err != nil {
		return err
	}
	return static(out)
}

// static refuses a binary that needs a loader or a library: an image has neither.
func static(file string) error {
	f, err := elf.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	libraries, err := f.ImportedLibraries()
	if err != nil {
		return err
	}
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP || len(libraries) > 0 {
			return fmt.Errorf("%s: want a static binary, got one with a loader or with libraries %q", file, libraries)
		}
	}
	return nil
}
