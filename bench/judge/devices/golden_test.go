package devices

import (
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/shardsched/shardsched/internal/testkit/claims"
)

// TestGoldenScriptsAreUpstreams has upstream answer the golden scripts of scorer/devices.
func TestGoldenScriptsAreUpstreams(t *testing.T) {
	theirs := newUpstream()
	claims.Golden(t, "../../../scorer/devices/testdata", func(t *testing.T, scene *claims.Scene, node *v1.Node) string {
		allocator, err := theirs.allocator(scene)
		if err != nil {
			t.Fatal(err)
		}
		result, err := allocator.Allocate(t.Context(), node, scene.Claims)
		return answer(scene, result, err)
	})
}
