package manifest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Object is an object of the input with the place that it stands at.
type Object struct {
	// Value is one of the accepted kinds, with its kind and namespace filled in.
	Value           runtime.Object
	Kind            string
	Namespace, Name string
	// Over is the cluster's own object that this one, of a manifest, is applied to; nil: none.
	Over *Object

	doc  *document
	path string // of the object within its document; empty: the whole
	// unscaled: a manifest that leaves spec.replicas to others.
	unscaled bool
}

// String is "Pod default/web", or "Node n1".
func (o Object) String() string { return describe(o.Kind, o.Namespace, o.Name) }

func describe(kind, namespace, name string) string {
	name = Clip(cmp.Or(name, "without a name"))
	if namespace != "" {
		name = Clip(namespace) + "/" + name
	}
	return kind + " " + name
}

// Position is where a field stands, or would stand; empty: the object.
func (o Object) Position(field string) Position { return o.doc.position(join(o.path, field)) }

// Error says what is wrong with a field; empty: with the object.
func (o Object) Error(field, problem string) *Error {
	return &Error{Position: o.Position(field), Object: o.String(), Field: field, Problem: problem}
}

func join(path, field string) string {
	if path == "" || field == "" || strings.HasPrefix(field, "[") {
		return path + field
	}
	return path + "." + field
}

// piece is the JSON of one object to be, with its place.
type piece struct {
	doc  *document
	path string
	raw  []byte
	list listType
}

// header is what every object has.
type header struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Name      string `json:"name"`
		Namespace string `json:"namespace"`
	} `json:"metadata"`
}

func (p piece) fail(h header, field, problem string) *Error {
	e := &Error{Position: p.doc.position(join(p.path, field)), Field: field, Problem: problem}
	if h.Kind != "" && h.Metadata.Name != "" {
		e.Object = describe(h.Kind, h.Metadata.Namespace, h.Metadata.Name)
	}
	return e
}

// outcome is what reading some pieces came to.
type outcome struct {
	objects  []Object
	errors   []*Error
	warnings []*Error
	skipped  []schema.GroupKind
	custom   []schema.GroupKind // kinds that CustomResourceDefinitions define
	foreign  []foreigner
	scalers  []Autoscaler
}

// foreigner is an object of a kind that is not Kubernetes'.
type foreigner struct {
	kind schema.GroupKind
	err  *Error
}

// reader turns documents into objects. It is immutable.
type reader struct {
	kinds     *kinds
	namespace string
	check     func(runtime.Object) field.ErrorList // nil: nothing to check
	lenient   bool                                 // a field that does not exist is no reason to leave an object out
}

func (r *reader) document(d *document) *outcome {
	out := &outcome{}
	raw, err := d.toJSON()
	if err != nil {
		out.errors = append(out.errors, err)
		return out
	}
	r.piece(piece{doc: d, raw: raw, list: d.list}, out)
	return out
}

// piece reads one object, or opens one list.
func (r *reader) piece(p piece, out *outcome) {
	switch firstByte(p.raw) {
	case '{':
	case '[':
		r.items(p, "", p.raw, listType{}, out)
		return
	case 'n': // null: an empty document
		return
	default:
		out.errors = append(out.errors, p.fail(header{}, "", "expected an object, got "+Clip(string(p.raw))))
		return
	}
	var h header
	if err := unmarshal(p.raw, &h); err != nil {
		out.errors = append(out.errors, p.fail(header{}, locate(p.raw, &h, err), reword(err)))
		return
	}
	h.Kind = cmp.Or(h.Kind, p.list.item())
	h.APIVersion = cmp.Or(h.APIVersion, p.list.apiVersion)
	if e := p.missing(h); e != nil {
		out.errors = append(out.errors, e)
		return
	}
	if h.Kind == "Status" && h.APIVersion == "v1" {
		problem := "a Status, and no objects"
		var said metav1.Status
		if err := unmarshal(p.raw, &said); err == nil && said.Message+string(said.Reason) != "" {
			problem += ": whoever wrote this was told " + strconv.Quote(Clip(cmp.Or(said.Message, string(said.Reason))))
		}
		out.errors = append(out.errors, p.fail(header{}, "", problem))
		return
	}
	if (listType{kind: h.Kind}).isList() {
		r.list(p, h, out)
		return
	}
	r.object(p, h, out)
}

