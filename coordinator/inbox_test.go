package coordinator

import (
	"slices"
	"sync"
	"testing"
)

func never() bool { return false }

func TestTheInboxKeepsTheOrder(t *testing.T) {
	b := newInbox()
	var got []int
	for i := range 3 {
		b.put(func() {
			got = append(got, i)
			if i == 0 {
				b.put(func() { got = append(got, 10) }) // is done in the same drain, behind the others
			}
		})
	}
	if b.empty() {
		t.Error("got an empty inbox, want three")
	}
	b.drain(never)
	if want := []int{0, 1, 2, 10}; !slices.Equal(got, want) || !b.empty() {
		t.Errorf("got %v, empty %t; want %v, true", got, b.empty(), want)
	}
}

// Nothing that is put is overlooked by a loop that waits for ready, and what one goroutine
// puts is done in its order.
func TestTheInboxWakesTheLoop(t *testing.T) {
	const putters, each = 8, 1000
	b := newInbox()
	got := make([][]int, putters)
	var wg sync.WaitGroup
	for p := range putters {
		wg.Go(func() {
			for i := range each {
				b.put(func() { got[p] = append(got[p], i) })
			}
		})
	}
	for done := 0; done < putters*each; {
		<-b.ready
		b.drain(never)
		done = 0
		for p := range got {
			done += len(got[p])
		}
	}
	wg.Wait()
	for p := range got {
		if !slices.IsSorted(got[p]) || len(got[p]) != each {
			t.Errorf("putter %d: got %d in order %t, want %d in order", p, len(got[p]), slices.IsSorted(got[p]), each)
		}
	}
}

// A drain that has had enough leaves the rest in its order, before what comes meanwhile.
func TestTheInboxIsTakenInInParts(t *testing.T) {
	b := newInbox()
	var got []int
	for i := range 5 {
		b.put(func() { got = append(got, i) })
	}
	n := 0
	b.drain(func() bool { n++; return n == 2 })
	if !slices.Equal(got, []int{0, 1}) || b.empty() {
		t.Fatalf("got %v, empty %t; want 0 and 1, and more to come", got, b.empty())
	}
	b.put(func() { got = append(got, 5) })
	b.drain(never)
	if !slices.Equal(got, []int{0, 1, 2, 3, 4, 5}) || !b.empty() {
		t.Errorf("got %v, empty %t; want all in order", got, b.empty())
	}
}
