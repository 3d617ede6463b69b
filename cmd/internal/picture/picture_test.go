package picture

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
)

func written(t *testing.T, p *Picture) string {
	t.Helper()
	var b strings.Builder
	if err := p.Write(&b); err != nil {
		t.Fatal(err)
	}
	for d := xml.NewDecoder(strings.NewReader(b.String())); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			return b.String()
		} else if err != nil {
			t.Fatalf("the picture is no XML: %v", err)
		}
	}
}

func TestAPictureShowsWhereMembersAre(t *testing.T) {
	p := &Picture{
		Key: "rack", Gangs: []Gang{{"ml/train", "starts"}, {"ml/big", "does not start"}},
		Nodes: []Node{
			{Name: "n2", Domain: "r2", Others: 3, Free: 1},
			{Name: "n1", Domain: "r1", Members: map[int]int{0: 2}, Others: 1, Free: 1},
		},
	}
	got := written(t, p)
	for want, times := range map[string]int{
		`fill="#0072b2"`: 3, `fill="#e69f00"`: 1, `fill="#bbb"`: 4, ">r1</text>": 1, ">r2</text>": 1, "<title>n1</title>": 1,
		">ml/train: starts</text>": 1, ">ml/big: does not start</text>": 1, "Nodes by rack": 1,
	} {
		if n := strings.Count(got, want); n != times {
			t.Errorf("the picture has %q %d times, and not %d times", want, n, times)
		}
	}
	if strings.Index(got, ">r1<") > strings.Index(got, ">r2<") {
		t.Error("r1 comes behind r2")
	}
	for range 20 {
		if again := written(t, p); again != got {
			t.Fatal("the same picture is drawn otherwise")
		}
	}
}

// Whatever names hold and however much there is, a picture is an SVG of bounded size.
func TestAPictureIsBounded(t *testing.T) {
	hostile := strings.Repeat(`</text><script>alert("&")</script>`+"\x00", 100)
	p := &Picture{Key: hostile}
	for i := range 20_000 {
		p.Nodes = append(p.Nodes, Node{
			Name: hostile, Domain: fmt.Sprint("d", i), Members: map[int]int{i % 900: 1 << 30}, Others: 1 << 40, Free: 1 << 40,
		})
	}
	for range 900 {
		p.Gangs = append(p.Gangs, Gang{hostile, hostile})
	}
	got := written(t, p)
	if strings.Contains(got, "<script") {
		t.Error("a name became markup")
	}
	if len(got) > 16<<20 {
		t.Errorf("the picture has %d bytes", len(got))
	}
	for _, want := range []string{"18976 nodes more are not drawn", "884 gangs more"} {
		if !strings.Contains(got, want) {
			t.Errorf("the picture does not say %q", want)
		}
	}
}
