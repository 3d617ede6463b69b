package configs

import (
	"flag"
	"testing"

	"github.com/shardsched/shardsched/coordinator/config"
)

// TestRandom holds files that are made up against kube-scheduler. The same seed makes the same
// files; -seed and -files choose others, and more of them.
func TestRandom(t *testing.T) {
	u, err := newUpstream()
	if err != nil {
		t.Fatal(err)
	}
	good := 0
	for n := range *files {
		text := newGenerator(*seed, n).file()
		ours, err := config.Parse("file", []byte(text))
		if diff := u.compare(t.Context(), ours, err, u.load(t.Context(), []byte(text))); diff != nil {
			t.Fatalf("-seed %d, file %d: %v\nthe file:\n%s", *seed, n, diff, text)
		}
		if err == nil {
			good++
			if reload(t, ours); t.Failed() {
				t.Fatalf("-seed %d, file %d:\n%s", *seed, n, text)
			}
		}
	}
	t.Logf("%d files, %d of them good", *files, good)
	if n := *files; n >= 1000 && (uint64(good) < n/4 || uint64(good) > n*9/10) {
		t.Errorf("got %d good files of %d: want between a quarter and nine tenths", good, n)
	}
}

var (
	seed  = flag.Uint64("seed", 1, "seed of the files that are made up")
	files = flag.Uint64("files", 2000, "how many to make up")
)
