package snapshot

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/rest"

	"github.com/shardsched/shardsched/cmd/internal/manifest"
)

// apiServer answers lists as a script says, and notes what it was asked.
type apiServer struct {
	asked []string // path?query, limit left out
	// answers are by path, one after the other; the last one stays. A path without any gets an empty list.
	answers map[string][]string
}

func (a *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	const version = "/apis/scheduling.k8s.io/v1alpha2"
	if q.Get("limit") != "500" && r.URL.Path != version || r.Method != http.MethodGet {
		http.Error(w, "a page of 500 is wanted", http.StatusTeapot)
		return
	}
	q.Del("limit")
	asked, _ := url.QueryUnescape(q.Encode())
	a.asked = append(a.asked, strings.TrimSuffix(r.URL.Path+"?"+asked, "?"))
	w.Header().Set("Content-Type", "application/json")
	answer := `{"metadata": {"resourceVersion": "77"}, "items": []}`
	if left := a.answers[r.URL.Path]; len(left) > 0 {
		answer = left[0]
		if len(left) > 1 {
			a.answers[r.URL.Path] = left[1:]
		}
	}
	var status struct{ Code int }
	if json.Unmarshal([]byte(answer), &status); status.Code != 0 {
		w.WriteHeader(status.Code)
	}
	fmt.Fprint(w, answer)
}

// write takes a snapshot of the server.
func (a *apiServer) write(t *testing.T) (text string, result *Result, err error) {
	t.Helper()
	s := httptest.NewServer(a)
	t.Cleanup(s.Close)
	var out bytes.Buffer
	result, err = Write(t.Context(), &rest.Config{Host: s.URL}, &out)
	return out.String(), result, err
}

// about are the requests about one path.
func (a *apiServer) about(path string) (asked []string) {
	for _, one := range a.asked {
		if strings.HasPrefix(one, path) {
			asked = append(asked, strings.TrimPrefix(one, path))
		}
	}
	return asked
}

func failure(code int, reason, more string) string {
	return fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","status":"Failure","message":"no","reason":%q,"code":%d,"metadata":{%s}}`, reason, code, more)
}

// All kinds are listed, at the resource version of the first, in pages; what says nothing to a scheduler is left out, and no kind that
// may hold a secret is asked for.
func TestASnapshotIsOfOneMoment(t *testing.T) {
	a := &apiServer{answers: map[string][]string{
		"/api/v1/nodes": {`{"metadata": {"resourceVersion": "42"}, "items": [{"metadata": {"name": "n", "uid": "u", "managedFields": [{}],
			"annotations": {"a": "b", "kubectl.kubernetes.io/last-applied-configuration": "{}"}}}]}`},
		"/api/v1/pods": {
			`{"metadata": {"resourceVersion": "42", "continue": "next"}, "items": [{"metadata": {"name": "a"}}]}`,
			`{"metadata": {"resourceVersion": "42"}, "items": [{"metadata": {"name": "b"}}]}`,
		},
	}}
	text, result, err := a.write(t)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := result.String(), "1 nodes, 2 pods and 0 other objects at resource version 42"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if d := cmp.Diff([]string{"?resourceVersion=42&resourceVersionMatch=Exact", "?continue=next"}, a.about("/api/v1/pods")); d != "" {
		t.Errorf("requests about pods (-want +got):\n%s", d)
	}
	if len(a.asked) != len(manifest.Kinds())+1 {
		t.Errorf("got %d requests, want one a kind and one more: %q", len(a.asked), a.asked)
	}
	for _, secret := range []string{"secrets", "configmaps"} {
		if strings.Contains(strings.Join(a.asked, " "), secret) {
			t.Errorf("%s were asked for", secret)
		}
	}
	var list struct {
		Kind  string
		Items []struct {
			APIVersion, Kind string
			Metadata         map[string]any
		}
		Metadata map[string]string
	}
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		t.Fatal(err)
	}
	node := list.Items[0]
	if node.Kind != "Node" || node.APIVersion != "v1" || node.Metadata["managedFields"] != nil ||
		!cmp.Equal(node.Metadata["annotations"], map[string]any{"a": "b"}) || list.Metadata["resourceVersion"] != "42" || list.Kind != "List" {
		t.Errorf("got %s, want a List at 42 whose first is a Node without managed fields", text)
	}
	set, err := manifest.Read([]string{"-"}, manifest.Options{Stdin: strings.NewReader(text)}, &manifest.Report{})
	if err != nil || len(set.Objects) != 3 {
		t.Errorf("read back: got %v and %v, want 3 objects", set, err)
	}
}

