package scorer

import (
	"reflect"
	"testing"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// A variant has all fields of its original, but for those that Vary makes anew. Each field is set in one of the classes at least.
func TestVaryCopiesAllFields(t *testing.T) {
	classes := []*Class{mustClass(t, celQuery([]string{"node.requested['cpu'] == quantity('0')"}, nil, 0))}
	for seed := range uint64(40) {
		spec, q := newRandom(seed).groupSpec()
		compileGroups(spec, q, func(string) bool { return false }, false)
		classes = append(classes, newClass(t, q))
	}
	classes = append(classes, classes[1].Within(99, &pb.Label{Key: "zone", Value: "a"}))
	set := map[string]bool{}
	for _, c := range classes {
		of, have := reflect.ValueOf(c).Elem(), reflect.ValueOf(c.Vary(c.query)).Elem()
		for i := range of.NumField() {
			switch name := of.Type().Field(i).Name; name {
			case "query", "original", "filters", "scores", "usual", "claims", "failing":
			default:
				set[name] = set[name] || !of.Field(i).IsZero()
				if of.Field(i).IsZero() != have.Field(i).IsZero() {
					t.Errorf("%s: got %v, want %v", name, have.Field(i), of.Field(i))
				}
			}
		}
	}
	for name, ok := range set {
		if !ok {
			t.Errorf("%s: set in none of %d classes", name, len(classes))
		}
	}
}

// A class that is made of another changes nothing of it: its variants read that, too.
func TestUnnarrowedChangesNothingOfTheClass(t *testing.T) {
	q := distinctQuery(1)
	q.Narrowed = &pb.NameSet{Names: []string{"a"}, Plugins: []string{"NodeAffinity"}}
	c := newClass(t, q)
	before := *c.shared
	if wide := c.Unnarrowed(); reflect.DeepEqual(*wide.shared, before) {
		t.Fatal("the class is as it was, want the filters' indexes moved by one")
	}
	if !reflect.DeepEqual(*c.shared, before) {
		t.Errorf("got %+v, want %+v", *c.shared, before)
	}
}
