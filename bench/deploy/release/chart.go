package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/shardsched/shardsched/bench/deploy/image"
)

const chartFolder = "deploy/chart/"

// versionLine is a line of Chart.yaml that says the chart's version, or the program's.
var versionLine = regexp.MustCompile(`(?m)^(version|appVersion):.*$`)

// packChart makes the tar of a chart, as helm takes it, of files that are given from the top of the repository. Helm's own
// packaging writes the time of the day into it.
func packChart(root string, files []string, version string, at time.Time) ([]byte, error) {
	if len(files) == 0 {
		return nil, errors.New(chartFolder + ": want a chart, got no tracked file")
	}
	dir, err := os.MkdirTemp("", "shardsched-chart-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	for _, f := range files {
		text, err := os.ReadFile(filepath.Join(root, f))
		if err != nil {
			return nil, err
		}
		name := strings.TrimPrefix(f, chartFolder)
		if name == "Chart.yaml" {
			if text, err = setVersion(text, version); err != nil {
				return nil, fmt.Errorf("%s: %w", f, err)
			}
		}
		to := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return nil, err
		}
		if err := os.WriteFile(to, text, 0o644); err != nil {
			return nil, err
		}
	}
	var out bytes.Buffer
	err = image.Archive(&out, dir, "shardsched", at)
	return out.Bytes(), err
}

// setVersion puts a version into Chart.yaml: the chart's as it is, the program's with its v, for it is the tag of the image.
func setVersion(text []byte, version string) ([]byte, error) {
	if n := len(versionLine.FindAll(text, -1)); n != 2 {
		return nil, fmt.Errorf("want one line version: and one appVersion:, got %d", n)
	}
	return versionLine.ReplaceAllFunc(text, func(line []byte) []byte {
		key, _, _ := strings.Cut(string(line), ":")
		if key == "appVersion" {
			return []byte(`appVersion: "v` + version + `"`)
		}
		return []byte("version: " + version)
	}), nil
}
