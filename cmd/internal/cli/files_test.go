package cli

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// TestFilesWithObjectsArePrivate makes each file, also over one that everybody may read.
func TestFilesWithObjectsArePrivate(t *testing.T) {
	for name, create := range map[string]func(file string) error{
		"decision log": func(file string) error {
			log, err := openDecisionLog(file, nil)
			if err != nil {
				return err
			}
			return log.Close()
		},
		"decisions of a simulation": func(file string) error {
			log, err := createDecisionLog(file, nil)
			if err != nil {
				return err
			}
			return log.Close()
		},
		"record": func(file string) error {
			_, end, err := Recording{Record: file}.start(context.Background(), prometheus.NewRegistry())
			if err != nil {
				return err
			}
			return end()
		},
		"objects of a simulation": func(file string) error { return writeObjects(file, &Input{}) },
	} {
		for _, before := range []bool{false, true} {
			file := filepath.Join(t.TempDir(), "file")
			if before {
				if err := os.WriteFile(file, nil, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if err := create(file); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			info, err := os.Stat(file)
			if err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("%s, there before %v: want mode 0600, got %v, %v", name, before, info.Mode(), err)
			}
		}
	}
}
