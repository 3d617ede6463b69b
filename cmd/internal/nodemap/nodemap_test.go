package nodemap

import (
	"encoding/binary"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// cellsOf writes cells as a coordinator does.
func cellsOf(cells ...uint16) (out []byte) {
	for _, c := range cells {
		out = binary.LittleEndian.AppendUint16(out, c)
	}
	return out
}

func small() *pb.GetNodeMapResponse {
	return &pb.GetNodeMapResponse{
		Groups: []*pb.NodeGroup{{Values: []string{"a", "1"}, Nodes: 3}, {Values: []string{"", "2"}, Nodes: 2}, {Nodes: 1}},
		Cells:  cellsOf(0, 500, 32769, 32768, 32769, 1000), Scale: &pb.NodeScale{Low: 10, High: 30, Unit: "points", Nodes: 3},
		Classes: []*pb.NodeClass{{Text: "cordoned", Nodes: 1}, {Text: "tainted", Nodes: 2}}, Nodes: 6,
	}
}

func TestGroupsAreAddedUp(t *testing.T) {
	got, err := Groups(small())
	want := []Group{
		{Values: []string{"a", "1"}, Nodes: 3, Scaled: 2, Low: 10, Mean: 15, High: 20, Classes: []Class{{"tainted", 1}}},
		{Values: []string{"", "2"}, Nodes: 2, Classes: []Class{{"cordoned", 1}, {"tainted", 1}}},
		{Nodes: 1, Scaled: 1, Low: 30, Mean: 30, High: 30},
	}
	if d := cmp.Diff(want, got); d != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, d)
	}
	names := []string{Name(got[0].Values), Name(got[1].Values), Name(got[2].Values), Rounded(2.25), Rounded(3), Rounded(99.6)}
	if d := cmp.Diff([]string{"a / 1", "(none) / 2", "others", "2.2", "3", "100"}, names); d != "" {
		t.Errorf("words (-want +got):\n%s", d)
	}
}

func TestWhatIsNoMapIsRefused(t *testing.T) {
	for want, breaks := range map[string]func(*pb.GetNodeMapResponse){
		`ends in group "/2" of 2 nodes`:        func(m *pb.GetNodeMapResponse) { m.Cells = m.Cells[:9] },
		"has 2 bytes behind its last group":    func(m *pb.GetNodeMapResponse) { m.Cells = append(m.Cells, 0, 0) },
		"has a cell 32770":                     func(m *pb.GetNodeMapResponse) { m.Cells = cellsOf(0, 0, 0, 0, 0, 32770) },
		"has a cell 1001":                      func(m *pb.GetNodeMapResponse) { m.Cells = cellsOf(0, 0, 0, 0, 0, 1001) },
		"has a cell 0, which is neither on it": func(m *pb.GetNodeMapResponse) { m.Scale = nil },
	} {
		m := small()
		breaks(m)
		if _, err := Groups(m); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

// Whatever is answered, groups are added up or refused.
func FuzzGroups(f *testing.F) {
	seed, err := proto.Marshal(small())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(seed)
	f.Fuzz(func(t *testing.T, wire []byte) {
		m := &pb.GetNodeMapResponse{}
		if proto.Unmarshal(wire, m) != nil {
			return
		}
		groups, err := Groups(m)
		if err != nil {
			return
		}
		nodes := 0
		for _, g := range groups {
			nodes += g.Nodes
		}
		if nodes != len(m.Cells)/2 {
			t.Errorf("got %d nodes of %d cells", nodes, len(m.Cells)/2)
		}
	})
}
