package cli

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
)

// thing is what is followed.
type thing struct {
	Name  string `json:"name"`
	Count string `json:"count"`
}

// followed answers with the lists in turn, and ends behind the last.
func followed(t *testing.T, flags listing, lists ...[]thing) string {
	t.Helper()
	if err := flags.parse(); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	ctx, end := context.WithCancel(t.Context())
	v := &view[thing]{
		name: func(x thing) string { return "thing/" + x.Name }, headers: []string{"NAME", "COUNT"}, row: func(x thing) []string { return []string{x.Name, x.Count} },
	}
	err := follow(ctx, &flags, Streams{Out: &out}, 0, v, func() (any, []thing, error) {
		next := lists[0]
		if lists = lists[1:]; len(lists) == 0 {
			end()
		}
		return nil, next, nil
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want that it was cancelled", err)
	}
	return out.String()
}

// Only what is new, has changed or is gone is written again.
func TestThingsAreFollowed(t *testing.T) {
	lists := [][]thing{
		{{"a", "1"}, {"b", "1"}, {"c", "1"}}, {{"a", "1"}, {"b", "1"}, {"c", "1"}}, {{"a", "1"}, {"b", "2"}}, {{"b", "2"}, {"d", "1"}, {"c", "1"}},
	}
	for name, x := range map[string]struct {
		flags listing
		want  string
	}{
		"a table":        {want: "NAME   COUNT\na      1\nb      1\nc      1\nb      2\nc      <gone>\nd      1\nc      1\na      <gone>\n"},
		"no headers":     {listing{noHeaders: true}, "a   1\nb   1\nc   1\nb   2\nc   <gone>\nd   1\nc   1\na   <gone>\n"},
		"names":          {listing{output: "name"}, "thing/a\nthing/b\nthing/c\nthing/d\nthing/c\n"},
		"a template":     {listing{output: "jsonpath={.name}={.count} "}, "a=1 b=1 c=1 b=2 d=1 c=1 "},
		"custom columns": {listing{output: "custom-columns=N:.name"}, "N\na\nb\nc\nd\nc\n"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := followed(t, x.flags, lists...); got != x.want {
				t.Errorf("got\n%swant\n%s", got, x.want)
			}
		})
	}
	if got := followed(t, listing{output: "json"}, lists...); strings.Count(got, `"name"`) != 6 || strings.Count(got, `"count": "2"`) != 1 {
		t.Errorf("got %s\nwant a document for each of 6 changes", got)
	}
}

// A list that can't be had ends it.
func TestFollowingEndsWithAnError(t *testing.T) {
	lost := errors.New("lost")
	var l listing
	if err := l.parse(); err != nil {
		t.Fatal(err)
	}
	err := follow(t.Context(), &l, Streams{Out: &bytes.Buffer{}}, 0, &view[thing]{}, func() (any, []thing, error) { return nil, nil, lost })
	if !errors.Is(err, lost) {
		t.Errorf("got %v, want %v", err, lost)
	}
}

// Workers and shards are followed by get until it is interrupted.
func TestGetWatchesWhatIsNoObject(t *testing.T) {
	sh := newShell(t)
	for _, kind := range []string{"workers", "shards"} {
		ctx, end := context.WithCancel(t.Context())
		out := &endingAt{end: end, lines: 1}
		code := Main(ctx, []string{"get", kind, "-w", "-o", "name", "--address", sh.address}, Streams{Out: out, Err: out, Env: func(string) string { return "" }}, Runs{})
		if code != exitInterrupted || !strings.HasPrefix(out.text, strings.TrimSuffix(kind, "s")+"/") {
			t.Errorf("%s: got %d and %q, want what is there, and an interruption", kind, code, out.text)
		}
	}
}

// endingAt calls end once so many lines are written.
type endingAt struct {
	end   func()
	lines int
	text  string
}

func (e *endingAt) Write(b []byte) (int, error) {
	if e.text += string(b); strings.Count(e.text, "\n") >= e.lines {
		e.end()
	}
	return len(b), nil
}
