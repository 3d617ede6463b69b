package rules

import (
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/shardsched/shardsched/coordinator/compile"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// Arguments is the type of a plugin's arguments.
type Arguments struct {
	// Version is their group and version; their kind is the plugin's name and "Args".
	Version schema.GroupVersion
	// Empty makes arguments that say nothing.
	Empty func() runtime.Object
	// Complete fills in the defaults (upstream: pkg/scheduler/apis/config/v1/defaults.go, with the feature gates of 1.36).
	Complete func(runtime.Object)
	// Validate checks completed arguments (upstream: validation_pluginargs.go, with the feature gates of 1.36).
	Validate func(*field.Path, runtime.Object) field.ErrorList
	// give puts them where compiling looks for them; nil: Rule.Give does.
	give func(*compile.ProfileConfig, runtime.Object)
}

// Give has pods compiled by arguments of the plugin.
func (r *Rule) Give(c *compile.ProfileConfig, args runtime.Object) {
	if r.Arguments.give != nil {
		r.Arguments.give(c, args)
		return
	}
	if c.Arguments == nil {
		c.Arguments = map[pb.Plugin]runtime.Object{}
	}
	c.Arguments[r.Plugin] = args
}

// arguments makes Arguments of functions on the type itself. place is a field for them in ProfileConfig; nil: they have none, and
// Part.Write gets them.
func arguments[T any, P interface {
	*T
	runtime.Object
}](complete func(P), validate func(*field.Path, P) field.ErrorList, place func(*compile.ProfileConfig) *T) *Arguments {
	made := &Arguments{
		Version:  configv1.SchemeGroupVersion,
		Empty:    func() runtime.Object { return P(new(T)) },
		Complete: func(o runtime.Object) { complete(o.(P)) },
		Validate: func(path *field.Path, o runtime.Object) field.ErrorList { return validate(path, o.(P)) },
	}
	if place != nil {
		made.give = func(c *compile.ProfileConfig, o runtime.Object) { *place(c) = *o.(P) }
	}
	return made
}

// ours are arguments of a plugin that upstream does not have.
func ours[T any, P interface {
	*T
	runtime.Object
}](complete func(P), validate func(*field.Path, P) field.ErrorList, place func(*compile.ProfileConfig) *T) *Arguments {
	a := arguments(complete, validate, place)
	a.Version = compile.CELGroupVersion
	return a
}

// orElse fills in a default.
func orElse[T any](p **T, value T) {
	if *p == nil {
		*p = &value
	}
}

// between refuses a value outside a range, ends included.
func between(path *field.Path, value, least, most int32) field.ErrorList {
	if value >= least && value <= most {
		return nil
	}
	return field.ErrorList{field.Invalid(path, value, fmt.Sprintf("not in valid range [%d, %d]", least, most))}
}

// fieldErrors takes apart what a library returned as one error. What is no field
// error becomes one of path.
func fieldErrors(path *field.Path, err error) field.ErrorList {
	if err == nil {
		return nil
	}
	var list field.ErrorList
	for _, e := range utilerrors.Flatten(utilerrors.NewAggregate([]error{err})).Errors() {
		var f *field.Error
		if !errors.As(e, &f) {
			f = field.InternalError(path, e)
		}
		list = append(list, f)
	}
	return list
}
