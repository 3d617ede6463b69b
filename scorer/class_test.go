package scorer

import (
	"reflect"
	"testing"
)

// A variant has all fields of what it is like, but for those that Vary makes anew.
func TestVaryCopiesAllFields(t *testing.T) {
	c := newClass(t, benchQuery())
	of, have := reflect.ValueOf(c).Elem(), reflect.ValueOf(c.Vary(c.query)).Elem()
	for i := range of.NumField() {
		switch name := of.Type().Field(i).Name; name {
		case "query", "original", "filters", "scores", "usual", "claims", "failing":
		default:
			if of.Field(i).IsZero() != have.Field(i).IsZero() {
				t.Errorf("%s: got %v, want %v", name, have.Field(i), of.Field(i))
			}
		}
	}
}
