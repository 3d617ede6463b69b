package cli

import (
	"testing"
	"unicode"

	v1 "k8s.io/api/core/v1"

	"github.com/shardsched/shardsched/cmd/internal/summary"
	"github.com/shardsched/shardsched/internal/testkit/build"
)

func TestProgressIsOfPodsThatWait(t *testing.T) {
	pods := []*v1.Pod{build.Pod("a").Obj(), build.Pod("b").Node("n").Obj(), build.Pod("c").Phase(v1.PodFailed).Obj(), build.Pod("d").Gate("g").Obj()}
	if got := waiting(pods); got != 2 {
		t.Errorf("got %d, want 2: one is on a node, one has ended", got)
	}
}

// TestThemesNeedNoSpecialFont refuses characters of the private use area, which are boxes in
// most fonts.
func TestThemesNeedNoSpecialFont(t *testing.T) {
	for _, style := range []summary.Style{{Unicode: true}, {Unicode: false}} {
		theme := theme(style)
		for _, part := range []string{theme.Saucer, theme.AltSaucerHead, theme.SaucerHead, theme.SaucerPadding, theme.BarStart, theme.BarStartFilled, theme.BarEnd, theme.BarEndFilled} {
			for _, r := range part {
				if unicode.Is(unicode.Co, r) || !style.Unicode && r > unicode.MaxASCII {
					t.Errorf("unicode %v: got %U in the bar, want what any font has", style.Unicode, r)
				}
			}
		}
	}
}
