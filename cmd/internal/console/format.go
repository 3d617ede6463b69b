package console

import (
	"fmt"
	"math"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/shardsched/shardsched/cmd/internal/summary"
)

// count writes a number with commas between thousands.
func count[N uint32 | uint64 | int | int64](n N) string {
	if n < 0 {
		return "-" + summary.Count(uint64(-n))
	}
	return summary.Count(uint64(n))
}

// plural is a count with its noun.
func plural[N uint32 | uint64 | int | int64](n N, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return count(n) + " " + noun + "s"
}

// took is a duration with three digits; a dash where there is none.
func took(d *durationpb.Duration) string {
	if d == nil {
		return "–"
	}
	return summary.Duration(d.AsDuration())
}

// brief is a duration with three digits.
func brief(d time.Duration) string { return summary.Duration(d) }

// quantity is an amount of a resource in its unit, thousandths for cpu, as people read it.
func quantity(resource string, n int64) string { return summary.Amount(resource, n) }

// percent is a share of a whole; a dash where the whole is nothing.
func percent(part, whole float64) string {
	if whole == 0 || math.IsNaN(part/whole) {
		return "–"
	}
	share := 100 * part / whole
	if share > 0 && share < 1 {
		return "<1 %"
	}
	return fmt.Sprintf("%.0f %%", share)
}

// rate is a number a second.
func rate(perSecond float64) string {
	switch {
	case math.IsNaN(perSecond) || perSecond <= 0:
		return "0"
	case perSecond < 10:
		return fmt.Sprintf("%.1f", perSecond)
	}
	return count(uint64(perSecond + 0.5))
}

// clock is a moment of today, or a date with it.
func (v *visit) clock(t time.Time) string {
	t = t.In(v.now.Location())
	if y, m, d := t.Date(); func() bool { ny, nm, nd := v.now.Date(); return y == ny && m == nm && d == nd }() {
		return t.Format("15:04:05")
	}
	return t.Format("2006-01-02 15:04:05")
}
