package manifest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// stdinName is how standard input is named in paths and in messages.
const stdinName = "-"

// source is one file's text.
type source struct {
	name  string
	text  []byte
	named bool // by the caller, and not found in a folder
}

// open reads everything that the paths stand for, in the order given, folders
// in the order of their files' names.
func open(paths []string, o Options) ([]source, error) {
	var sources []source
	left := o.MaxBytes
	for _, path := range paths {
		files, err := files(path)
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			s, err := load(file, o, left)
			if err != nil {
				return nil, err
			}
			left -= int64(len(s.text))
			s.named = file == path
			sources = append(sources, s)
		}
	}
	return sources, nil
}

// load reads one file, of which at most left bytes may be taken.
func load(file string, o Options, left int64) (source, error) {
	in, name := o.Stdin, "standard input"
	if file != stdinName {
		f, err := os.Open(file)
		if err != nil {
			return source{}, pathError(file, err)
		}
		defer f.Close()
		in, name = f, file
	}
	if in == nil {
		return source{}, &Error{Position: Position{File: name}, Problem: "there is none"}
	}
	text, err := io.ReadAll(io.LimitReader(in, left+1))
	if err != nil {
		return source{}, pathError(name, err)
	}
	if int64(len(text)) > left {
		return source{}, &Error{Position: Position{File: name},
			Problem: fmt.Sprintf("the input is too large: at most %d bytes are read at once", o.MaxBytes)}
	}
	return source{name: name, text: bytes.TrimPrefix(text, []byte("\xef\xbb\xbf"))}, nil
}

// files lists the file itself, or the YAML and JSON files of a folder and of the
// folders below it. Links to files are followed, as a mounted ConfigMap has them;
// links to folders are not.
func files(path string) ([]string, error) {
	if path == stdinName {
		return []string{path}, nil
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, pathError(path, err)
	}
	if !info.IsDir() {
		return []string{path}, nil
	}
	var found []string
	err = filepath.WalkDir(path+string(filepath.Separator), func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if p = filepath.Clean(p); wanted(p, d) {
			found = append(found, p)
		}
		return nil
	})
	if err != nil {
		return nil, pathError(path, err)
	}
	if len(found) == 0 {
		return nil, &Error{Position: Position{File: path}, Problem: "the folder holds no *.yaml, *.yml or *.json file"}
	}
	return found, nil
}

func wanted(path string, d fs.DirEntry) bool {
	if !slices.Contains([]string{".yaml", ".yml", ".json"}, strings.ToLower(filepath.Ext(path))) {
		return false
	}
	if d.Type()&fs.ModeSymlink != 0 {
		info, err := os.Stat(path)
		return err == nil && info.Mode().IsRegular()
	}
	return d.Type().IsRegular()
}

func pathError(path string, err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		err = pe.Err
	}
	return &Error{Position: Position{File: path}, Problem: err.Error()}
}
