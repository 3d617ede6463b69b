package config

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// The numbers are upstream's own, of numFeasibleNodesToFind.
func TestNodesToFindAreUpstreams(t *testing.T) {
	load := func(percent string) *Config {
		file := filepath.Join(t.TempDir(), "config.yaml")
		text := "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n" + percent +
			"profiles:\n- schedulerName: default-scheduler\n- schedulerName: own\n  percentageOfNodesToScore: 40\n"
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		c, err := ReaderFor(nil).Load(file)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	for _, test := range []struct {
		percent, profile string
		nodes, want      int
	}{
		{"", "default-scheduler", 10, 10}, {"", "default-scheduler", 99, 99}, {"", "default-scheduler", 100, 100},
		{"", "default-scheduler", 1000, 420}, {"", "default-scheduler", 6000, 300}, {"", "nobody", 6000, 300},
		{"percentageOfNodesToScore: 40\n", "default-scheduler", 100, 100}, {"percentageOfNodesToScore: 40\n", "default-scheduler", 1000, 400},
		{"percentageOfNodesToScore: 100\n", "default-scheduler", 1000, 1000}, {"percentageOfNodesToScore: 100\n", "own", 1000, 400},
	} {
		if got := load(test.percent).NodesToFind(test.profile, test.nodes); got != test.want {
			t.Errorf("%s: %d of %d nodes, want %d", fmt.Sprint(test.percent, test.profile), got, test.nodes, test.want)
		}
	}
}
