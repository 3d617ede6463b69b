package scorer

import (
	"fmt"
	"strconv"
	"testing"

	"pgregory.net/rapid"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

func TestParseIntegerEqualsStrconv(t *testing.T) {
	check := func(s string) string {
		want, err := strconv.ParseInt(s, 10, 64)
		got, ok := parseInteger(s)
		if ok != (err == nil) || ok && got != want {
			return fmt.Sprintf("%q: got %d, %t, want %d, %v", s, got, ok, want, err)
		}
		return ""
	}
	for _, s := range []string{
		"", "+", "-", "0", "-0", "+7", "007", "--1", "1_000", " 1", "1 ", "0x10", "1.0", "1e3", "٣",
		"9223372036854775807", "9223372036854775808", "-9223372036854775808", "-9223372036854775809",
		"18446744073709551616", "99999999999999999999",
	} {
		if wrong := check(s); wrong != "" {
			t.Error(wrong)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		if wrong := check(rapid.StringMatching(`[-+]?[0-9_a]{0,21}`).Draw(t, "s")); wrong != "" {
			t.Fatal(wrong)
		}
	})
}

// A column of values gives the same rows whether it is a list or slots of one, two or
// four bytes.
func TestRequirementsOnColumnsOfEveryWidth(t *testing.T) {
	for _, distinct := range []int{1, 255, 256, 65535, 65536} {
		t.Run(strconv.Itoa(distinct), func(t *testing.T) {
			rows := make([]*pb.SnapshotRow, distinct)
			for i := range rows {
				n := &pb.Node{Name: fmt.Sprint("n", i), Labels: []*pb.Label{{Key: "id", Value: strconv.Itoa(i)}}}
				if i%1000 == 7 {
					n.Labels = append(n.Labels, &pb.Label{Key: "rare", Value: strconv.Itoa(i)})
				}
				rows[i] = &pb.SnapshotRow{Row: uint32(i), Node: n}
			}
			table := loadTable(t, 0, rows)
			for _, c := range []struct {
				q    *pb.LabelRequirement
				want int
			}{
				{&pb.LabelRequirement{Key: "id", Operator: pb.SelectorOperator_SELECTOR_OPERATOR_IN, Values: []string{"0", "254", "65535", "x"}}, 1 + asInt(distinct > 254) + asInt(distinct > 65535)},
				{&pb.LabelRequirement{Key: "id", Operator: pb.SelectorOperator_SELECTOR_OPERATOR_NOT_IN, Values: []string{"0"}}, distinct - 1},
				{&pb.LabelRequirement{Key: "id", Operator: pb.SelectorOperator_SELECTOR_OPERATOR_LT, Bound: 100}, min(distinct, 100)},
				{&pb.LabelRequirement{Key: "rare", Operator: pb.SelectorOperator_SELECTOR_OPERATOR_EXISTS}, (distinct + 992) / 1000},
				{&pb.LabelRequirement{Key: "rare", Operator: pb.SelectorOperator_SELECTOR_OPERATOR_DOES_NOT_EXIST}, distinct - (distinct+992)/1000},
			} {
				q := &pb.Query{ClassId: 1, Filters: []pb.Plugin{pb.Plugin_PLUGIN_NODE_AFFINITY}, NodeAffinity: &pb.NodeAffinityQuery{
					Required: &pb.NodeSelector{Terms: []*pb.SelectorTerm{{Labels: []*pb.LabelRequirement{c.q}}}},
				}}
				if got := evaluate(NewEvaluator(nil), table, newClass(t, q), Options{}).Feasible; got != c.want {
					t.Errorf("%v: got %d rows, want %d", c.q, got, c.want)
				}
			}
			if err := table.check(); distinct < 1000 && err != nil {
				t.Error(err)
			}
		})
	}
}
