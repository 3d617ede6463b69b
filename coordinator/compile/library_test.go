package compile

import (
	"math/big"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"
	"pgregory.net/rapid"

	"github.com/shardsched/shardsched/internal/testkit/build"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
	"github.com/shardsched/shardsched/scorer"
)

// Compile and scorer together against the libraries that upstream's plugins are built
// on, on random pods and nodes, the malformed among them.

// drawName draws names of nodes, which are few so that they are met.
func drawName(t *rapid.T, label string) string {
	return rapid.SampledFrom([]string{"a", "b", "c", ""}).Draw(t, label)
}

func drawNodes(t *rapid.T) []*v1.Node {
	var out []*v1.Node
	for _, name := range []string{"a", "b", "c", "d"} {
		b := build.Node(name).CPU("4").Memory("8Gi")
		for _, key := range []string{"zone", "cores"} {
			if v := rapid.SampledFrom([]string{"-", "", "x", "y", "5", "07", "9223372036854775807", "5.0"}).Draw(t, key); v != "-" {
				b.Label(key, v)
			}
		}
		for range rapid.IntRange(0, 3).Draw(t, "taints") {
			b.Taint(drawTaint(t))
		}
		out = append(out, b.Obj())
	}
	return out
}

func drawTaint(t *rapid.T) string {
	return rapid.SampledFrom([]string{"k", "k=v", "l=v", "l=1"}).Draw(t, "taint") + ":" +
		rapid.SampledFrom([]string{"NoSchedule", "PreferNoSchedule", "NoExecute"}).Draw(t, "effect")
}

func drawTolerations(t *rapid.T) []v1.Toleration {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) v1.Toleration {
		return v1.Toleration{
			Key:      rapid.SampledFrom([]string{"", "k", "l"}).Draw(t, "key"),
			Operator: rapid.SampledFrom([]v1.TolerationOperator{"", "Equal", "Exists", "Gt", "Is"}).Draw(t, "operator"),
			Value:    rapid.SampledFrom([]string{"", "v", "1"}).Draw(t, "value"),
			Effect:   rapid.SampledFrom([]v1.TaintEffect{"", "NoSchedule", "PreferNoSchedule", "NoExecute", "Never"}).Draw(t, "effect"),
		}
	}), 0, 4).Draw(t, "tolerations")
}

func drawTerm(t *rapid.T) v1.NodeSelectorTerm {
	operator := rapid.SampledFrom([]v1.NodeSelectorOperator{"In", "In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Is"})
	term := v1.NodeSelectorTerm{}
	for range rapid.IntRange(0, 2).Draw(t, "expressions") {
		term.MatchExpressions = append(term.MatchExpressions, v1.NodeSelectorRequirement{
			Key:      rapid.SampledFrom([]string{"zone", "cores", "none", "not a key!"}).Draw(t, "key"),
			Operator: operator.Draw(t, "operator"),
			Values:   rapid.SliceOfN(rapid.SampledFrom([]string{"", "x", "y", "5", "7", "-1", "+5"}), 0, 2).Draw(t, "values"),
		})
	}
	for range rapid.IntRange(0, 2).Draw(t, "fields") {
		term.MatchFields = append(term.MatchFields, v1.NodeSelectorRequirement{
			Key:      rapid.SampledFrom([]string{"metadata.name", "metadata.name", "metadata.namespace"}).Draw(t, "field"),
			Operator: operator.Draw(t, "operator"),
			Values:   rapid.SliceOfN(rapid.Custom(func(t *rapid.T) string { return drawName(t, "name") }), 0, 2).Draw(t, "names"),
		})
	}
	return term
}

// tableOf loads nodes into one shard, row by row.
func tableOf(t *rapid.T, nodes []*v1.Node) *scorer.Table {
	table := scorer.NewTable(0)
	for row, n := range nodes {
		if err := table.Apply(&pb.Delta{Row: uint32(row), Change: &pb.Delta_SetNode{SetNode: Node(n)}}); err != nil {
			t.Fatalf("set node %s: want no error, got %v", n.Name, err)
		}
	}
	return table
}

// raw is the raw score of a plugin; 0 where it skipped.
func raw(scores []scorer.PluginScore, plugin pb.Plugin) int64 {
	i := slices.IndexFunc(scores, func(s scorer.PluginScore) bool { return s.Plugin == plugin })
	if i < 0 {
		return 0
	}
	return scores[i].Raw
}

