package snapshot

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/shardsched/shardsched/cmd/internal/manifest"
)

// pageObjects is how many objects a request asks for, as kubectl does.
const pageObjects = 500

// Result is what a snapshot holds, and what it lacks.
type Result struct {
	// ResourceVersion is that of the first list, and of all others but for Drifted.
	ResourceVersion string
	// Counts are of objects, by kind.
	Counts map[string]int
	// Drifted are kinds that, in part or as a whole, are of a later moment. Absent are kinds that the API server does not serve.
	Drifted, Absent []string
}

// String is one line: what there is, and as of when.
func (r *Result) String() string {
	others := -r.Counts["Node"] - r.Counts["Pod"]
	for _, n := range r.Counts {
		others += n
	}
	text := fmt.Sprintf("%d nodes, %d pods and %d other objects at resource version %s", r.Counts["Node"], r.Counts["Pod"], others,
		r.ResourceVersion)
	if len(r.Drifted) > 0 {
		text += "; a little later: " + strings.Join(r.Drifted, ", ")
	}
	if len(r.Absent) > 0 {
		text += "; not served: " + strings.Join(r.Absent, ", ")
	}
	return text
}

// Read calls each with every object, its kind and version set, kind by kind in the order of manifest.Kinds. What each returns ends it.
// The error names all kinds that may not be listed.
func Read(ctx context.Context, config *rest.Config, each func(runtime.Object) error) (*Result, error) {
	httpClient, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("reach the API server: %w", err)
	}
	r := &reader{config: config, http: httpClient, each: each, result: Result{Counts: map[string]int{}}}
	var forbidden []string
	for _, k := range manifest.Kinds() {
		err := r.kind(ctx, k)
		switch {
		case apierrors.IsForbidden(err) && r.isAbsent(ctx, k): // authorization comes first
			r.result.Absent = append(r.result.Absent, k.Plural)
		case apierrors.IsForbidden(err):
			forbidden = append(forbidden, k.Plural)
		case err != nil:
			return nil, fmt.Errorf("list %s: %w", k.Plural, err)
		}
	}
	if len(forbidden) > 0 {
		return nil, fmt.Errorf("the API server does not let this user list %s in all namespaces, and without them a snapshot would mislead: "+
			"docs/operations.md, \"Objects\", has a ClusterRole", strings.Join(forbidden, ", "))
	}
	return &r.result, nil
}

type reader struct {
	config *rest.Config
	http   *http.Client
	each   func(runtime.Object) error
	result Result
}

// isAbsent tells whether the API server says that it does not serve the version of a kind.
func (r *reader) isAbsent(ctx context.Context, k manifest.Kind) bool {
	client, err := r.client(k)
	return err == nil && k.Group != "" && apierrors.IsNotFound(client.Get().AbsPath("/apis", k.Group, k.Version).Do(ctx).Error())
}

// kind lists all objects of a kind.
func (r *reader) kind(ctx context.Context, k manifest.Kind) error {
	client, err := r.client(k)
	if err != nil {
		return err
	}
	o := metav1.ListOptions{Limit: pageObjects}
	if r.result.ResourceVersion != "" {
		o.ResourceVersion, o.ResourceVersionMatch = r.result.ResourceVersion, metav1.ResourceVersionMatchExact
	}
	drifted := false
	for {
		list, err := scheme.Scheme.New(k.GroupVersion().WithKind(k.Kind + "List"))
		if err != nil {
			return err
		}
		err = client.Get().Resource(k.Plural).VersionedParams(&o, scheme.ParameterCodec).Do(ctx).Into(list)
		if next, again := later(o, err); again {
			// At most one more try a page: what is asked for next names no version, and goes on from where the last page ended.
			o, drifted = next, true
			continue
		}
		if apierrors.IsNotFound(err) {
			r.result.Absent = append(r.result.Absent, k.Plural)
			return nil
		}
		if err != nil {
			return err
		}
		if err := r.page(k, list); err != nil {
			return err
		}
		of, err := meta.ListAccessor(list)
		if err != nil {
			return err
		}
		if r.result.ResourceVersion == "" {
			r.result.ResourceVersion = of.GetResourceVersion()
		}
		if of.GetContinue() == "" {
			break
		}
		o = metav1.ListOptions{Limit: pageObjects, Continue: of.GetContinue()}
	}
	if drifted {
		r.result.Drifted = append(r.result.Drifted, k.Plural)
	}
	return nil
}

// later is how to go on where the moment that was asked for is gone, or is none of this kind's: with the objects as they are now.
func later(o metav1.ListOptions, err error) (next metav1.ListOptions, again bool) {
	next = metav1.ListOptions{Limit: o.Limit}
	gone := apierrors.IsResourceExpired(err) || apierrors.IsGone(err) || apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge)
	switch status := apierrors.APIStatus(nil); {
	case !gone:
		return o, false
	case o.Continue == "":
		return next, o.ResourceVersion != ""
	case errors.As(err, &status) && status.Status().ListMeta.Continue != "":
		next.Continue = status.Status().ListMeta.Continue
		return next, true
	}
	return o, false
}

// page hands on the objects of one page.
func (r *reader) page(k manifest.Kind, list runtime.Object) error {
	return meta.EachListItem(list, func(obj runtime.Object) error {
		obj.GetObjectKind().SetGroupVersionKind(k.GroupVersionKind)
		trim(obj.(metav1.Object))
		r.result.Counts[k.Kind]++
		return r.each(obj)
	})
}

// trim leaves out what says nothing to a scheduler, and may be as large as all else.
func trim(obj metav1.Object) {
	obj.SetManagedFields(nil)
	if notes := obj.GetAnnotations(); notes[v1.LastAppliedConfigAnnotation] != "" {
		delete(notes, v1.LastAppliedConfigAnnotation)
		obj.SetAnnotations(notes)
	}
}

// client is one for the kind's version of the API.
func (r *reader) client(k manifest.Kind) (*rest.RESTClient, error) {
	c := rest.CopyConfig(r.config)
	version := k.GroupVersion()
	c.GroupVersion, c.APIPath = &version, "/apis"
	if version.Group == "" {
		c.APIPath = "/api"
	}
	c.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	c.ContentType, c.AcceptContentTypes = runtime.ContentTypeProtobuf, runtime.ContentTypeProtobuf+","+runtime.ContentTypeJSON
	c.QPS = -1 // one request at a time: the API server's own priority and fairness is enough
	return rest.RESTClientForConfigAndClient(c, r.http)
}