func (p piece) missing(h header) *Error {
	switch {
	case h.Kind == "" && h.APIVersion == "":
		problem := "apiVersion and kind are missing"
		if strings.HasSuffix(p.doc.file, "values.yaml") || strings.HasSuffix(p.doc.file, "Chart.yaml") {
			problem += " (this file belongs to a Helm chart: render the chart with `helm template` first)"
		}
		return p.fail(h, "", problem)
	case h.Kind == "":
		return p.fail(h, "kind", "is missing")
	case h.APIVersion == "":
		return p.fail(h, "apiVersion", "is missing")
	}
	return nil
}

func (r *reader) list(p piece, h header, out *outcome) {
	var list struct {
		Items json.RawMessage `json:"items"`
	}
	if err := unmarshal(p.raw, &list); err != nil {
		out.errors = append(out.errors, p.fail(h, "items", reword(err)))
		return
	}
	of := listType{kind: h.Kind}
	if of.item() != "" {
		of.apiVersion = h.APIVersion
	}
	r.items(p, "items", list.Items, of, out)
}

func (r *reader) items(p piece, field string, raw []byte, of listType, out *outcome) {
	var items []json.RawMessage
	if len(raw) > 0 {
		if err := unmarshal(raw, &items); err != nil {
			out.errors = append(out.errors, p.fail(header{}, field, reword(err)))
			return
		}
	}
	for i, item := range items {
		r.piece(piece{doc: p.doc, path: join(p.path, fmt.Sprintf("%s[%d]", field, i)), raw: item, list: of}, out)
	}
}

func (r *reader) object(p piece, h header, out *outcome) {
	gv, err := schema.ParseGroupVersion(h.APIVersion)
	if err != nil {
		out.errors = append(out.errors, p.fail(h, "apiVersion", Clip(err.Error())))
		return
	}
	gvk := gv.WithKind(h.Kind)
	kind, verdict, why := r.kinds.judge(gvk)
	switch verdict {
	case skip:
		out.skipped = append(out.skipped, gvk.GroupKind())
		if gvk.Kind == "CustomResourceDefinition" {
			if defined, ok := customKind(p.raw); ok {
				out.custom = append(out.custom, defined)
			}
		}
		if gvk.Group == "autoscaling" && gvk.Kind == "HorizontalPodAutoscaler" {
			if a, ok := autoscaler(h, p.raw, r.namespace); ok {
				out.scalers = append(out.scalers, a)
			}
		}
		return
	case foreign:
		out.foreign = append(out.foreign, foreigner{gvk.GroupKind(), p.fail(h, "kind", why)})
		return
	case refuse:
		out.errors = append(out.errors, p.fail(h, "kind", why))
		return
	}
	obj := kind.New()
	problems, fatal := decode(p.raw, obj)
	fatal = fatal || len(problems) > 0 && !r.lenient
	for _, one := range problems {
		e := p.fail(h, one.field, one.text)
		if fatal {
			out.errors = append(out.errors, e)
			continue
		}
		e.Problem += "; ignored"
		out.warnings = append(out.warnings, e)
	}
	if fatal {
		return
	}
	r.take(r.finish(p, kind, obj), out)
}

// take checks an object and keeps it.
func (r *reader) take(o Object, out *outcome) {
	if r.check != nil {
		errs := r.check(o.Value)
		for _, e := range errs {
			out.errors = append(out.errors, o.Error(e.Field, e.ErrorBody()))
		}
		if len(errs) > 0 {
			return
		}
	}
	out.objects = append(out.objects, o)
}

// finish fills in what the place says: a list's kind, the default namespace.
func (r *reader) finish(p piece, kind Kind, obj runtime.Object) Object {
	obj.GetObjectKind().SetGroupVersionKind(kind.GroupVersionKind)
	meta := obj.(metav1.Object)
	if kind.Namespaced && meta.GetNamespace() == "" {
		meta.SetNamespace(r.namespace)
	}
	o := Object{Value: obj, Kind: kind.Kind, Name: meta.GetName(), doc: p.doc, path: p.path}
	if replicas := replicasOf(obj); replicas != nil {
		o.unscaled = *replicas == nil // before it is defaulted
	}
	if kind.Namespaced {
		o.Namespace = meta.GetNamespace()
	}
	return o
}

// given takes an object that no file holds.
func (r *reader) given(obj runtime.Object, from string) *outcome {
	out := &outcome{}
	kind := r.kinds.byKind[obj.GetObjectKind().GroupVersionKind()]
	r.take(r.finish(piece{doc: &document{file: from}}, kind, obj), out)
	return out
}
