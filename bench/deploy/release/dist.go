package main

import (
	"compress/gzip"
	"context"
	"crypto/sha256"
	"debug/buildinfo"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/shardsched/shardsched/bench/deploy/image"
	"github.com/shardsched/shardsched/bench/deploy/sbom"
)

// govulncheck is the tool that looks for known vulnerabilities, at the version that releases are checked with.
const govulncheck = "golang.org/x/vuln/cmd/govulncheck@v1.9.0"

var versionForm = regexp.MustCompile(`^v(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?$`)

// release is one that is being made.
type release struct {
	version, out string
	database     string // URL; empty: govulncheck is not run
	source       *image.Source
	log          io.Writer
	binaries     []image.File // of all variants
}

// make refuses what is no release, or makes all of its files. Nothing is left of one that could not be finished.
func (r *release) make(ctx context.Context) (err error) {
	notes, err := r.check(ctx)
	if err != nil {
		return err
	}
	if err := os.Mkdir(r.out, 0o755); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			os.RemoveAll(r.out)
		}
	}()
	if err := r.images(ctx); err != nil {
		return err
	}
	if err := r.chart(ctx); err != nil {
		return err
	}
	if err := r.bill(ctx); err != nil {
		return err
	}
	found, err := r.vulnerabilities(ctx)
	if err != nil {
		return err
	}
	if err := r.write("NOTES.md", []byte(notes+"\n\n"+found)); err != nil {
		return err
	}
	licence, err := os.ReadFile(filepath.Join(r.source.Root, "LICENSE"))
	if err != nil {
		return err
	}
	if err := r.write("LICENSE", licence); err != nil {
		return err
	}
	return r.sums()
}

// check refuses what is no release, and returns what CHANGELOG.md says of it.
func (r *release) check(ctx context.Context) (notes string, err error) {
	if !versionForm.MatchString(r.version) {
		return "", fmt.Errorf("version %q: want v and three numbers, as in v1.2.3 or v1.2.3-rc.1", r.version)
	}
	text, err := os.ReadFile(filepath.Join(r.source.Root, "CHANGELOG.md"))
	if err != nil {
		return "", err
	}
	if notes = section(string(text), r.version); notes == "" {
		return "", fmt.Errorf("CHANGELOG.md: want a heading \"## %s, YEAR-MONTH-DAY\" with text below it, got none", r.version)
	}
	for _, folder := range golden {
		file := filepath.Join(folder, r.version+".*")
		if list, err := r.source.Files(ctx, file); err != nil || len(list) == 0 {
			return "", fmt.Errorf("%s: want what this release stores, got no file (%v): make golden VERSION=%s", file, err, r.version)
		}
	}
	if r.source.Dirty {
		return "", fmt.Errorf("%s: files differ from commit %s; git status names them", r.source.Root, r.source.Revision)
	}
	if !slices.Contains(r.source.Tags, r.version) {
		return "", fmt.Errorf("commit %s: want the tag %s, got %q: git tag -s %s", r.source.Revision, r.version, r.source.Tags, r.version)
	}
	return notes, nil
}

// golden are the folders with what each release stores.
var golden = []string{"coordinator/record/testdata/stored", "coordinator/standalone/store/testdata/stored"}

// section is what stands below the heading of a version, with a date, in a changelog; empty: there is no such heading, or nothing below it.
func section(changelog, version string) string {
	var out []string
	within := false
	for line := range strings.Lines(changelog) {
		if heading, ok := strings.CutPrefix(line, "## "); ok {
			name, date, _ := strings.Cut(strings.TrimSpace(heading), ", ")
			_, err := time.Parse(time.DateOnly, date)
			within = name == version && err == nil
			continue
		}
		if within {
			out = append(out, line)
		}
	}
	return strings.TrimSpace(strings.Join(out, ""))
}

