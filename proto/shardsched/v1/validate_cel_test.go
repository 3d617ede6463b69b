package shardschedv1

import (
	"strings"
	"testing"
)

func celText(s string) *CelValue { return &CelValue{Kind: &CelValue_StringValue{StringValue: s}} }

// validCel asks for expressions with arguments of every kind.
func validCel() *Query {
	list := &CelList{Values: []*CelValue{celText("a"), {Kind: &CelValue_IntValue{IntValue: -1}}}}
	values := []*CelValue{
		celText("x"), {Kind: &CelValue_NullValue{NullValue: true}}, {Kind: &CelValue_BoolValue{}}, {Kind: &CelValue_UintValue{UintValue: 1}},
		{Kind: &CelValue_DoubleValue{DoubleValue: 0.5}}, {Kind: &CelValue_BytesValue{BytesValue: []byte{0}}}, {Kind: &CelValue_ListValue{ListValue: list}},
		{Kind: &CelValue_MapValue{MapValue: list}}, {Kind: &CelValue_OptionalValue{OptionalValue: &CelList{}}},
		{Kind: &CelValue_QuantityValue{QuantityValue: "1Gi"}}, {Kind: &CelValue_DurationValue{DurationValue: 1}},
		{Kind: &CelValue_TimestampValue{TimestampValue: &CelTime{Seconds: 1, Nanos: 2}}},
		{Kind: &CelValue_ObjectValue{ObjectValue: &CelObject{Type: "shardsched.Taint", Fields: []*CelValue{celText("k")}}}},
		{Kind: &CelValue_ErrorValue{ErrorValue: "no such key"}},
	}
	e := &CelExpression{Name: "a", Text: "true", Weight: 1}
	for i, v := range values {
		e.Arguments = append(e.Arguments, &CelArgument{Part: uint32(i), Value: v})
	}
	return &Query{
		ClassId: 44, Filters: []Plugin{Plugin_PLUGIN_CEL_FILTER}, Scores: []*ScoreWeight{{Plugin: Plugin_PLUGIN_CEL_SCORE, Weight: 1}},
		Cel: &CelQuery{
			Language: "cel/1", Normalisation: CelNormalisation_CEL_NORMALISATION_NONE,
			Filters: []*CelExpression{e, {Name: "b", Text: "false", Reason: "no", IgnoreFailure: true}}, Scores: []*CelExpression{{Name: "a", Text: "1", Weight: 100}},
		},
	}
}

func TestBrokenExpressions(t *testing.T) {
	if err := validCel().Validate(); err != nil {
		t.Fatalf("got %v, want no error", err)
	}
	deep := celText("x")
	for range maxCelDepth {
		deep = &CelValue{Kind: &CelValue_ListValue{ListValue: &CelList{Values: []*CelValue{deep}}}}
	}
	argument := func(v *CelValue) func(*Query) { return func(x *Query) { x.Cel.Filters[0].Arguments[0].Value = v } }
	for _, c := range []struct {
		name  string
		wreck func(*Query)
		want  string
	}{
		{"no expressions", func(x *Query) { x.Cel.Filters = nil }, "cel.filters: expected for CELFilter, got none"},
		{"no scores", func(x *Query) { x.Cel.Scores = nil }, "cel.scores: expected for CELScore, got none"},
		{"no normalisation", func(x *Query) { x.Cel.Normalisation = 0 }, "cel.normalisation: expected for CELScore, got none"},
		{"no language", func(x *Query) { x.Cel.Language = "" }, "cel.language: expected a value, got none"},
		{"a name twice", func(x *Query) { x.Cel.Filters[1].Name = "a" }, `cel.filters[1].name: expected each name once, got "a" again`},
		{"no text", func(x *Query) { x.Cel.Filters[0].Text = "" }, "cel.filters[0].text: expected an expression, got none"},
		{"a long text", func(x *Query) { x.Cel.Filters[0].Text = strings.Repeat("x", MaxCelText+1) }, "cel.filters[0].text: expected at most 8192 bytes, got 8193"},
		{"a weight of nothing", func(x *Query) { x.Cel.Scores[0].Weight = 0 }, "cel.scores[0].weight: expected 1 to 100, got 0"},
		{"parts out of order", func(x *Query) { x.Cel.Filters[0].Arguments[1].Part = 0 }, "cel.filters[0].arguments[1].part: expected a part after 0, got 0"},
		{"no value", argument(&CelValue{}), "cel.filters[0].arguments[0].value.kind: expected a value, got none"},
		{"a value too deep", argument(deep), "expected at most 16 levels"},
		{"a value too large", argument(celText(strings.Repeat("x", MaxCelArgument))), "cel.filters[0].arguments[0].value: expected at most 65536 bytes"},
		{"a key without a value", argument(&CelValue{Kind: &CelValue_MapValue{MapValue: &CelList{Values: []*CelValue{celText("k")}}}}),
			"map_value.values: expected a value for each key, got 1 keys and values"},
		{"a second of no year", argument(&CelValue{Kind: &CelValue_TimestampValue{TimestampValue: &CelTime{Seconds: 1 << 60}}}), "timestamp_value.seconds: expected"},
	} {
		x := validCel()
		c.wreck(x)
		if err := x.Validate(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %s", c.name, err, c.want)
		}
	}
}

func FuzzCelQuery(f *testing.F) { fuzz(f, func() *Query { return new(Query) }, validCel()) }
