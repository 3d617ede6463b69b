package scorer

import (
	"fmt"
	"testing"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

func TestImageGrades(t *testing.T) {
	const mib = 1 << 20
	r := new(imageLocality).make(&pb.Query{Images: &pb.ImageQuery{Containers: 2}})
	for _, c := range []struct {
		name      string
		sum, want int64
	}{
		{"nothing", 0, 0},
		{"the lower threshold", 23 * mib, 0},
		{"just short of a point", 23*mib + 1977*mib/100, 0},
		{"one point", 23*mib + 1977*mib/100 + 1, 1},
		{"just short of the upper threshold", 2000*mib - 1, 99},
		{"the upper threshold, a thousand MiB a container", 2000 * mib, 100},
		{"beyond", 5000 * mib, 100},
		{"a sum that overflowed", -1, 0},
	} {
		if got := r.grade(c.sum); got != c.want {
			t.Errorf("%s: got %d, want %d", c.name, got, c.want)
		}
	}
}

// Images are found whether an image knows its rows as a list or as a bitmap, and after the
// table grew.
func TestImagesOnManyRows(t *testing.T) {
	table := NewTable(0)
	q := &pb.Query{ClassId: 1, Scores: []*pb.ScoreWeight{{Plugin: pb.Plugin_PLUGIN_IMAGE_LOCALITY, Weight: 1}}, Images: &pb.ImageQuery{
		Containers: 1, Images: []*pb.ImageTerm{{Name: "all:1", ScaledBytes: 1000 << 20}, {Name: "few:1", ScaledBytes: 1000 << 20}},
	}}
	c, e := newClass(t, q), NewEvaluator(nil)
	for i := range 500 {
		n := benchNode(i)
		n.Images = nil
		if i%2 == 0 {
			n.Images = append(n.Images, "all:1")
		}
		if i%100 == 99 {
			n.Images = append(n.Images, "few:1")
		}
		must(table.Apply(&pb.Delta{Row: uint32(i), Change: &pb.Delta_SetNode{SetNode: n}}))
	}
	got := 0
	for _, x := range evaluate(e, table, c, Options{Candidates: 500}).Groups[0].Candidates {
		if x.Score == 100 {
			got++
		}
	}
	if got != 255 {
		t.Errorf("got %d rows with an image, want 255", got)
	}
	if err := table.check(); err != nil {
		t.Error(err)
	}
}

// TestManyImagesComeAndGo has more images on a node than could be held against each other in minutes.
func TestManyImagesComeAndGo(t *testing.T) {
	var names [2][]string
	for i := range 60_000 {
		names[i%2] = append(names[i%2], fmt.Sprintf("image-%05d", i))
	}
	names[1] = append(names[1], "some:1")
	names[0] = append(names[0], "some:1")
	x := newImageIndex()
	x.ofRow = make([][]uint32, 1)
	for i := range 200 {
		x.set(0, names[i%2], wordRows)
		if n := len(x.byName); n != len(names[i%2]) || !x.same(x.ofRow[0], names[i%2]) {
			t.Fatalf("got %d images, want %d", n, len(names[i%2]))
		}
	}
}
