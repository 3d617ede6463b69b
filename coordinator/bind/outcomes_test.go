package bind

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"

	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/internal/testkit/build"
)

// A policy that refuses every bind is told of at once and then now and then, with how many it
// were, and not for each pod.
func TestTheLogTellsThatBindsFail(t *testing.T) {
	var lines []string
	logger := funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{})
	job := &Job{Binding: objects.Binding{Pod: build.Pod("p").Obj(), Node: "n"}}
	var b FailureLog
	now := time.Unix(1000, 0)
	for range 1000 {
		b.Note(logger, job, errors.New("denied: 100%s"), now)
		now = now.Add(failureLogEvery / 500)
	}
	if len(lines) != 2 {
		t.Fatalf("got %d lines, want 2: %q", len(lines), lines)
	}
	for i, want := range []string{`"failures"=1`, `"failures"=500`} {
		if !strings.Contains(lines[i], want) || !strings.Contains(lines[i], `denied: 100%s`) {
			t.Errorf("line %d: got %s, want it with %s and the cause", i, lines[i], want)
		}
	}
}
