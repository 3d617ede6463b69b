package store

import (
	"strings"
	"testing"

	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/shardsched/shardsched/coordinator/objects"
)

// An error of an object as a whole names no field.
func TestAnObjectThatIsTooLargeIsToldAsAWhole(t *testing.T) {
	p := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "huge"}, Description: strings.Repeat("a", objects.MaxBytes)}
	invalid := &InvalidError{Objects: []InvalidObject{{Ref: objects.RefOf(p), Errs: objects.Validate(p)}}}
	if got := invalid.Error(); !strings.HasPrefix(got, "PriorityClass huge: Invalid value: 1048") {
		t.Errorf("got %q, want the object and what is wrong with it", got)
	}
}
