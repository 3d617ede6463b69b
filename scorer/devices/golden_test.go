package devices_test

import (
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/shardsched/shardsched/internal/testkit/claims"
	"github.com/shardsched/shardsched/scorer/devices"
	"github.com/shardsched/shardsched/scorer/devices/selector"
)

// TestGolden runs the scripts in testdata, in the words of internal/testkit/claims. bench/judge/devices has upstream's
// allocator answer them, too.
func TestGolden(t *testing.T) {
	compiler := selector.NewCompiler()
	searcher := &devices.Searcher{}
	claims.Golden(t, "testdata", func(t *testing.T, scene *claims.Scene, node *v1.Node) string {
		turned := scene.Turn(compiler)
		pools, use, err := turned.Gather(node)
		if err != nil {
			return "fatal: " + err.Error() + "\n"
		}
		return turned.Answer(pools, searcher.Search(pools, use, turned.Demand, devices.DefaultBudget))
	})
}
