package objects

import (
	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	schedulingv1alpha2 "k8s.io/api/scheduling/v1alpha2"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

const (
	// maxAnnotationBytes is what all annotations of an object may take together.
	maxAnnotationBytes = 256 << 10
	// MaxBytes is what an encoded object may take: below etcd's 1.5 MiB a request.
	MaxBytes = 1 << 20
)

// Validate checks an object after Default. Every error names the field; long values
// are cut short in it.
func Validate(obj Object) field.ErrorList {
	c := &checker{}
	c.metadata(obj, field.NewPath("metadata"))
	switch obj := obj.(type) {
	case *v1.Node:
		c.node(obj)
	case *v1.Pod:
		c.pod = obj
		c.podSpec(&obj.Spec, field.NewPath("spec"))
	case *v1.Service:
		c.labels(field.NewPath("spec", "selector"), obj.Spec.Selector)
	case *v1.ReplicationController:
		c.replicationController(obj, field.NewPath("spec"))
	case *appsv1.ReplicaSet:
		c.owner(field.NewPath("spec"), "deployment", obj.Spec.Selector, obj.Spec.Replicas, obj.Spec.Template.Labels)
	case *appsv1.StatefulSet:
		c.owner(field.NewPath("spec"), "statefulset", obj.Spec.Selector, obj.Spec.Replicas, obj.Spec.Template.Labels)
	case *v1.PersistentVolume:
		c.persistentVolume(obj, field.NewPath("spec"))
	case *v1.PersistentVolumeClaim:
		c.claimSpec(field.NewPath("spec"), &obj.Spec)
	case *storagev1.StorageClass:
		c.storageClass(obj)
	case *storagev1.CSINode:
		c.csiDrivers(field.NewPath("spec", "drivers"), obj.Spec.Drivers)
	case *storagev1.CSIStorageCapacity:
		c.csiStorageCapacity(obj)
	case *storagev1.VolumeAttachment:
		c.volumeAttachment(obj, field.NewPath("spec"))
	case *policyv1.PodDisruptionBudget:
		c.disruptionBudget(field.NewPath("spec"), &obj.Spec)
	case *resourcev1.DeviceClass:
		c.deviceClass(&obj.Spec, field.NewPath("spec"))
	case *resourcev1.ResourceSlice:
		c.resourceSlice(&obj.Spec, field.NewPath("spec"))
	case *resourcev1.ResourceClaim:
		c.deviceClaim(&obj.Spec.Devices, field.NewPath("spec", "devices"))
		c.claimStatus(obj, field.NewPath("status"))
	case *resourcev1.ResourceClaimTemplate:
		c.claimTemplate(&obj.Spec, field.NewPath("spec"))
	case *schedulingv1alpha2.PodGroup:
		c.podGroup(&obj.Spec, field.NewPath("spec"))
		c.podGroupStatus(&obj.Status, field.NewPath("status"))
		c.podGroupTemplates(obj)
	case *schedulingv1.PriorityClass:
		c.priorityClass(obj)
	case *v1.LimitRange:
		c.limitRange(obj.Spec.Limits, field.NewPath("spec", "limits"))
	case *nodev1.RuntimeClass:
		c.runtimeClass(obj)
	}
	if kind := KindOf(obj); !kind.Known() {
		c.add(field.NotSupported(field.NewPath("kind"), kind, Kinds()))
	}
	if size := obj.Size(); size > MaxBytes && len(c.errs) == 0 {
		err := field.Invalid(nil, size, "the object takes too many bytes: at most 1048576 are allowed")
		err.Field = "" // the whole
		c.add(err)
	}
	return c.errs
}

// ValidateRef checks that a reference could name an object.
func ValidateRef(r Ref) field.ErrorList {
	c := &checker{}
	if !r.Kind.Known() {
		oneOf(c, field.NewPath("kind"), r.Kind, Kinds()...)
		return c.errs
	}
	c.name(r.Kind, field.NewPath("name"), r.Name)
	c.namespace(r.Kind, field.NewPath("namespace"), r.Namespace)
	return c.errs
}

func (c *checker) metadata(obj metav1.Object, p *field.Path) {
	kind := Kind("")
	if o, ok := obj.(Object); ok {
		kind = KindOf(o)
	}
	c.name(kind, p.Child("name"), obj.GetName())
	c.namespace(kind, p.Child("namespace"), obj.GetNamespace())
	c.labels(p.Child("labels"), obj.GetLabels())
	annotations := p.Child("annotations")
	total := 0
	for _, key := range keysOf(obj.GetAnnotations()) {
		c.qualifiedName(annotations, key)
		total += len(key) + len(obj.GetAnnotations()[key])
	}
	if total > maxAnnotationBytes {
		c.add(field.TooLong(annotations, "", maxAnnotationBytes))
	}
}

func (c *checker) name(kind Kind, p *field.Path, name string) {
	switch kind {
	case KindNamespace, KindService:
		c.dnsLabel(p, name)
	default:
		c.subdomain(p, name)
	}
}

func (c *checker) namespace(kind Kind, p *field.Path, namespace string) {
	switch {
	case kind.Namespaced():
		c.dnsLabel(p, namespace)
	case namespace != "":
		c.add(field.Forbidden(p, "not allowed on this type"))
	}
}

func (c *checker) node(n *v1.Node) {
	c.taints(field.NewPath("spec", "taints"), n.Spec.Taints)
	status := field.NewPath("status")
	c.resources(status.Child("capacity"), n.Status.Capacity)
	c.resources(status.Child("allocatable"), n.Status.Allocatable)
	images := status.Child("images")
	for i := range n.Status.Images {
		c.atLeast(images.Index(i).Child("sizeBytes"), n.Status.Images[i].SizeBytes, 0)
	}
}

func (c *checker) taints(p *field.Path, taints []v1.Taint) {
	seen := map[v1.Taint]bool{}
	for i, t := range taints {
		p := p.Index(i)
		c.qualifiedName(p.Child("key"), t.Key)
		c.labelValue(p.Child("value"), t.Value)
		oneOf(c, p.Child("effect"), t.Effect, v1.TaintEffectNoSchedule, v1.TaintEffectPreferNoSchedule, v1.TaintEffectNoExecute)
		identity := v1.Taint{Key: t.Key, Effect: t.Effect}
		if seen[identity] {
			c.add(field.Duplicate(p, short(t.Key+":"+string(t.Effect))))
		}
		seen[identity] = true
	}
}

func (c *checker) tolerations(p *field.Path, tolerations []v1.Toleration) {
	for i := range tolerations {
		c.toleration(p.Index(i), &tolerations[i])
	}
}

func (c *checker) toleration(p *field.Path, t *v1.Toleration) {
	if t.Key != "" {
		c.qualifiedName(p.Child("key"), t.Key)
	} else if t.Operator != v1.TolerationOpExists {
		c.invalid(p.Child("operator"), short(string(t.Operator)),
			"operator must be Exists when `key` is empty, which means \"match all values and all keys\"")
	}
	switch t.Operator {
	case "", v1.TolerationOpEqual:
		c.labelValue(p.Child("value"), t.Value)
	case v1.TolerationOpExists:
		if t.Value != "" {
			c.invalid(p.Child("value"), short(t.Value), "value must be empty when `operator` is 'Exists'")
		}
	default:
		oneOf(c, p.Child("operator"), t.Operator, v1.TolerationOpEqual, v1.TolerationOpExists)
	}
	if t.Effect != "" {
		oneOf(c, p.Child("effect"), t.Effect, v1.TaintEffectNoSchedule, v1.TaintEffectPreferNoSchedule, v1.TaintEffectNoExecute)
	}
	if t.TolerationSeconds != nil && t.Effect != v1.TaintEffectNoExecute {
		c.invalid(p.Child("effect"), short(string(t.Effect)), "effect must be 'NoExecute' when `tolerationSeconds` is set")
	}
}

// labelSelector checks what names pods by their labels.
func (c *checker) labelSelector(p *field.Path, s *metav1.LabelSelector) {
	if s == nil {
		return
	}
	c.labels(p.Child("matchLabels"), s.MatchLabels)
	for i, e := range s.MatchExpressions {
		p := p.Child("matchExpressions").Index(i)
		c.qualifiedName(p.Child("key"), e.Key)
		values := p.Child("values")
		switch e.Operator {
		case metav1.LabelSelectorOpIn, metav1.LabelSelectorOpNotIn:
			if len(e.Values) == 0 {
				c.add(field.Required(values, "must be specified when `operator` is 'In' or 'NotIn'"))
			}
		case metav1.LabelSelectorOpExists, metav1.LabelSelectorOpDoesNotExist:
			if len(e.Values) > 0 {
				c.add(field.Forbidden(values, "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"))
			}
		default:
			oneOf(c, p.Child("operator"), e.Operator, metav1.LabelSelectorOpIn, metav1.LabelSelectorOpNotIn, metav1.LabelSelectorOpExists,
				metav1.LabelSelectorOpDoesNotExist)
		}
		for j, v := range e.Values {
			c.labelValue(values.Index(j), v)
		}
	}
}

// nodeSelectorRequirements checks what names nodes by their labels, or with fields by
// their name.
func (c *checker) nodeSelectorRequirements(p *field.Path, rs []v1.NodeSelectorRequirement, fields bool) {
	for i := range rs {
		if fields {
			c.fieldRequirement(p.Index(i), &rs[i])
		} else {
			c.labelRequirement(p.Index(i), &rs[i])
		}
	}
}

func (c *checker) labelRequirement(p *field.Path, r *v1.NodeSelectorRequirement) {
	c.qualifiedName(p.Child("key"), r.Key)
	values := p.Child("values")
	switch r.Operator {
	case v1.NodeSelectorOpIn, v1.NodeSelectorOpNotIn:
		if len(r.Values) == 0 {
			c.add(field.Required(values, "must be specified when `operator` is 'In' or 'NotIn'"))
		}
	case v1.NodeSelectorOpExists, v1.NodeSelectorOpDoesNotExist:
		if len(r.Values) > 0 {
			c.add(field.Forbidden(values, "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"))
		}
	case v1.NodeSelectorOpGt, v1.NodeSelectorOpLt:
		if len(r.Values) != 1 {
			c.add(field.Required(values, "must be specified single value when `operator` is 'Lt' or 'Gt'"))
		}
	default:
		oneOf(c, p.Child("operator"), r.Operator, v1.NodeSelectorOpIn, v1.NodeSelectorOpNotIn, v1.NodeSelectorOpExists,
			v1.NodeSelectorOpDoesNotExist, v1.NodeSelectorOpGt, v1.NodeSelectorOpLt)
	}
	for j, v := range r.Values {
		c.labelValue(values.Index(j), v)
	}
}

func (c *checker) fieldRequirement(p *field.Path, r *v1.NodeSelectorRequirement) {
	oneOf(c, p.Child("key"), r.Key, metav1.ObjectNameField)
	oneOf(c, p.Child("operator"), r.Operator, v1.NodeSelectorOpIn, v1.NodeSelectorOpNotIn)
	if len(r.Values) != 1 {
		c.add(field.Required(p.Child("values"), "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"))
	}
	for j, v := range r.Values {
		c.syntax(p.Child("values").Index(j), v, validation.DNS1123SubdomainMaxLength, validation.IsDNS1123Subdomain)
	}
}
