package scorer

import (
	"fmt"
	"testing"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// A table that is told of no device holds nothing for devices, whatever is asked of it.
func TestNoDevicesTakeNoMemory(t *testing.T) {
	table, e := NewTable(0), NewEvaluator(nil)
	for i := range 100 {
		must(table.Apply(&pb.Delta{Row: uint32(i), Change: &pb.Delta_SetNode{SetNode: &pb.Node{Name: fmt.Sprint("n", i), AllowedPods: 1}}}))
	}
	before := table.MemoryBytes()
	c := newClass(t, parseClaims("claim\nrequest r 1\n"))
	if r := evaluate(e, table, c, Options{Candidates: 1}); r.Feasible != 0 {
		t.Errorf("got %d feasible rows, want 0", r.Feasible)
	}
	if table.devices != nil || table.MemoryBytes() != before {
		t.Errorf("got devices %v and %d bytes, want none and %d", table.devices, table.MemoryBytes(), before)
	}
	if n := len(e.devices.class(c.claims).verdicts); n != 1 {
		t.Errorf("got %d searches for rows that all have no devices, want 1", n)
	}
}

// deviceRow is one row whose devices change.
type deviceRow struct {
	*Table
	e *Evaluator
	c *Class
}

func newDeviceRow(t *testing.T) *deviceRow {
	x := &deviceRow{NewTable(0), NewEvaluator(nil), newClass(t, parseClaims("claim\nrequest r 1\n"))}
	must(x.Apply(&pb.Delta{Change: &pb.Delta_SetNode{SetNode: &pb.Node{Name: "n", AllowedPods: 1}}}))
	return x
}

func (x *deviceRow) set(devices ...string) {
	s := &pb.DeviceSlice{Name: "s", Driver: "d", Pool: "p", SliceCount: 1}
	for _, name := range devices {
		s.Devices = append(s.Devices, &pb.Device{Name: name})
	}
	must(x.Apply(&pb.Delta{Change: &pb.Delta_SetSlice{SetSlice: s}}))
}

func (x *deviceRow) use(device string, taken bool) {
	uses := []*pb.DeviceUse{{Driver: "d", Pool: "p", Device: device, Dedicated: taken}}
	must(x.Apply(&pb.Delta{Change: &pb.Delta_UseDevices{UseDevices: &pb.DeviceUses{Uses: uses}}}))
}

func (x *deviceRow) passes() bool {
	v := judge(x.e, x.Table, 0, nil, x.c)
	return v.Passed
}

// What an evaluator remembers of devices is bounded, and what it has forgotten it finds again.
func TestDeviceMemoryIsBounded(t *testing.T) {
	x := newDeviceRow(t)
	const bits = 15
	var names []string
	for i := range bits {
		names = append(names, fmt.Sprint("d", i))
	}
	x.set(names...)
	most := 0
	for n := 1; n < 1<<bits; n++ { // a Gray code: one device changes at a time, until one alone is left free
		gray, before := n^n>>1, (n-1)^(n-1)>>1
		for i := range bits {
			if (gray^before)>>i&1 != 0 {
				x.use(names[i], gray>>i&1 != 0)
			}
		}
		if got, want := x.passes(), gray != 1<<bits-1; got != want {
			t.Fatalf("devices %b in use: got %t, want %t", gray, got, want)
		}
		most = max(most, len(x.e.devices.class(x.c.claims).verdicts))
	}
	if want := maxDeviceVerdicts - 1; most != want { // beside the sum of the inventory
		t.Errorf("got %d verdicts at the most, want %d", most, want)
	}
	for i := range maxDevicePools + 1 {
		x.set(fmt.Sprint("e", i))
		if !x.passes() || len(x.e.devices.pools) > maxDevicePools {
			t.Fatalf("inventory %d: got %d pools, want %d at the most", i, len(x.e.devices.pools), maxDevicePools)
		}
	}
	for i := range maxDeviceClasses + 1 {
		x.c = newClass(t, x.c.Query())
		if !x.passes() || len(x.e.devices.classes) > maxDeviceClasses {
			t.Fatalf("class %d: got %d classes, want %d at the most", i, len(x.e.devices.classes), maxDeviceClasses)
		}
	}
}
