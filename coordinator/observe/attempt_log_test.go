package observe

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

func TestTheLogTellsOfAPodOnceAMinute(t *testing.T) {
	var l limiter
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for i, x := range []struct {
		after   time.Duration
		pod     types.UID
		leftOut int
		tell    bool
	}{
		{0, "a", 0, true},
		{10 * time.Second, "a", 0, false},
		{20 * time.Second, "a", 0, false},
		{20 * time.Second, "b", 2, true},
		{59 * time.Second, "a", 0, false},
		{time.Minute, "a", 1, true},
	} {
		if leftOut, tell := l.next(x.pod, now.Add(x.after)); leftOut != x.leftOut || tell != x.tell {
			t.Errorf("line %d: got %d, %t; want %d, %t", i, leftOut, tell, x.leftOut, x.tell)
		}
	}
}

// However many pods fail, the log tells of so many a second, and what it remembers is bounded.
func TestTheLogIsBounded(t *testing.T) {
	var l limiter
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	lines, leftOut, most := 0, 0, 0
	for second := range 600 {
		for i := range 100 {
			now := start.Add(time.Duration(second)*time.Second + time.Duration(i)*10*time.Millisecond)
			if n, tell := l.next(types.UID(fmt.Sprint(second, i)), now); tell {
				lines, leftOut = lines+1, leftOut+n
			}
		}
		most = max(most, len(l.told))
	}
	if want := 600 * refusalsASecond; lines != want {
		t.Errorf("got %d lines, want %d", lines, want)
	}
	if leftOut += l.leftOut; lines+leftOut != 60000 {
		t.Errorf("got %d lines and %d left out, want all of 60,000 counted", lines, leftOut)
	}
	if most > refusedPods || most < refusedPods/2 {
		t.Errorf("got %d pods remembered at the most, want the bound of %d to be reached and kept", most, refusedPods)
	}
}
