package image

import (
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// Archive writes the files of a folder as a tar, in the order of their paths, below a folder of the given name; "": at its top.
func Archive(out io.Writer, dir, name string, at time.Time) error {
	var files []entry
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		files = append(files, entry{filepath.ToSlash(filepath.Join(name, rel)), 0o644, content})
		return nil
	})
	if err != nil {
		return err
	}
	return writeTar(out, at, files...)
}
