package kube_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/shardsched/shardsched/coordinator/devices"
	"github.com/shardsched/shardsched/coordinator/kube"
	"github.com/shardsched/shardsched/coordinator/objects"
)

var (
	_ devices.Writer       = (*kube.ClaimWriter)(nil)
	_ devices.StatusWriter = (*kube.ClaimWriter)(nil)
)

func deviceClaim(version string) *resourcev1.ResourceClaim {
	return &resourcev1.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: "c", UID: "uid-c", ResourceVersion: version, Finalizers: []string{resourcev1.Finalizer},
		},
		Status: resourcev1.ResourceClaimStatus{ReservedFor: []resourcev1.ResourceClaimConsumerReference{{
			Resource: "pods", Name: "p", UID: "uid-p",
		}}},
	}
}

func (a *api) claimWriter() *kube.ClaimWriter {
	return kube.NewClaimWriter(kube.ClaimWriterConfig{Clients: a.clients(), After: new(waits).after})
}

func TestClaimsAreWrittenWhole(t *testing.T) {
	ctx := context.Background()
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p", UID: "uid-p"}}
	type claim = *resourcev1.ResourceClaim
	type writer = *kube.ClaimWriter
	const path = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
	for name, x := range map[string]struct {
		call func(writer) (claim, error)
		want string
		// patch is the body; empty: the claim is.
		patch string
	}{
		"the claim is read":    {func(w writer) (claim, error) { return w.Get(ctx, "default", "c") }, "GET " + path + "/c", "-"},
		"a claim is made":      {func(w writer) (claim, error) { return w.Create(ctx, deviceClaim("")) }, "POST " + path, ""},
		"its finalizer is set": {func(w writer) (claim, error) { return w.Update(ctx, deviceClaim("7")) }, "PUT " + path + "/c", ""},
		"its status is written": {
			func(w writer) (claim, error) { return w.UpdateStatus(ctx, deviceClaim("7")) }, "PUT " + path + "/c/status", "",
		},
		"a pod gives its reservation back": {
			func(w writer) (claim, error) { return nil, w.Unreserve(ctx, deviceClaim("7"), p) }, "PATCH " + path + "/c/status",
			`{"metadata":{"uid":"uid-c"},"status":{"reservedFor":[{"$patch":"delete","uid":"uid-p"}]}}`,
		},
		"a claim is deleted": {
			func(w writer) (claim, error) { return nil, w.Delete(ctx, deviceClaim("7")) }, "DELETE " + path + "/c", "-",
		},
		"a pod is told of its claim": {
			func(w writer) (claim, error) {
				return nil, w.TellPod(ctx, p, &v1.PodExtendedResourceClaimStatus{
					ResourceClaimName: "c",
					RequestMappings: []v1.ContainerExtendedResourceRequest{
						{ContainerName: "a", ResourceName: "example.com/gpu", RequestName: "r"},
					},
				})
			},
			"PATCH /api/v1/namespaces/default/pods/p/status",
			`{"metadata":{"uid":"uid-p"},"status":{"extendedResourceClaimStatus":{"requestMappings":` +
				`[{"containerName":"a","resourceName":"example.com/gpu","requestName":"r"}],"resourceClaimName":"c"}}}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			var answer objects.Object = deviceClaim("8")
			if strings.Contains(x.want, "/pods/") {
				answer = &v1.Pod{Status: v1.PodStatus{ExtendedResourceClaimStatus: &v1.PodExtendedResourceClaimStatus{ResourceClaimName: "c"}}}
			}
			a := newAPI(t, script(found(answer)))
			got, err := x.call(a.claimWriter())
			if err != nil || got != nil && got.ResourceVersion != "8" {
				t.Fatalf("got %v, %v, want version 8", got, err)
			}
			s := a.all()[0]
			if s.String() != x.want {
				t.Errorf("request: got %s, want %s", s.String(), x.want)
			}
			switch x.patch {
			case "-":
				if len(s.body) > 0 {
					t.Errorf("body: got %q, want none", s.body)
				}
			case "":
				obj, err := runtime.Decode(scheme.Codecs.UniversalDeserializer(), s.body)
				c, ok := obj.(claim)
				if err != nil || !ok || c.Name != "c" || len(c.Status.ReservedFor) != 1 || len(c.Finalizers) != 1 {
					t.Errorf("body: got %v, %v, want the claim", obj, err)
				}
			default:
				if got, want := canonical(t, s.body), canonical(t, []byte(x.patch)); got != want {
					t.Errorf("patch:\n got %s\nwant %s", got, want)
				}
			}
		})
	}
}

func TestAnAPIServerThatDropsAPodsClaimIsAnError(t *testing.T) {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p", UID: "uid-p"}}
	w := newAPI(t, script(found(p))).claimWriter()
	err := w.TellPod(context.Background(), p, &v1.PodExtendedResourceClaimStatus{ResourceClaimName: "c"})
	if err == nil || !strings.Contains(err.Error(), "DRAExtendedResource is off") || errors.Is(err, objects.ErrUnknown) {
		t.Errorf("got %v, want an error that names the gate", err)
	}
}

func TestWhatBecomesOfAClaim(t *testing.T) {
	ctx := context.Background()
	update := func(w *kube.ClaimWriter) error { _, err := w.UpdateStatus(ctx, deviceClaim("7")); return err }
	unreserve := func(w *kube.ClaimWriter) error {
		return w.Unreserve(ctx, deviceClaim("7"), &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "uid-p"}})
	}
	unknown := func(err error) bool { return errors.Is(err, objects.ErrUnknown) }
	known := func(err error) bool { return err != nil && !unknown(err) }
	for name, x := range map[string]struct {
		call    func(*kube.ClaimWriter) error
		replies []reply
		want    func(error) bool // nil: no error
		times   int
	}{
		"it changed since":       {update, []reply{conflict("modified")}, apierrors.IsConflict, 1},
		"it is gone":             {update, []reply{gone("resourceclaims")}, apierrors.IsNotFound, 1},
		"it is forbidden":        {update, []reply{forbidden()}, apierrors.IsForbidden, 1},
		"the API server is busy": {update, []reply{tooMany("1"), found(deviceClaim("8"))}, nil, 2},
		"it stays busy":          {update, []reply{tooMany("1")}, known, 10},
		"the answer is lost, and nobody writes twice":   {update, []reply{lost(), conflict("modified")}, unknown, 1},
		"the answer makes no sense":                     {update, []reply{{code: 200, raw: "<html>"}}, unknown, 1},
		"the answer of a patch is lost: it is repeated": {unreserve, []reply{lost(), found(deviceClaim("8"))}, nil, 2},
	} {
		t.Run(name, func(t *testing.T) {
			a := newAPI(t, script(x.replies...))
			err := x.call(a.claimWriter())
			if x.want == nil && err != nil || x.want != nil && !x.want(err) {
				t.Errorf("got %v", err)
			}
			if got := len(a.all()); got != x.times {
				t.Errorf("requests: got %d, want %d", got, x.times)
			}
		})
	}
}
