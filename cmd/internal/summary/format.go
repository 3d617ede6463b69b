package summary

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// pad fills up on the right, left on the left.
func pad(s string, width int) string  { return s + strings.Repeat(" ", room(s, width)) }
func left(s string, width int) string { return strings.Repeat(" ", room(s, width)) + s }

func room(s string, width int) int { return max(0, width-utf8.RuneCountInString(s)) }

// clip shortens a text that does not fit.
func clip(s string, width int) string {
	if utf8.RuneCountInString(s) <= width {
		return s
	}
	return string([]rune(s)[:width-3]) + "..."
}

// Count writes a number with commas between thousands.
func Count(n uint64) string { return count(n) }

// Duration writes a time with three significant digits.
func Duration(d time.Duration) string { return (&page{}).duration(durationpb.New(d)) }

func count(n uint64) string {
	digits := strconv.FormatUint(n, 10)
	var b strings.Builder
	for i, d := range digits {
		if i > 0 && (len(digits)-i)%3 == 0 {
			b.WriteByte(',')
		}
		b.WriteRune(d)
	}
	return b.String()
}

func plural(n uint64, noun string) string {
	switch {
	case n == 1:
		return "1 " + noun
	case strings.HasSuffix(noun, "s"):
		return count(n) + " " + noun + "es"
	}
	return count(n) + " " + noun + "s"
}

func rate(perSecond float64) string {
	if math.IsNaN(perSecond) || math.IsInf(perSecond, 0) || perSecond <= 0 {
		return "-"
	}
	if perSecond < 10 {
		return three(perSecond)
	}
	return count(uint64(perSecond + 0.5))
}

func ratio(part, whole uint64) float64 {
	if whole == 0 {
		return 0
	}
	return float64(part) / float64(whole)
}

// percent takes five columns.
func percent(share float64) string { return fmt.Sprintf("%3.0f %%", share*100) }

// duration has three significant digits.
func (p *page) duration(x *durationpb.Duration) string {
	d := x.AsDuration()
	switch {
	case d < time.Microsecond:
		return fmt.Sprintf("%d ns", d.Nanoseconds())
	case d < time.Millisecond:
		return three(float64(d)/1e3) + p.choose(" µs", " us")
	case d < time.Second:
		return three(float64(d)/1e6) + " ms"
	case d < 10*time.Minute:
		return three(d.Seconds()) + " s"
	}
	return d.Round(time.Second).String()
}

func three(v float64) string {
	switch {
	case v < 9.995:
		return fmt.Sprintf("%.2f", v)
	case v < 99.95:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.0f", v)
}

// amounts writes requested of allocatable in the resource's unit.
func amounts(u *pb.Utilisation) string {
	write := func(n int64) string { return count(uint64(max(n, 0))) }
	unit := ""
	switch r := u.GetResource(); {
	case r == "cpu":
		write = func(n int64) string { return count(uint64(max(n, 0)+500) / 1000) }
		unit = " cores"
	case inBytes(r):
		write = bytes
	}
	return fmt.Sprintf("%s of %s%s", write(u.GetRequested()), write(u.GetAllocatable()), unit)
}

// Amount writes an amount of a resource in its unit, thousandths for cpu.
func Amount(resource string, n int64) string {
	switch {
	case n < 0:
		return "-" + Amount(resource, -n)
	case resource == "cpu" && n%1000 != 0 && n < 100_000:
		return strconv.FormatFloat(float64(n)/1000, 'f', -1, 64)
	case resource == "cpu":
		return count(uint64(n+500) / 1000)
	case inBytes(resource):
		return bytes(n)
	}
	return count(uint64(n))
}

func inBytes(resource string) bool {
	return resource == "memory" || resource == "ephemeral-storage" || strings.HasPrefix(resource, "hugepages-")
}

func bytes(n int64) string {
	v, units := float64(max(n, 0)), []string{"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"}
	i := 0
	for v >= 1024 && i < len(units)-1 {
		v /= 1024
		i++
	}
	if i == 0 {
		return fmt.Sprintf("%.0f B", v)
	}
	return three(v) + " " + units[i]
}
