package kube

import (
	"bytes"
	"fmt"
	"testing"
)

// A pool holds no more bytes than its bound, whatever it is asked for, and parts that were dropped are
// as good as before.
func TestPoolsAreBoundedInBytes(t *testing.T) {
	p := newPool[string](sharedParts)
	for i := range 3000 {
		key := append(bytes.Repeat([]byte("x"), largestShared-10), fmt.Sprintf("%010d", i)...)
		part := fmt.Sprint(i)
		if got := p.get(key, part); got != part {
			t.Fatalf("part %d: got %q", i, got)
		}
		if got := p.get(key, "another"); got != part {
			t.Fatalf("part %d again: got %q", i, got)
		}
		sum := 0
		for k := range p.young {
			sum += partBytes([]byte(k))
		}
		if sum != p.bytes || sum > sharedBytes {
			t.Fatalf("after %d parts: got %d bytes, counted as %d, want at most %d", i+1, sum, p.bytes, sharedBytes)
		}
	}
	if len(p.old) == 0 {
		t.Error("got no old half: the bound was not reached")
	}
	young := len(p.young)
	if got := p.get(bytes.Repeat([]byte("x"), largestShared+1), "large"); got != "large" || len(p.young) != young {
		t.Errorf("a part that is too large: got %q, and %d parts more", got, len(p.young)-young)
	}
}
