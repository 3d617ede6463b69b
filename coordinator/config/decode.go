package config

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	configv1 "k8s.io/kube-scheduler/config/v1"
	kjson "sigs.k8s.io/json"
)

// kind is what a file must be.
const kind = "KubeSchedulerConfiguration"

func accepted() string {
	return fmt.Sprintf("accepted is apiVersion %s, kind %s", configv1.SchemeGroupVersion, kind)
}

// decode fills the v1 types, arguments of plugins included.
func decode(doc *document) (*configv1.KubeSchedulerConfiguration, error) {
	found := problems{doc: doc}
	if !found.header() {
		return nil, found.err()
	}
	object := &configv1.KubeSchedulerConfiguration{}
	found.strict("", doc.json, func() any { return &configv1.KubeSchedulerConfiguration{} }, object)
	for i := range object.Profiles {
		for j := range object.Profiles[i].PluginConfig {
			found.arguments(fmt.Sprintf("profiles[%d].pluginConfig[%d]", i, j), &object.Profiles[i].PluginConfig[j])
		}
	}
	return object, found.err()
}

// header holds the document to the one version and kind that there is.
func (p *problems) header() bool {
	var top map[string]json.RawMessage
	if err := kjson.UnmarshalCaseSensitivePreserveInts(p.doc.json, &top); err != nil {
		if isSyntax, _ := kjson.SyntaxErrorOffset(err); isSyntax {
			p.named("", clip(err.Error()))
		} else {
			p.named("", "expected an object; "+accepted())
		}
		return false
	}
	version, kindIs, ok := p.gvk("", top)
	switch {
	case !ok:
	case kindIs == "":
		p.at("kind", "Object 'Kind' is missing; "+accepted())
	case version == "":
		p.at("apiVersion", "Object 'apiVersion' is missing; "+accepted())
	case strings.Count(version, "/") > 1:
		p.at("apiVersion", fmt.Sprintf("unexpected GroupVersion string: %s; %s", clip(version), accepted()))
	case version != configv1.SchemeGroupVersion.String():
		text := fmt.Sprintf("no kind %q is registered for version %q", clip(kindIs), clip(version))
		if since := removed(version); since != "" && kindIs == kind {
			text += ": it was removed in Kubernetes " + since
			if isOlder(version) {
				text += ", and 'shardsched convert config' makes v1 of it"
			}
		}
		p.at("apiVersion", text+"; "+accepted())
	case kindIs != kind && isArguments(kindIs):
		p.at("kind", fmt.Sprintf("couldn't decode as %s, got %s; %s", kind, configv1.SchemeGroupVersion.WithKind(kindIs), accepted()))
	case kindIs != kind:
		p.at("kind", fmt.Sprintf("no kind %q is registered for version %q; %s", clip(kindIs), version, accepted()))
	default:
		return true
	}
	return false
}

// gvk reads apiVersion and kind of the object at path.
func (p *problems) gvk(path string, top map[string]json.RawMessage) (version, kindIs string, ok bool) {
	ok = true
	for _, f := range []struct {
		name string
		into *string
	}{{"apiVersion", &version}, {"kind", &kindIs}} {
		raw, there := top[f.name]
		if there && json.Unmarshal(raw, f.into) != nil {
			p.at(strings.TrimPrefix(path+"."+f.name, "."), "expected a string")
			ok = false
		}
	}
	return version, kindIs, ok
}

// removed is the Kubernetes release that an older version of the file went away with;
// empty: it is no older version.
func removed(version string) string {
	switch version {
	case "kubescheduler.config.k8s.io/v1beta3":
		return "1.29"
	case "kubescheduler.config.k8s.io/v1beta2":
		return "1.28"
	case "kubescheduler.config.k8s.io/v1beta1":
		return "1.23"
	case "kubescheduler.config.k8s.io/v1alpha2", "kubescheduler.config.k8s.io/v1alpha1", "componentconfig/v1alpha1":
		return "1.20 or before"
	}
	return ""
}

// strict decodes JSON that stands at path: first for fields that there are none of, then for
// values of the wrong type. fresh makes an empty object like into.
func (p *problems) strict(path string, raw []byte, fresh func() any, into any) {
	strict, err := kjson.UnmarshalStrict(raw, into)
	for _, e := range strict {
		p.strictError(path, e)
	}
	if err == nil {
		return
	}
	before := len(p.list)
	p.culprits(path, raw, fresh)
	if len(p.list) == before {
		p.at(path, reword(err))
	}
}

