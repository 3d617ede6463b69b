package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/shardsched/shardsched/bench/deploy/image"
)

// repository is where the source is.
const repository = "https://github.com/shardsched/shardsched"

// variant is the plain image, or the slim one.
type variant struct {
	suffix string // of its tag
	tags   []string
}

var variants = []variant{{}, {suffix: "-slim", tags: []string{image.SlimTag}}}

// binaryName is the file of a release that holds a variant's binary for a platform.
func (v variant) binaryName(p image.Platform) string {
	return strings.Join([]string{"shardsched" + v.suffix, p.OS, p.Arch}, "-")
}

// compile makes a variant's binaries in a folder.
func (v variant) compile(ctx context.Context, s *image.Source, dir string, platforms []image.Platform) (files []image.File, err error) {
	for _, p := range platforms {
		f := image.File{Platform: p, Path: filepath.Join(dir, v.binaryName(p))}
		if err := s.Compile(ctx, f.Path, p, v.tags...); err != nil {
			return nil, err
		}
		files = append(files, f)
	}
	return files, nil
}

// indexOf is a variant's images.
func (v variant) indexOf(s *image.Source, version string, files []image.File) (v1.ImageIndex, error) {
	return image.Index(image.Labels{Version: version + v.suffix, Revision: s.Revision, Source: repository, Created: s.Time}, files...)
}

// buildImages makes images of the commit, tagged with the version or, without one, the commit.
func buildImages(ctx context.Context, s *image.Source, out, push string, platforms []image.Platform) error {
	if out == "" && push == "" {
		return errors.New("want -out, -push or both")
	}
	version := s.Revision[:12]
	if len(s.Tags) > 0 {
		version = s.Tags[0]
	}
	if s.Dirty {
		version += "-dirty"
	}
	dir, err := os.MkdirTemp("", "shardsched-image-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	for _, v := range variants {
		files, err := v.compile(ctx, s, dir, platforms)
		if err != nil {
			return err
		}
		index, err := v.indexOf(s, version, files)
		if err != nil {
			return err
		}
		digest, err := index.Digest()
		if err != nil {
			return err
		}
		if out != "" {
			if err := image.Save(out, version+v.suffix, index); err != nil {
				return err
			}
			fmt.Printf("%s %s in %s\n", digest, version+v.suffix, out)
		}
		if push != "" {
			if err := image.Push(ctx, push+v.suffix, index); err != nil {
				return fmt.Errorf("push %s: %w", push+v.suffix, err)
			}
			fmt.Printf("%s %s\n", digest, push+v.suffix)
		}
	}
	return nil
}
