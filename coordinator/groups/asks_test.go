package groups

import (
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestAsksAreReadFromAnnotations(t *testing.T) {
	got, err := asksOf(map[string]string{
		PreferredTopology: "example.com/rack, example.com/block", SliceTopology: "kubernetes.io/hostname", SliceSize: "8",
		GiveUpAfter: "30m", RetryAfter: "5m", "example.com/other": "?",
	})
	want := Asks{
		Preferred: []string{"example.com/rack", "example.com/block"}, SliceKey: "kubernetes.io/hostname", SliceSize: 8,
		GiveUpAfter: 30 * time.Minute, RetryAfter: 5 * time.Minute,
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("asks are %+v, %v, want %+v", got, err, want)
	}
}

func TestABadAnnotationIsNamedWithWhatWasExpected(t *testing.T) {
	const long = "a/b/c/ddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddd"
	for _, c := range []struct{ annotation, value, says string }{
		{PreferredTopology, "", `is "", expected names of labels of nodes`},
		{PreferredTopology, "rack,,block", "expected names of labels"},
		{PreferredTopology, "rack,rack", "expected each label once"},
		{PreferredTopology, "a,b,c,d,e,f,g,h,i", "expected at most 8 labels"},
		{PreferredTopology, strings.Repeat(",", 1<<20), "expected at most 8 labels"},
		{PreferredTopology, long, `"` + long[:maxQuoted] + `"…, expected names`},
		{SliceTopology, "rack", "expected shardsched.io/slice-size beside it"},
		{SliceTopology, "rack,block", "expected one label of nodes"},
		{SliceSize, "4", "expected shardsched.io/slice-topology beside it"},
		{SliceSize, "0", "expected a number of members from 1 to 8192"},
		{SliceSize, "8193", "expected a number of members"},
		{SliceSize, "99999999999999999999", "expected a number of members"},
		{GiveUpAfter, "soon", "expected a duration"},
		{GiveUpAfter, "-1m", "expected a duration"},
		{GiveUpAfter, "0", "expected a duration"},
		{GiveUpAfter, "1000000h", "expected a duration"},
		{GiveUpAfter, "87601h", "expected a duration above 0 and of at most 87600h"},
		{"shardsched.io/prefered-topology", "rack", "is not known, expected one of shardsched.io/preferred-topology, "},
		{RetryAfter, "5m", "expected shardsched.io/give-up-after beside it"},
	} {
		got, err := asksOf(map[string]string{c.annotation: c.value})
		if err == nil || !strings.Contains(err.Error(), "annotation "+c.annotation) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %.80q gives error %v, want one with %q", c.annotation, c.value, err, c.says)
		}
		if !reflect.DeepEqual(got, Asks{}) {
			t.Errorf("%s: %.80q asks for %+v beside its error", c.annotation, c.value, got)
		}
	}
}

func FuzzAsks(f *testing.F) {
	f.Add("rack,block", "rack", "4", "30m", "5m")
	f.Add("", "x", "-1", "1ns", "")
	f.Fuzz(func(t *testing.T, preferred, key, size, giveUp, retry string) {
		a, err := asksOf(map[string]string{
			PreferredTopology: preferred, SliceTopology: key, SliceSize: size, GiveUpAfter: giveUp, RetryAfter: retry,
		})
		switch {
		case err != nil && len(err.Error()) > 1000:
			t.Errorf("an error of %d bytes", len(err.Error()))
		case err == nil && (len(a.Preferred) < 1 || len(a.Preferred) > maxPreferred || a.SliceSize < 1 || a.SliceSize > MaxMembers ||
			a.SliceKey == "" || a.GiveUpAfter <= 0 || a.GiveUpAfter > maxAsked || a.RetryAfter <= 0):
			t.Errorf("asks out of bounds: %+v", a)
		}
	})
}
