package store_test

import (
	"fmt"
	"testing"
)

func TestPartsOfTheHistoryComeAsTheyWereWritten(t *testing.T) {
	r := newRig(t)
	for i, put := range []map[int][]byte{
		{510: []byte("a"), 511: []byte("b")}, {0: []byte("c"), 1: []byte("d"), 2: []byte("e")}, {2: []byte("f")}, {510: []byte("g")},
	} {
		if err := r.SaveHistory(t.Context(), r.fence, put); err != nil {
			t.Fatalf("write %d: %v", i, err)
		}
	}
	if _, err := r.client.Put(t.Context(), "/shardsched/test/history/other", "x"); err != nil {
		t.Fatal(err)
	}
	all, err := r.LoadHistory(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	got := ""
	for slot, part := range all {
		got += fmt.Sprint(slot, string(part), " ")
	}
	if want := "511b 0c 1d 2f 510g "; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