// images makes the binaries, and the images of them as one OCI layout.
func (r *release) images(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "shardsched-release-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	for _, v := range variants {
		files, err := v.compile(ctx, r.source, r.out, []image.Platform{{OS: "linux", Arch: "amd64"}, {OS: "linux", Arch: "arm64"}})
		if err != nil {
			return err
		}
		for _, f := range files {
			if err := r.checkBinary(f.Path); err != nil {
				return err
			}
		}
		index, err := v.indexOf(r.source, r.version, files)
		if err != nil {
			return err
		}
		if err := image.Save(dir, r.version+v.suffix, index); err != nil {
			return err
		}
		digest, err := index.Digest()
		if err != nil {
			return err
		}
		fmt.Fprintf(r.log, "image %s%s: %s\n", r.version, v.suffix, digest)
		r.binaries = append(r.binaries, files...)
	}
	return r.create("images.tar", func(out io.Writer) error { return image.Archive(out, dir, "", r.source.Time) })
}

// checkBinary holds what a binary says of itself to the release.
func (r *release) checkBinary(file string) error {
	info, err := buildinfo.ReadFile(file)
	if err != nil {
		return err
	}
	if info.Main.Version != r.version {
		return fmt.Errorf("%s says that it is %s, want %s", file, info.Main.Version, r.version)
	}
	return nil
}

// chart packages the Helm chart under the release's version.
func (r *release) chart(ctx context.Context) error {
	files, err := r.source.Files(ctx, "deploy/chart")
	if err != nil {
		return err
	}
	version := strings.TrimPrefix(r.version, "v")
	packed, err := packChart(r.source.Root, files, version, r.source.Time)
	if err != nil {
		return err
	}
	return r.create("shardsched-"+version+".tgz", func(out io.Writer) error {
		z := gzip.NewWriter(out)
		if _, err := z.Write(packed); err != nil {
			return err
		}
		return z.Close()
	})
}

// bill writes what each binary is made of.
func (r *release) bill(ctx context.Context) error {
	licences, err := sbom.Licences(ctx, r.source.Root)
	if err != nil {
		return err
	}
	for _, b := range r.binaries {
		bom, err := sbom.Of(b.Path, r.source.Time, licences)
		if err != nil {
			return err
		}
		text, err := bom.JSON()
		if err != nil {
			return err
		}
		if err := r.write(filepath.Base(b.Path)+".cdx.json", text); err != nil {
			return err
		}
	}
	return nil
}

// vulnerabilities says, for the notes, what govulncheck finds. A release that has known ones is none.
func (r *release) vulnerabilities(ctx context.Context) (string, error) {
	const heading = "## Known vulnerabilities\n\n"
	if r.database == "" {
		fmt.Fprintln(r.log, "govulncheck: NOT RUN: no database was given (GOVULNDB)")
		return heading + "Not looked for: govulncheck was not run, for there was no database.\n", nil
	}
	for _, b := range r.binaries {
		c := exec.CommandContext(ctx, "go", "run", govulncheck, "-mode", "binary", "-db", r.database, b.Path)
		out, err := c.CombinedOutput()
		if err != nil {
			return "", fmt.Errorf("govulncheck of %s: %w\n%s", b.Path, err, out)
		}
	}
	fmt.Fprintf(r.log, "govulncheck: none found in %d binaries\n", len(r.binaries))
	return heading + "None: " + govulncheck + " has found none in any binary, by the database of the day of the release.\n", nil
}

// sums writes the SHA-256 of all files, in the form of sha256sum.
func (r *release) sums() error {
	files, err := os.ReadDir(r.out)
	if err != nil {
		return err
	}
	var text strings.Builder
	for _, f := range files { // sorted
		content, err := os.ReadFile(filepath.Join(r.out, f.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(&text, "%x  %s\n", sha256.Sum256(content), f.Name())
		fmt.Fprintf(r.log, "%9d  %s\n", len(content), f.Name())
	}
	return r.write("SHA256SUMS", []byte(text.String()))
}

func (r *release) write(name string, content []byte) error {
	return os.WriteFile(filepath.Join(r.out, name), content, 0o644)
}

func (r *release) create(name string, fill func(io.Writer) error) error {
	f, err := os.Create(filepath.Join(r.out, name))
	if err != nil {
		return err
	}
	if err := fill(f); err != nil {
		f.Close()
		return fmt.Errorf("%s: %w", name, err)
	}
	return f.Close()
}