// strictError notes an unknown field, or one that JSON has twice.
func (p *problems) strictError(path string, err error) {
	what, quoted, _ := strings.Cut(err.Error(), ` "`)
	below := strings.TrimSuffix(quoted, `"`)
	if f, ok := err.(kjson.FieldError); ok {
		below = f.FieldPath()
	}
	full := strings.TrimPrefix(path+"."+below, ".")
	p.named(full, fmt.Sprintf("%s %q", what, clip(full)))
}

// What culprits may cost and say.
const (
	maxProbes   = 10_000
	maxCulprits = 10
)

// culprits finds the values that decoding stumbles over, whatever type it is that
// stumbles: each leaf of the document is decoded alone, in place.
func (p *problems) culprits(path string, raw []byte, fresh func() any) {
	var root any
	if kjson.UnmarshalCaseSensitivePreserveInts(raw, &root) != nil {
		return
	}
	probes, told := 0, 0
	leaves(root, path, func(at string, alone any) bool {
		encoded, err := json.Marshal(alone)
		if err == nil {
			err = kjson.UnmarshalCaseSensitivePreserveInts(encoded, fresh())
		}
		if err != nil {
			p.at(at, reword(err))
			told++
		}
		probes++
		return probes < maxProbes && told < maxCulprits
	})
}

// leaves yields each leaf of a value with its path, and a value of the same shape that
// holds that leaf only. It tells whether yield wants more.
func leaves(v any, path string, yield func(path string, alone any) bool) bool {
	switch v := v.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			more := leaves(v[key], strings.TrimPrefix(path+"."+key, "."), func(at string, alone any) bool {
				return yield(at, map[string]any{key: alone})
			})
			if !more {
				return false
			}
		}
		if len(v) > 0 {
			return true
		}
	case []any:
		for i, item := range v {
			more := leaves(item, fmt.Sprintf("%s[%d]", path, i), func(at string, alone any) bool {
				return yield(at, []any{alone})
			})
			if !more {
				return false
			}
		}
		if len(v) > 0 {
			return true
		}
	}
	return yield(path, v)
}

// reword drops Go's names of fields, which are not the file's.
func reword(err error) string {
	text := strings.TrimPrefix(err.Error(), "json: ")
	into := regexp.MustCompile(`into Go struct field \S+ of type`)
	return clip(into.ReplaceAllString(text, "into a value of type"))
}

// arguments decodes the arguments of one plugin, where it has any; others stay as they are.
func (p *problems) arguments(path string, c *configv1.PluginConfig) {
	of := argumentsOf(c.Name)
	if of == nil {
		return
	}
	at, want := path+".args", of.Version.WithKind(c.Name+"Args")
	object := of.Empty()
	c.Args.Object = object
	if len(c.Args.Raw) == 0 {
		return
	}
	var top map[string]json.RawMessage
	if kjson.UnmarshalCaseSensitivePreserveInts(c.Args.Raw, &top) != nil {
		p.at(at, "expected an object")
		return
	}
	version, kindIs, ok := p.gvk(at, top)
	if !ok {
		return
	}
	if kindIs == "" {
		kindIs = want.Kind
	}
	switch group, err := schema.ParseGroupVersion(version); {
	case err != nil:
		p.at(at+".apiVersion", clip(err.Error()))
	case version != "" && group != want.GroupVersion():
		p.at(at+".apiVersion", fmt.Sprintf("no kind %q is registered for version %q", clip(kindIs), clip(version)))
	case kindIs != want.Kind && (isArguments(kindIs) || kindIs == kind):
		p.at(at+".kind", fmt.Sprintf("args for plugin %s were not of type %s, got %s.%s", c.Name, want.GroupKind(), kindIs, want.Group))
	case kindIs != want.Kind:
		p.at(at+".kind", fmt.Sprintf("no kind %q is registered for version %q", clip(kindIs), want.GroupVersion()))
	default:
		p.strict(at, c.Args.Raw, func() any { return of.Empty() }, object)
	}
}

// isArguments tells whether a kind is that of some plugin's arguments.
func isArguments(kind string) bool {
	plugin, ok := strings.CutSuffix(kind, "Args")
	return ok && argumentsOf(plugin) != nil
}
