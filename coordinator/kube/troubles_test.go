package kube

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/shardsched/shardsched/coordinator/objects"
)

// A trouble that lasts must not be remembered in as many words as it came in: a connection that
// is reset names its port.
func TestTroubleOfManyWordsIsNotRememberedForEver(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(time.Unix(0, 0))
	x := newTroubles(clock)
	lines := 0
	x.logTo(funcr.New(func(string, string) { lines++ }, funcr.Options{}))
	for port := range 10_000 {
		x.note(objects.KindPod, &url.Error{Op: "Get", URL: "https://api/pods", Err: fmt.Errorf("read tcp 10.0.0.1:%d: connection reset by peer", port)})
		clock.SetTime(clock.Now().Add(time.Second))
	}
	if got := len(x.logged); got > maxLogged {
		t.Errorf("remembered: got %d lines, want %d at the most", got, maxLogged)
	}
	if lines == 0 {
		t.Error("lines logged: got none, want some")
	}
}

func TestTroubleIsToldOnceAMinuteAndItsEndOnce(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(time.Unix(0, 0))
	x := newTroubles(clock)
	var lines []string
	x.logTo(funcr.New(func(_, line string) { lines = append(lines, line) }, funcr.Options{}))
	refused := func(k objects.Kind) error {
		return fmt.Errorf("failed to list: %w", &url.Error{Op: "Get", URL: "https://api/" + k.Plural(), Err: errors.New("connection refused")})
	}
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "", errors.New("no"))
	step := func(after time.Duration, what string, want string, f func()) {
		t.Helper()
		clock.SetTime(clock.Now().Add(after))
		lines = nil
		f()
		if got := strings.Join(lines, "\n"); !strings.Contains(got, want) || want == "" && got != "" || len(lines) > 1 {
			t.Errorf("%s: got %q, want one line with %q, or none", what, got, want)
		}
	}
	all := func(f func(objects.Kind)) func() {
		return func() {
			for _, k := range objects.Kinds() {
				f(k)
			}
		}
	}
	step(0, "the API server is away", "connection refused", all(func(k objects.Kind) { x.note(k, refused(k)) }))
	step(time.Second, "still", "", all(func(k objects.Kind) { x.note(k, refused(k)) }))
	step(time.Minute, "a minute later", fmt.Sprintf(`"times"=%d`, 2*len(objects.Kinds())), all(func(k objects.Kind) { x.note(k, refused(k)) }))
	step(time.Second, "it answers", `"after"="1m2s"`, all(x.over))
	step(0, "nothing more", "", all(x.over))
	step(0, "forbidden for a moment", "", func() { x.note(objects.KindPod, forbidden) })
	if got := x.of(objects.KindPod); got == nil || !strings.Contains(got.Error(), "pods is forbidden") {
		t.Errorf("why pods are not there: got %v, want that they are forbidden", got)
	}
	step(0, "and allowed", "", func() { x.over(objects.KindPod) })
	step(0, "forbidden", "", func() { x.note(objects.KindPod, forbidden) })
	step(4*time.Second, "for longer", "Not allowed", func() { x.note(objects.KindPod, forbidden) })
	step(0, "and allowed", "again", func() { x.over(objects.KindPod) })
	if got := x.of(objects.KindPod); got != nil {
		t.Errorf("got %v, want no trouble", got)
	}
}
