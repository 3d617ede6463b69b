package objects

import (
	"reflect"
	"strings"

	v1 "k8s.io/api/core/v1"
)

// sources names the sources that a volume has, as its JSON does: a valid one has exactly
// one.
func sources[S v1.VolumeSource | v1.PersistentVolumeSource](s S) []string {
	var names []string
	v := reflect.ValueOf(s)
	for i := range v.NumField() {
		if f := v.Field(i); f.Kind() == reflect.Pointer && !f.IsNil() {
			name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
			names = append(names, name)
		}
	}
	return names
}
