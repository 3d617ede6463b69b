package main

import (
	"fmt"
	"testing"
	"time"

	"github.com/chromedp/chromedp/kb"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/shardsched/shardsched/internal/testkit/build"
)

// drawn is how many points of the map have a colour.
const drawn = `(() => { const c = document.getElementById("map"), d = c.getContext("2d").getImageData(0, 0, c.width, c.height).data;
	let n = 0; for (let i = 3; i < d.length; i += 4) if (d[i]) n++; return n; })()`

// TestMapOfManyNodes draws 50,000 nodes. Keys go from node to node, and a click opens one.
func TestMapOfManyNodes(t *testing.T) {
	r := newRig(t)
	const many = 50_000
	list := make([]runtime.Object, 0, many+1)
	for i := range many {
		list = append(list, build.Node(fmt.Sprintf("n%05d", i)).CPU("32").Memory("128Gi").Zone(fmt.Sprintf("zone-%d", i%3)).
			Label(rack, fmt.Sprintf("rack-%03d", i/200)).Obj())
	}
	s, err := r.up(r.ctx, "many", append(list, build.Pod("one").CPU("16").Obj()))
	r.must(err)

	x := r.open(s.console)
	x.Requests()
	began := time.Now()
	x.to(s.console + "cluster")
	x.until(drawn + " > 10000")
	took, bytes := time.Since(began), int64(0)
	for _, q := range x.Requests() {
		bytes += q.Bytes
	}
	// Cells of nodes that are alike are packed well: what others come to is less than the page unpacked.
	unpacked := eval[int](x, "new Blob([document.documentElement.outerHTML]).size")
	t.Logf("%d nodes: %d bytes, a page of %d, drawn and quiet after %v", many, bytes, unpacked, took)
	if bytes > 1<<20 || unpacked > 1<<20 {
		t.Errorf("got %d bytes and a page of %d for %d nodes, want 1 MB at the most: 2 MB for 100,000", bytes, unpacked, many)
	}
	x.says("50,000 nodes")

	eval[bool](x, `(document.getElementById("map").focus(), true)`)
	const told = `document.getElementById("cell").textContent`
	seen := map[string]bool{}
	for range 3 {
		r.must(x.Press(kb.ArrowRight))
		x.until(told + `.startsWith("n") && !` + quote(fmt.Sprint(keys(seen))) + `.includes(` + told + `)`)
		seen[eval[string](x, told)] = true
	}
	if len(seen) != 3 {
		t.Errorf("the right arrow goes to %q, want three nodes", keys(seen))
	}
	x.audit("the map")
	// Not in the middle, which may be between two zones.
	at := eval[[2]float64](x, `(() => { const e = document.getElementById("map"); e.scrollIntoView({block: "center"}); const r = e.getBoundingClientRect();
		for (let y = r.y + 40; y < r.bottom; y += 40) if (document.elementFromPoint(r.x + 20, y) === e) return [r.x + 20, y]; })()`)
	r.must(x.ClickAt(at[0], at[1]))
	x.until(`location.pathname.endsWith("/node") && /^n[0-9]{5}$/.test(new URL(location).searchParams.get("name"))`)
	x.says("128 GiB")
	x.audit("a node of the map")
}
