package main

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp/kb"

	"github.com/shardsched/shardsched/internal/testkit/build"
)

// TestOffline looks at files: a cluster that is placed first, and a record with a slider for time.
func TestOffline(t *testing.T) {
	r := newRig(t)
	s, err := r.serve(r.ctx, "files", "console", "-f", "../../../docs/journeys/cluster.yaml", "--listen", "127.0.0.1:0")
	r.must(err)
	x := r.open(s.console)
	x.says("40")
	x.says("docs/journeys/cluster.yaml")
	x.audit("a cluster of files")

	record := filepath.Join(r.dir, "hour"+strings.Repeat("0", 48)+".record") // no page is wider for its name
	live, err := r.up(r.ctx, "recorded", newScene(60).first, "--record", record)
	r.must(err)
	time.Sleep(3 * time.Second) // the slider goes by seconds
	apply(r, live, build.Pod("comes-last").Namespace("shop").CPU("100m").Obj())
	r.bound(live, "shop", "comes-last")
	live.Interrupt() // what is recorded is whole
	<-live.Done()
	s, err = r.serve(r.ctx, "record", "console", "-f", record, "--listen", "127.0.0.1:0")
	r.must(err)
	x = r.open(s.console)
	x.until(`document.getElementById("moment")`)
	x.audit("a record")
	eval[bool](x, `(document.getElementById("moment").focus(), true)`)
	before := eval[string](x, `document.querySelector(".facts").innerText`)
	r.must(x.Press(kb.Home))
	x.until(`document.querySelector(".facts") && document.querySelector(".facts").innerText !== ` + quote(before))
}
