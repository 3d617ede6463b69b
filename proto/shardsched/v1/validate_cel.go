package shardschedv1

import "math"

const (
	// MaxCelExpressions bounds the expressions of a plugin: each has three reasons, and a key
	// has a bit for each.
	MaxCelExpressions = 16
	// MaxCelText bounds an expression, in bytes.
	MaxCelText = 8 << 10
	// MaxCelArguments bounds the parts of an expression that look at the pod alone.
	MaxCelArguments = 1 << 10
	// MaxCelArgument bounds what such a part comes to: bytes of text, and 8 for each value.
	MaxCelArgument = 64 << 10

	maxCelDepth = 16
	maxCelName  = 256
)

// Validate checks a value: that there is one, and how large and deep it is.
func (x *CelValue) Validate() error {
	_, err := x.size(maxCelDepth)
	return err
}

// size checks a value of so many levels and tells how large it is.
func (x *CelValue) size(depth int) (int, error) {
	if depth == 0 {
		return 0, wrong("", "expected at most %d levels", maxCelDepth)
	}
	size := 8
	var err error
	switch v := x.GetKind().(type) {
	case nil:
		return 0, wrong("kind", "expected a value, got none")
	case *CelValue_NullValue:
		if !v.NullValue {
			return 0, wrong("null_value", "expected true")
		}
	case *CelValue_StringValue:
		size, err = size+len(v.StringValue), text("string_value", v.StringValue, MaxCelArgument)
	case *CelValue_BytesValue:
		size += len(v.BytesValue)
	case *CelValue_QuantityValue:
		size, err = size+len(v.QuantityValue), text("quantity_value", v.QuantityValue, maxCelName)
	case *CelValue_ErrorValue:
		size, err = size+len(v.ErrorValue), text("error_value", v.ErrorValue, maxText)
	case *CelValue_TimestampValue:
		err = in("timestamp_value", v.TimestampValue.Validate())
	case *CelValue_ListValue:
		size, err = v.ListValue.size("list_value", math.MaxInt, depth)
	case *CelValue_OptionalValue:
		size, err = v.OptionalValue.size("optional_value", 1, depth)
	case *CelValue_MapValue:
		if len(v.MapValue.GetValues())%2 != 0 {
			return 0, wrong("map_value.values", "expected a value for each key, got %d keys and values", len(v.MapValue.GetValues()))
		}
		size, err = v.MapValue.size("map_value", math.MaxInt, depth)
	case *CelValue_ObjectValue:
		if err := name("object_value.type", v.ObjectValue.GetType()); err != nil {
			return 0, err
		}
		list := &CelList{Values: v.ObjectValue.GetFields()}
		if size, err = list.size("object_value", math.MaxInt, depth); err == nil {
			size += len(v.ObjectValue.GetType())
		}
	}
	if err == nil && size > MaxCelArgument {
		err = wrong("", "expected at most %d bytes", MaxCelArgument)
	}
	return size, err
}

// size is that of the values together, of which there are at most so many.
func (x *CelList) size(field string, most, depth int) (int, error) {
	if n := len(x.GetValues()); n > most {
		return 0, wrong(field+".values", "expected at most %d, got %d", most, n)
	}
	sum := 8
	for i, v := range x.GetValues() {
		n, err := v.size(depth - 1)
		if err != nil {
			return 0, in(field, at(listName(field), i, err))
		}
		if sum += n; sum > MaxCelArgument {
			return 0, wrong(field, "expected at most %d bytes", MaxCelArgument)
		}
	}
	return sum, nil
}

// listName is what the elements of a value of several are called.
func listName(field string) string {
	if field == "object_value" {
		return "fields"
	}
	return "values"
}

// Validate checks that the moment has a year of four digits.
func (x *CelTime) Validate() error {
	const least, most = -62135596800, 253402300799 // years 1 and 9999
	if err := within("seconds", x.GetSeconds(), least, most); err != nil {
		return err
	}
	return within("nanos", int64(x.GetNanos()), 0, 999_999_999)
}

// Validate checks number and value.
func (x *CelArgument) Validate() error {
	if err := within("part", int64(x.GetPart()), 0, MaxCelArguments-1); err != nil {
		return err
	}
	return in("value", x.GetValue().Validate())
}

// Validate checks name, texts and arguments. Whether the text is an expression, the language
// tells.
func (x *CelExpression) Validate() error {
	if err := name("name", x.GetName()); err != nil {
		return err
	}
	if err := text("name", x.GetName(), maxCelName); err != nil {
		return err
	}
	if x.GetText() == "" {
		return wrong("text", "expected an expression, got none")
	}
	if err := text("text", x.GetText(), MaxCelText); err != nil {
		return err
	}
	for i, a := range x.GetArguments() {
		if err := a.Validate(); err != nil {
			return at("arguments", i, err)
		}
		if i > 0 && x.Arguments[i-1].Part >= a.Part {
			return at("arguments", i, wrong("part", "expected a part after %d, got %d", x.Arguments[i-1].Part, a.Part))
		}
	}
	return text("reason", x.GetReason(), maxText)
}

// Validate checks language and expressions.
func (x *CelQuery) Validate() error {
	if x == nil {
		return nil
	}
	if err := name("language", x.GetLanguage()); err != nil {
		return err
	}
	if err := expressions("filters", x.GetFilters()); err != nil {
		return err
	}
	if err := expressions("scores", x.GetScores()); err != nil {
		return err
	}
	for i, s := range x.GetScores() {
		if err := within("weight", s.GetWeight(), 1, 100); err != nil {
			return at("scores", i, err)
		}
	}
	if n := x.GetNormalisation(); n < 0 || n > CelNormalisation_CEL_NORMALISATION_LOWEST {
		return wrong("normalisation", "expected a known one, got %s", n.String())
	}
	return nil
}

// expressions checks those of one plugin.
func expressions(field string, list []*CelExpression) error {
	if len(list) > MaxCelExpressions {
		return wrong(field, "expected at most %d, got %d", MaxCelExpressions, len(list))
	}
	names := make(map[string]bool, len(list))
	for i, e := range list {
		if err := e.Validate(); err != nil {
			return at(field, i, err)
		}
		if names[e.GetName()] {
			return at(field, i, wrong("name", "expected each name once, got %q again", short(e.GetName())))
		}
		names[e.GetName()] = true
	}
	return nil
}

// celPresence checks that neither plugin lacks its expressions.
func (x *Query) celPresence(filters, scores plugins) error {
	if len(x.GetCel().GetFilters()) == 0 && filters.has(Plugin_PLUGIN_CEL_FILTER) {
		return wrong("cel.filters", "expected for CELFilter, got none")
	}
	if !scores.has(Plugin_PLUGIN_CEL_SCORE) {
		return nil
	}
	if len(x.GetCel().GetScores()) == 0 {
		return wrong("cel.scores", "expected for CELScore, got none")
	}
	if x.GetCel().GetNormalisation() == 0 {
		return wrong("cel.normalisation", "expected for CELScore, got none")
	}
	return nil
}
