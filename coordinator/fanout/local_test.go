package fanout

import (
	"slices"
	"testing"
)

// TestNobodyTakesTheIdOfALocalWorker registers a worker under the id of one of this process.
func TestNobodyTakesTheIdOfALocalWorker(t *testing.T) {
	local := Member{ID: "local-0", Address: "in-process", Cores: 1}
	other := Member{ID: "w", Address: "127.0.0.1:1", Cores: 1}
	f := New(Config{Local: []Member{local}})
	defer f.Close()
	if want := []Member{local}; !slices.Equal(f.wanted, want) {
		t.Errorf("at the start: want %v, got %v", want, f.wanted)
	}
	f.SetMembers([]Member{{ID: "local-0", Address: "127.0.0.1:2", Cores: 64}, other})
	if want := []Member{local, other}; !slices.Equal(f.wanted, want) {
		t.Errorf("want %v, got %v", want, f.wanted)
	}
}
