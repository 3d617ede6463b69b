// Package args reads what a profile's pluginConfig says of a plugin.
package args

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"
)

// Decode reads the arguments of a plugin into a struct with json tags; a field that it does not
// have is an error. nil arguments leave it as it is.
func Decode(plugin string, obj runtime.Object, into any) error {
	if obj == nil {
		return nil
	}
	raw, ok := obj.(*runtime.Unknown)
	if !ok {
		return fmt.Errorf("args of %s are %T, expected *runtime.Unknown", plugin, obj)
	}
	if len(raw.Raw) == 0 {
		return nil
	}
	if err := yaml.UnmarshalStrict(raw.Raw, into); err != nil {
		return fmt.Errorf("args of %s: %w", plugin, err)
	}
	return nil
}
