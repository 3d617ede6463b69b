package kube_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/shardsched/shardsched/coordinator/kube"
	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/coordinator/storage"
	"github.com/shardsched/shardsched/coordinator/volumes"
)

var _ volumes.Writer = (*kube.VolumeWriter)(nil)

// claim is one that waits for its volume on n1.
func claim(change ...func(*v1.PersistentVolumeClaim)) *v1.PersistentVolumeClaim {
	c := &v1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: "c", UID: "uid-c", ResourceVersion: "7",
			Annotations: map[string]string{storage.AnnSelectedNode: "n1", "other": "kept"}, Labels: map[string]string{"kept": "too"},
		},
	}
	for _, f := range change {
		f(c)
	}
	return c
}

// volume is one that goes to that claim.
func volume(change ...func(*v1.PersistentVolume)) *v1.PersistentVolume {
	p := &v1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{
			Name: "v", UID: "uid-v", ResourceVersion: "7", Annotations: map[string]string{storage.AnnBoundByController: "yes"},
		},
		Spec: v1.PersistentVolumeSpec{ClaimRef: &v1.ObjectReference{
			Kind: "PersistentVolumeClaim", APIVersion: "v1", Namespace: "default", Name: "c", UID: "uid-c", ResourceVersion: "6",
		}},
	}
	for _, f := range change {
		f(p)
	}
	return p
}

func (a *api) volumeWriter() *kube.VolumeWriter {
	return kube.NewVolumeWriter(kube.VolumeWriterConfig{Clients: a.clients(), After: new(waits).after})
}

func TestVolumesAreWrittenAsPatchesOfWhatWasDecided(t *testing.T) {
	for name, c := range map[string]struct {
		obj        objects.Object
		path, body string
	}{
		"a volume": {volume(), "/api/v1/persistentvolumes/v",
			`{"metadata":{"uid":"uid-v","resourceVersion":"7","annotations":{"pv.kubernetes.io/bound-by-controller":"yes"}},` +
				`"spec":{"claimRef":{"kind":"PersistentVolumeClaim","namespace":"default","name":"c","uid":"uid-c","apiVersion":"v1","resourceVersion":"6"}}}`},
		"a claim": {claim(), "/api/v1/namespaces/default/persistentvolumeclaims/c",
			`{"metadata":{"uid":"uid-c","resourceVersion":"7","annotations":{"volume.kubernetes.io/selected-node":"n1"}}}`},
	} {
		t.Run(name, func(t *testing.T) {
			written := c.obj.DeepCopyObject().(objects.Object)
			written.SetResourceVersion("8")
			a := newAPI(t, script(found(written)))
			versions, err := a.volumeWriter().Write(t.Context(), []objects.Object{c.obj})
			if err != nil || len(versions) != 1 || versions[0] != "8" {
				t.Errorf("write: got %v, %v, want version 8", versions, err)
			}
			s := a.all()[0]
			if got, want := s.String(), "PATCH "+c.path; got != want {
				t.Errorf("request: got %s, want %s", got, want)
			}
			if got, want := s.header.Get("Content-Type"), "application/merge-patch+json"; got != want {
				t.Errorf("content type: got %s, want %s", got, want)
			}
			if got, want := canonical(t, s.body), canonical(t, []byte(c.body)); got != want {
				t.Errorf("patch:\n got %s\nwant %s", got, want)
			}
		})
	}
}

// canonical is JSON with its keys in order.
func canonical(t *testing.T, raw []byte) string {
	t.Helper()
	out, err := json.Marshal(decode[any](t, raw))
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func TestWhatBecomesOfAVolume(t *testing.T) {
	newer := func(p *v1.PersistentVolume) { p.ResourceVersion = "9" }
	others := func(p *v1.PersistentVolume) { p.Spec.ClaimRef.UID = "other" }
	for name, c := range map[string]struct {
		writes, reads func(seen) reply
		want          error
		text          string
		version       string
		requests      string
	}{
		"it changed since":                       {writes: script(conflict("modified")), reads: script(found(volume(newer, others))), want: objects.ErrConflict, text: "write PersistentVolume v", requests: "PG"},
		"it is gone":                             {writes: script(gone("persistentvolumes")), reads: never, want: objects.ErrNotFound, requests: "P"},
		"it is gone when it is looked at":        {writes: script(conflict("modified")), reads: script(gone("persistentvolumes")), want: objects.ErrNotFound, requests: "PG"},
		"it is forbidden":                        {writes: script(forbidden()), reads: never, text: "answered 403", requests: "P"},
		"the answer is lost, and it is written":  {writes: script(lost(), conflict("modified")), reads: script(found(volume(newer))), version: "9", requests: "PPG"},
		"the answer is lost, and it is not":      {writes: script(lost(), found(volume(newer))), reads: never, version: "9", requests: "PP"},
		"the answer is lost, another was faster": {writes: script(lost(), conflict("modified")), reads: script(found(volume(newer, others))), want: objects.ErrConflict, requests: "PPG"},
		"the API server is busy":                 {writes: script(tooMany("1"), found(volume(newer))), reads: never, version: "9", requests: "PP"},
		"it stays open":                          {writes: script(unavailable()), reads: never, want: objects.ErrUnknown, requests: strings.Repeat("P", 10)},
		"the answer makes no sense":              {writes: script(reply{code: 200, raw: "<html>"}), reads: script(found(volume(newer))), version: "9", requests: "PG"},
	} {
		t.Run(name, func(t *testing.T) {
			a := newAPI(t, posts(c.writes, c.reads))
			versions, err := a.volumeWriter().Write(t.Context(), []objects.Object{volume()})
			switch {
			case c.version != "":
				if err != nil || len(versions) != 1 || versions[0] != c.version {
					t.Errorf("write: got %v, %v, want version %s", versions, err, c.version)
				}
			case err == nil || c.want != nil && !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.text) || len(versions) != 0:
				t.Errorf("write: got %v, %v, want an error that wraps %v and has %q", versions, err, c.want, c.text)
			}
			var got strings.Builder
			for _, s := range a.all() {
				got.WriteByte(s.method[0])
			}
			if got.String() != c.requests {
				t.Errorf("requests: got %s, want %s", got.String(), c.requests)
			}
		})
	}
}

func TestObjectsBeforeTheFailingOneAreWritten(t *testing.T) {
	a := newAPI(t, func(s seen) reply {
		switch {
		case strings.Contains(s.path, "/persistentvolumes/"):
			return found(volume())
		case s.method == http.MethodGet:
			return found(claim(func(c *v1.PersistentVolumeClaim) { delete(c.Annotations, storage.AnnSelectedNode) }))
		}
		return conflict("modified")
	})
	versions, err := a.volumeWriter().Write(t.Context(), []objects.Object{volume(), claim()})
	if !errors.Is(err, objects.ErrConflict) || len(versions) != 1 {
		t.Errorf("write: got %v, %v, want one version and ErrConflict", versions, err)
	}
}
