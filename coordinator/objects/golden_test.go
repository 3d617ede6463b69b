package objects_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"sigs.k8s.io/yaml"

	"github.com/shardsched/shardsched/coordinator/objects"
)

// TestManifests reads manifests as the API server would. The commands:
//
//	check      what is wrong with each, after its defaults are filled in
//	default    each with its defaults
//	create     pods as they are created: label keys merged into selectors
//	claims     the claims of each pod's ephemeral volumes
//	class      the default storage class among them
func TestManifests(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			var all []objects.Object
			for _, text := range strings.Split(d.Input, "\n---\n") {
				raw, err := yaml.YAMLToJSONStrict([]byte(text))
				if err != nil {
					return fmt.Sprintln(err)
				}
				obj, err := objects.Decode(raw)
				if err != nil {
					return fmt.Sprintln(err)
				}
				objects.Default(obj)
				all = append(all, obj)
			}
			var b strings.Builder
			switch d.Cmd {
			case "check":
				check(&b, all)
			case "default", "create":
				for _, obj := range all {
					if p, ok := obj.(*v1.Pod); ok && d.Cmd == "create" {
						objects.MergeLabelKeys(p, p.Labels)
						check(&b, all)
					}
					show(t, &b, obj)
				}
			case "claims":
				for _, obj := range all {
					for _, c := range objects.EphemeralClaims(obj.(*v1.Pod)) {
						show(t, &b, c)
					}
				}
			case "class":
				classOf(&b, all)
			default:
				t.Fatalf("%s: unknown command %s", d.Pos, d.Cmd)
			}
			return b.String()
		})
	})
}

func check(b *strings.Builder, all []objects.Object) {
	for _, obj := range all {
		errs := objects.Validate(obj)
		for _, err := range errs {
			fmt.Fprintln(b, err)
		}
		if len(errs) == 0 {
			fmt.Fprintf(b, "%s is valid\n", objects.RefOf(obj))
		}
	}
}

func show(t *testing.T, b *strings.Builder, obj objects.Object) {
	raw, err := yaml.Marshal(obj)
	if err != nil {
		t.Fatal(err)
	}
	b.Write(raw)
}

func classOf(b *strings.Builder, all []objects.Object) {
	var classes []*storagev1.StorageClass
	for _, obj := range all {
		classes = append(classes, obj.(*storagev1.StorageClass))
	}
	if c := objects.DefaultStorageClass(classes); c != nil {
		fmt.Fprintln(b, c.Name)
	} else {
		fmt.Fprintln(b, "none")
	}
}
