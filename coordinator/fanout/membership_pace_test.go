package fanout

import (
	"testing"
	"time"
)

func TestChangesOfMembersAreToldOnceASecond(t *testing.T) {
	var r registrations
	for i := range tellAtOnce {
		if got := r.wait(at(0)); got != 0 {
			t.Fatalf("change %d is told after %v, want at once", i, got)
		}
	}
	if got := r.wait(at(0)); got != time.Second {
		t.Errorf("one more is told after %v, want a second", got)
	}
	if got := r.wait(at(3 * time.Second / 2)); got != time.Second/2 {
		t.Errorf("the next is told after %v, want the rest of its second", got)
	}
	for i := range tellAtOnce {
		if got := r.wait(at(time.Hour)); got != 0 {
			t.Fatalf("an hour later, change %d is told after %v, want at once", i, got)
		}
	}
}
