package cli

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/shardsched/shardsched/cmd/internal/openb"
)

// BenchmarkReadInput reads the demo cluster, 9,675 objects, as YAML and as JSON.
func BenchmarkReadInput(b *testing.B) {
	nodes, pods := openb.Objects(openb.Demo(1))
	for _, format := range []string{"yaml", "json"} {
		var text bytes.Buffer
		if err := openb.Write(&text, format, nodes, pods); err != nil {
			b.Fatal(err)
		}
		b.Run(format, func(b *testing.B) {
			b.SetBytes(int64(text.Len()))
			b.ReportAllocs()
			for b.Loop() {
				s := Streams{In: strings.NewReader(text.String()), Out: io.Discard, Err: io.Discard}
				in, err := readInput(s, inputRequest{Paths: []string{"-"}, AssignUIDs: true})
				if err != nil || len(in.Pods) != len(pods) {
					b.Fatalf("got %v, %v", in, err)
				}
			}
		})
	}
}