// Where the moment is gone, or is none of a kind's, the kind is as it is now, and the result says so; a list under way goes on.
func TestASnapshotGoesOnWhereItsMomentIsGone(t *testing.T) {
	a := &apiServer{answers: map[string][]string{
		"/api/v1/services": {failure(410, "Expired", ""), `{"metadata": {"resourceVersion": "50"}, "items": [{"metadata": {"name": "a"}}]}`},
		"/api/v1/persistentvolumes": {
			failure(504, "Timeout", "") + "", `{"metadata": {}, "items": []}`,
		},
		"/api/v1/pods": {
			`{"metadata": {"resourceVersion": "42", "continue": "next"}, "items": [{"metadata": {"name": "a"}}]}`,
			failure(410, "Expired", `"continue": "later"`),
			`{"metadata": {"resourceVersion": "60"}, "items": [{"metadata": {"name": "b"}}]}`,
		},
		"/apis/resource.k8s.io/v1/resourceslices": {failure(404, "NotFound", "")},
		// A role that does not name it, and an API server that has it not.
		"/apis/scheduling.k8s.io/v1alpha2/podgroups": {failure(403, "Forbidden", "")},
		"/apis/scheduling.k8s.io/v1alpha2":           {failure(404, "NotFound", "")},
	}}
	a.answers["/api/v1/persistentvolumes"][0] = strings.Replace(failure(504, "Timeout", ""), `"metadata"`, `"details":{"causes":[{"reason":"ResourceVersionTooLarge"}]},"metadata"`, 1)
	_, result, err := a.write(t)
	if err != nil {
		t.Fatal(err)
	}
	want := &Result{ResourceVersion: "77", Counts: map[string]int{"Service": 1, "Pod": 2}, Drifted: []string{"pods", "persistentvolumes", "services"},
		Absent: []string{"resourceslices", "podgroups"}}
	if d := cmp.Diff(want, result); d != "" {
		t.Errorf("result (-want +got):\n%s", d)
	}
	if d := cmp.Diff([]string{"?resourceVersion=77&resourceVersionMatch=Exact", "?continue=next", "?continue=later"}, a.about("/api/v1/pods")); d != "" {
		t.Errorf("requests about pods (-want +got):\n%s", d)
	}
	if d := cmp.Diff([]string{"?resourceVersion=77&resourceVersionMatch=Exact", ""}, a.about("/api/v1/services")); d != "" {
		t.Errorf("requests about services (-want +got):\n%s", d)
	}
	if got, want := result.String(), "0 nodes, 2 pods and 1 other objects at resource version 77; a little later: pods, persistentvolumes, services; not served: resourceslices, podgroups"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// An API server that has forgotten every moment is not asked for ever.
func TestASnapshotEndsWhereListsFail(t *testing.T) {
	for name, x := range map[string]struct {
		answers map[string][]string
		want    string
	}{
		"every moment is gone": {map[string][]string{"/api/v1/pods": {failure(410, "Expired", "")}}, "list pods: no"},
		"no version, and gone": {map[string][]string{"/api/v1/nodes": {failure(410, "Expired", "")}}, "list nodes: no"},
		"forbidden": {map[string][]string{"/api/v1/nodes": {failure(403, "Forbidden", "")}, "/api/v1/services": {failure(403, "Forbidden", "")}},
			"the API server does not let this user list nodes, services in all namespaces"},
	} {
		t.Run(name, func(t *testing.T) {
			a := &apiServer{answers: x.answers}
			text, _, err := a.write(t)
			if err == nil || !strings.Contains(err.Error(), x.want) {
				t.Errorf("got %v, want %q", err, x.want)
			}
			if json.Valid([]byte(text)) {
				t.Errorf("got the whole JSON %q after an error, want a part", text)
			}
			if len(a.asked) > len(manifest.Kinds())+1 {
				t.Errorf("got %d requests, want one a kind and one more at the most", len(a.asked))
			}
		})
	}
}
