package cli

import (
	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"

	"github.com/shardsched/shardsched/coordinator/objects"
)

// withoutEnvironment is an object without environment variables, which may have secrets in them. It is a copy where it has some.
func withoutEnvironment(obj objects.Object) objects.Object {
	if spec := podSpecOf(obj); spec == nil || !hasEnvironment(spec) {
		return obj
	}
	bare := obj.DeepCopyObject().(objects.Object)
	spec := podSpecOf(bare)
	for _, list := range [][]v1.Container{spec.Containers, spec.InitContainers} {
		for i := range list {
			list[i].Env, list[i].EnvFrom = nil, nil
		}
	}
	for i := range spec.EphemeralContainers {
		spec.EphemeralContainers[i].Env, spec.EphemeralContainers[i].EnvFrom = nil, nil
	}
	bare.SetAnnotations(withoutApplied(bare.GetAnnotations()))
	return bare
}

// withoutApplied leaves kubectl's copy of the manifest out, which has the environment, too.
func withoutApplied(annotations map[string]string) map[string]string {
	delete(annotations, v1.LastAppliedConfigAnnotation)
	return annotations
}

func hasEnvironment(spec *v1.PodSpec) bool {
	for _, list := range [][]v1.Container{spec.Containers, spec.InitContainers} {
		for i := range list {
			if len(list[i].Env)+len(list[i].EnvFrom) > 0 {
				return true
			}
		}
	}
	return len(spec.EphemeralContainers) > 0
}

// podSpecOf is the spec of a pod, or of the pods that an object makes; nil: it makes none.
func podSpecOf(obj objects.Object) *v1.PodSpec {
	switch obj := obj.(type) {
	case *v1.Pod:
		return &obj.Spec
	case *appsv1.ReplicaSet:
		return &obj.Spec.Template.Spec
	case *appsv1.StatefulSet:
		return &obj.Spec.Template.Spec
	case *v1.ReplicationController:
		if obj.Spec.Template != nil {
			return &obj.Spec.Template.Spec
		}
	}
	return nil
}
