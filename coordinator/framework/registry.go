package framework

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	fwk "k8s.io/kube-scheduler/framework"
	"sigs.k8s.io/yaml"
)

// PluginFactory makes a plugin. args is what the profile's pluginConfig has for it, mostly a
// *runtime.Unknown with JSON; nil: nothing.
type PluginFactory = func(ctx context.Context, args runtime.Object, h fwk.Handle) (fwk.Plugin, error)

// Registry holds the plugins that there are, by name.
type Registry map[string]PluginFactory

// Register adds a plugin. A name can be had once.
func (r Registry) Register(name string, factory PluginFactory) error {
	if _, ok := r[name]; ok {
		return fmt.Errorf("a plugin named %v already exists", name)
	}
	r[name] = factory
	return nil
}

// Unregister takes a plugin out.
func (r Registry) Unregister(name string) error {
	if _, ok := r[name]; !ok {
		return fmt.Errorf("no plugin named %v exists", name)
	}
	delete(r, name)
	return nil
}

// Merge adds all plugins of another registry.
func (r Registry) Merge(in Registry) error {
	for name, factory := range in {
		if err := r.Register(name, factory); err != nil {
			return err
		}
	}
	return nil
}

// BuiltIn is the factory of a built-in plugin: one that takes its place at points in the order of
// a profile, and is evaluated elsewhere. acts makes what runs here, at those of the points whose
// methods it has; nil: nothing does. Nobody is told of events that it waits for.
func BuiltIn(name string, acts PluginFactory, points ...Point) PluginFactory {
	return func(ctx context.Context, args runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
		made := &builtIn{name: name, points: points}
		if acts == nil {
			return made, nil
		}
		var err error
		made.acts, err = acts(ctx, args, h)
		return made, err
	}
}

// builtIn stands for a built-in plugin.
type builtIn struct {
	name   string
	points []Point
	acts   fwk.Plugin // nil: nothing runs here
}

// Name is part of fwk.Plugin.
func (b *builtIn) Name() string { return b.name }

// at tells whether a plugin is at a point.
func at(plugin fwk.Plugin, p Point) bool {
	if b, ok := plugin.(*builtIn); ok {
		return slices.Contains(b.points, p)
	}
	return p.implementedBy(plugin)
}

// acting is what runs of a plugin at a point; nil: nothing does.
func acting(plugin fwk.Plugin, p Point) fwk.Plugin {
	if b, ok := plugin.(*builtIn); ok {
		plugin = b.acts
	}
	if plugin == nil || !p.implementedBy(plugin) {
		return nil
	}
	return plugin
}

// DecodeInto decodes a factory's args, which must be *runtime.Unknown or nil, into a struct.
func DecodeInto(args runtime.Object, into any) error {
	if args == nil {
		return nil
	}
	unknown, ok := args.(*runtime.Unknown)
	if !ok {
		return fmt.Errorf("want args of type runtime.Unknown, got %T", args)
	}
	if unknown.Raw == nil {
		return nil
	}
	switch unknown.ContentType {
	case runtime.ContentTypeJSON, "":
		return utiljson.Unmarshal(unknown.Raw, into)
	case runtime.ContentTypeYAML:
		return yaml.Unmarshal(unknown.Raw, into)
	default:
		return fmt.Errorf("not supported content type %s", unknown.ContentType)
	}
}

// Args makes a factory's args from what marshals to JSON.
func Args(v any) (runtime.Object, error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("plugin args: %w", err)
	}
	return &runtime.Unknown{Raw: raw, ContentType: runtime.ContentTypeJSON}, nil
}
