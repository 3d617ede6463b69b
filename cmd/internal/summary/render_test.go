package summary

import (
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"google.golang.org/protobuf/encoding/prototext"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// TestRender draws the summaries of testdata, each a Summary in protobuf's text
// form. The arguments are style words: color, unicode, width=N, json.
func TestRender(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		var s pb.Summary
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "summary":
				s.Reset()
				if err := prototext.Unmarshal([]byte(d.Input), &s); err != nil {
					return err.Error()
				}
				return ""
			case "json":
				var b strings.Builder
				if err := JSON(&b, &s); err != nil {
					return err.Error()
				}
				return b.String()
			case "text":
				style := Style{Color: d.HasArg("color"), Unicode: d.HasArg("unicode")}
				d.MaybeScanArgs(t, "width", &style.Width)
				var b strings.Builder
				if err := Render(&b, &s, style); err != nil {
					return err.Error()
				}
				return strings.ReplaceAll(b.String(), "\x1b", "ESC")
			}
			return "unknown command " + d.Cmd
		})
	})
}

func TestStyleFollowsTheTerminal(t *testing.T) {
	tests := []struct {
		name     string
		terminal bool
		env      map[string]string
		want     Style
	}{
		{"a pipe is plain", false, map[string]string{"TERM": "xterm", "LANG": "C.UTF-8"}, Style{}},
		{"a UTF-8 terminal has everything", true, map[string]string{"TERM": "xterm", "LANG": "en_US.UTF-8"}, Style{Color: true, Unicode: true}},
		{"NO_COLOR takes colour only", true, map[string]string{"TERM": "xterm", "LANG": "C.utf8", "NO_COLOR": "1"}, Style{Unicode: true}},
		{"a dumb terminal has no colour", true, map[string]string{"TERM": "dumb", "LANG": "C.utf8"}, Style{Unicode: true}},
		{"LC_ALL goes before LANG", true, map[string]string{"TERM": "xterm", "LC_ALL": "C", "LANG": "C.UTF-8"}, Style{Color: true}},
		{"no locale is ASCII", true, map[string]string{"TERM": "xterm"}, Style{Color: true}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := StyleFor(test.terminal, 0, func(name string) string { return test.env[name] })
			if got != test.want {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
		})
	}
}

func TestTotalsTellWhoHadToLeave(t *testing.T) {
	for preempted, want := range map[uint64]string{0: "  pods           2 bound, 0 pending, 7 there before\n", 1200: "  pods           2 bound, 0 pending, 7 there before, 1,200 preempted\n"} {
		var text strings.Builder
		if err := Render(&text, &pb.Summary{PodsBound: 2, PodsPresent: 7, PodsPreempted: preempted}, Style{}); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(text.String(), want) {
			t.Errorf("got %q, want %q in it", text.String(), want)
		}
	}
}
