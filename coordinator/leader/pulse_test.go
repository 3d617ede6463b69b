package leader

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"

	"github.com/shardsched/shardsched/coordinator/observe"
)

// The figures are those of the minute, and there is no line where nothing happens.
func TestALineAMinute(t *testing.T) {
	var lines []string
	log := funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{})
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	p := pulse{now: func() time.Time { return now }}
	for _, x := range []observe.Pulse{
		{},
		{Decided: 312, Bound: 310, Pending: 43, Oldest: now.Add(-12 * time.Minute)},
		{Decided: 312, Bound: 310, Pending: 43, Oldest: now.Add(-13 * time.Minute)},
		{Decided: 355, Bound: 353},
		{Decided: 355, Bound: 353},
	} {
		p.tell(log, &x)
	}
	want := []string{
		`"decided"=312 "bound"=310 "pending"=43 "oldest"="12m"`,
		`"decided"=0 "bound"=0 "pending"=43 "oldest"="13m"`,
		`"decided"=43 "bound"=43 "pending"=0`,
	}
	if !slices.EqualFunc(lines, want, strings.HasSuffix) {
		t.Errorf("got\n%s\nwant lines that end with\n%s", strings.Join(lines, "\n"), strings.Join(want, "\n"))
	}
}
