package scorer

import (
	"testing"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// TestEachPluginHasItsRule holds pipeline.go to what a query may name.
func TestEachPluginHasItsRule(t *testing.T) {
	q := &pb.Query{}
	for number := range pb.Plugin_name {
		p := pb.Plugin(number)
		switch p {
		case pb.Plugin_PLUGIN_CEL_FILTER, pb.Plugin_PLUGIN_CEL_SCORE, pb.Plugin_PLUGIN_DYNAMIC_RESOURCES:
			continue // NewClassWith makes them: an expression may be wrong, or nobody there to compile it
		case pb.Plugin_PLUGIN_POD_TOPOLOGY_SPREAD, pb.Plugin_PLUGIN_INTER_POD_AFFINITY:
			continue // group_rules.go makes them, of a query that asks something
		}
		if has := new(usualRules).newFilter(p, q) != nil; has != p.Filters() {
			t.Errorf("%s: Plugin.Filters says %t, newFilter has a case: %t", PluginName(p), p.Filters(), has)
		}
		score, _ := new(usualRules).newScore(p, q, nil)
		if has := score != nil; has != p.Scores() {
			t.Errorf("%s: Plugin.Scores says %t, newScore has a case: %t", PluginName(p), p.Scores(), has)
		}
	}
}
