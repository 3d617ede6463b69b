package cli

import (
	"testing"
	"unicode"

	"github.com/shardsched/shardsched/cmd/internal/summary"
)

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
