package claims

import (
	"errors"
	"slices"
	"testing"

	"github.com/cockroachdb/datadriven"
	v1 "k8s.io/api/core/v1"
)

// Golden runs the scripts below a folder. A script has two commands:
//
//	cluster                                   what Read reads
//	claims [node=NAME] [off=(FEATURE,…)]        what Ask reads; prints what answer says of the first node, or the named one
func Golden(t *testing.T, folder string, answer func(*testing.T, *Scene, *v1.Node) string) {
	datadriven.Walk(t, folder, func(t *testing.T, path string) {
		var base *Scene
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			if d.Cmd == "cluster" {
				scene, err := Read(d.Input)
				if err != nil {
					d.Fatalf(t, "%v", err)
				}
				base = scene
				return ""
			}
			scene := *base
			var off []string
			if arg, ok := d.Arg("off"); ok {
				off = arg.Vals
			}
			if err := errors.Join(scene.Ask(d.Input), scene.Off(off...)); err != nil {
				d.Fatalf(t, "%v", err)
			}
			node := scene.Nodes[0]
			if arg, ok := d.Arg("node"); ok {
				node = scene.Nodes[slices.IndexFunc(scene.Nodes, func(n *v1.Node) bool { return n.Name == arg.Vals[0] })]
			}
			return answer(t, &scene, node)
		})
	})
}