func TestNodeAffinityIsTheLibrarys(t *testing.T) {
	prof := DefaultProfile("x")
	rapid.Check(t, func(t *rapid.T) {
		p := build.Pod("p").Toleration("").Obj()
		p.Spec.Tolerations = []v1.Toleration{{Operator: v1.TolerationOpExists}}
		if rapid.Bool().Draw(t, "selector") {
			p.Spec.NodeSelector = map[string]string{"zone": rapid.SampledFrom([]string{"", "x"}).Draw(t, "zone")}
		}
		a := &v1.NodeAffinity{}
		p.Spec.Affinity = &v1.Affinity{NodeAffinity: a}
		if rapid.Bool().Draw(t, "required") {
			a.RequiredDuringSchedulingIgnoredDuringExecution = &v1.NodeSelector{
				NodeSelectorTerms: rapid.SliceOfN(rapid.Custom(drawTerm), 0, 3).Draw(t, "terms"),
			}
		}
		for range rapid.IntRange(0, 3).Draw(t, "preferred") {
			a.PreferredDuringSchedulingIgnoredDuringExecution = append(a.PreferredDuringSchedulingIgnoredDuringExecution,
				v1.PreferredSchedulingTerm{Weight: rapid.Int32Range(0, 3).Draw(t, "weight"), Preference: drawTerm(t)})
		}
		nodes := drawNodes(t)
		required := nodeaffinity.GetRequiredNodeAffinity(p)
		preferred, wantErr := nodeaffinity.NewPreferredSchedulingTerms(a.PreferredDuringSchedulingIgnoredDuringExecution)

		class := mustClass(t, New(), p, prof, still{})
		if (class.ScoreError != nil) != (wantErr != nil) || wantErr != nil && !strings.HasSuffix(class.ScoreError.Error(), wantErr.Error()) {
			t.Fatalf("score error: want %v, got %v", wantErr, class.ScoreError)
		}
		for row, n := range nodes {
			want, _ := required.Match(n)
			if class.Rejected != nil {
				if want {
					t.Errorf("node %s: want it to match, but the pod is rejected: %s", n.Name, class.Rejected.Message)
				}
				continue
			}
			table, eval := tableOf(t, nodes), scorer.NewEvaluator(nil)
			var v scorer.Verdict
			if eval.Row(table, uint32(row), nil, class.Scorer, false, &v); v.Passed != want {
				t.Fatalf("node %s is feasible: want %v, got %v; query %v", n.Name, want, v.Passed, class.Query)
			}
			if !want || wantErr != nil {
				continue
			}
			wantScore := preferred.Score(n)
			if got := raw(eval.Scores(table, uint32(row), nil, class.Scorer), pb.Plugin_PLUGIN_NODE_AFFINITY); got != wantScore {
				t.Fatalf("raw score of node %s: want %d, got %d; query %v", n.Name, wantScore, got, class.Query)
			}
		}
	})
}

func TestTaintTolerationIsTheLibrarys(t *testing.T) {
	prof, log := DefaultProfile("x"), klog.Background()
	hard := func(t *v1.Taint) bool { return t.Effect != v1.TaintEffectPreferNoSchedule }
	rapid.Check(t, func(t *rapid.T) {
		p := build.Pod("p").Obj()
		p.Spec.Tolerations = drawTolerations(t)
		soft := slices.DeleteFunc(slices.Clone(p.Spec.Tolerations), func(t v1.Toleration) bool {
			return t.Effect != "" && t.Effect != v1.TaintEffectPreferNoSchedule
		})
		nodes := drawNodes(t)
		class := mustClass(t, New(), p, prof, still{})
		table, eval := tableOf(t, nodes), scorer.NewEvaluator(nil)
		for row, n := range nodes {
			_, refused := corev1.FindMatchingUntoleratedTaint(log, n.Spec.Taints, p.Spec.Tolerations, hard, false)
			var v scorer.Verdict
			if eval.Row(table, uint32(row), nil, class.Scorer, false, &v); v.Passed == refused {
				t.Fatalf("node %s is feasible: want %v, got %v", n.Name, !refused, v.Passed)
			}
			if refused {
				continue
			}
			want := int64(0)
			for i := range n.Spec.Taints {
				if !hard(&n.Spec.Taints[i]) && !corev1.TolerationsTolerateTaint(log, soft, &n.Spec.Taints[i], false) {
					want++
				}
			}
			if got := raw(eval.Scores(table, uint32(row), nil, class.Scorer), pb.Plugin_PLUGIN_TAINT_TOLERATION); got != want {
				t.Fatalf("raw score of node %s: want %d, got %d", n.Name, want, got)
			}
		}
	})
}

func TestAmountIsTheQuantityRoundedUpWithinBounds(t *testing.T) {
	quantity := rapid.StringMatching(`-?[0-9]{1,22}(\.[0-9]{1,12})?(n|u|m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei|e[0-9]|e[1-3][0-9]|e-[0-9])?`).Filter(func(text string) bool {
		_, err := resource.ParseQuantity(text) // it refuses some of them
		return err == nil
	})
	rapid.Check(t, func(t *rapid.T) {
		text := quantity.Draw(t, "quantity")
		q := resource.MustParse(text)
		for _, u := range []resource.Scale{milli, ones} {
			d := q.DeepCopy()
			exact := new(big.Rat).SetFrac(d.AsDec().UnscaledBig(), big.NewInt(1))
			shift := int64(d.AsDec().Scale()) + int64(u)
			ten := new(big.Int).Exp(big.NewInt(10), big.NewInt(max(shift, -shift)), nil)
			if shift > 0 {
				exact.Quo(exact, new(big.Rat).SetInt(ten))
			} else {
				exact.Mul(exact, new(big.Rat).SetInt(ten))
			}
			want := new(big.Int).Div(new(big.Int).Add(exact.Num(), new(big.Int).Sub(exact.Denom(), big.NewInt(1))), exact.Denom())
			if want.Sign() < 0 {
				want.SetInt64(0)
			}
			if want.Cmp(big.NewInt(MaxAmount)) > 0 {
				want.SetInt64(MaxAmount)
			}
			if got := amount(q, u); want.Cmp(big.NewInt(got)) != 0 {
				t.Fatalf("amount of %s in 10^%d: want %v, got %d", text, u, want, got)
			}
		}
	})
}
