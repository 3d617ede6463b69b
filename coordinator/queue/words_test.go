package queue

import (
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/shardsched/shardsched/internal/testkit/build"
)

// words reads "key=value" and "key".
func words(args []string) func(func(k, v string) bool) {
	return func(yield func(k, v string) bool) {
		for _, a := range args {
			if k, v, _ := strings.Cut(a, "="); !yield(k, v) {
				return
			}
		}
	}
}

// pod builds a pod of words.
func pod(name string, args []string) *v1.Pod {
	b := build.Pod(name)
	for k, v := range words(args) {
		key, value, _ := strings.Cut(v, "=")
		switch k {
		case "ns":
			b.Namespace(v)
		case "cpu":
			b.CPU(v)
		case "gpu":
			b.Request("nvidia.com/gpu", v)
		case "priority":
			b.Priority(number(v))
		case "gate":
			b.Gate(v)
		case "tolerate":
			b.Toleration(v)
		case "port":
			b.HostPort("", "", number(v))
		case "select":
			b.NodeSelector(key, value)
		case "label":
			b.Label(key, value)
		case "uid":
			b.UID(v)
		default:
			if !podVolume(b.Obj(), k, v) && !podTerm(b.Obj(), k, v) && !podField(b.Obj(), k, v) {
				panic("unknown word " + k)
			}
		}
	}
	return b.Obj()
}

// number reads a small number.
func number(s string) int32 {
	n, err := strconv.ParseInt(s, 10, 32)
	if err != nil {
		panic(err)
	}
	return int32(n)
}

// podField sets what is neither a volume nor a term.
func podField(p *v1.Pod, k, v string) bool {
	switch k {
	case "nominated":
		p.Status.NominatedNodeName = v
	case "generated": // a ResourceClaim made for the pod: ENTRY, or ENTRY:CLAIM
		entry, claim, made := strings.Cut(v, ":")
		status := v1.PodResourceClaimStatus{Name: entry}
		if made {
			status.ResourceClaimName = &claim
		}
		p.Status.ResourceClaimStatuses = append(p.Status.ResourceClaimStatuses, status)
	case "template": // an entry whose claim is to be made
		p.Spec.ResourceClaims = append(p.Spec.ResourceClaims, v1.PodResourceClaim{Name: v, ResourceClaimTemplateName: &v})
	case "resource-claim":
		p.Spec.ResourceClaims = append(p.Spec.ResourceClaims, v1.PodResourceClaim{Name: v, ResourceClaimName: &v})
	case "user-namespace-on-host-network":
		no := false
		p.Spec.HostNetwork, p.Spec.HostUsers = true, &no
	case "restarts-all":
		p.Spec.Containers[0].RestartPolicyRules = []v1.ContainerRestartRule{{Action: v1.ContainerRestartRuleActionRestartAllContainers}}
	default:
		return false
	}
	return true
}

// podVolume adds a volume: a claim=NAME, an ephemeral=VOLUME, or an inline disk, by its
// kind=NAME[:ro].
func podVolume(p *v1.Pod, k, v string) bool {
	id, readOnly := strings.CutSuffix(v, ":ro")
	var s v1.VolumeSource
	switch k {
	case "claim":
		s.PersistentVolumeClaim = &v1.PersistentVolumeClaimVolumeSource{ClaimName: v}
	case "ephemeral":
		s.Ephemeral = &v1.EphemeralVolumeSource{}
	case "gce":
		s.GCEPersistentDisk = &v1.GCEPersistentDiskVolumeSource{PDName: id, ReadOnly: readOnly}
	case "ebs":
		s.AWSElasticBlockStore = &v1.AWSElasticBlockStoreVolumeSource{VolumeID: id, ReadOnly: readOnly}
	case "iscsi":
		s.ISCSI = &v1.ISCSIVolumeSource{IQN: id, ReadOnly: readOnly}
	case "rbd": // MONITOR,MONITOR…/POOL/IMAGE
		parts := strings.Split(id, "/")
		s.RBD = &v1.RBDVolumeSource{CephMonitors: strings.Split(parts[0], ","), RBDPool: parts[1], RBDImage: parts[2], ReadOnly: readOnly}
	case "cinder":
		s.Cinder = &v1.CinderVolumeSource{VolumeID: v}
	case "azure-disk": // its kind
		s.AzureDisk = &v1.AzureDiskVolumeSource{}
		if v != "" {
			kind := v1.AzureDataDiskKind(v)
			s.AzureDisk.Kind = &kind
		}
	case "azure-file":
		s.AzureFile = &v1.AzureFileVolumeSource{ShareName: v}
	case "vsphere":
		s.VsphereVolume = &v1.VsphereVirtualDiskVolumeSource{VolumePath: v}
	case "portworx":
		s.PortworxVolume = &v1.PortworxVolumeSource{VolumeID: v}
	case "csi":
		s.CSI = &v1.CSIVolumeSource{Driver: v}
	case "configmap":
		s.ConfigMap = &v1.ConfigMapVolumeSource{}
	default:
		return false
	}
	name := "v" + strconv.Itoa(len(p.Spec.Volumes))
	if s.Ephemeral != nil {
		name = v
	}
	p.Spec.Volumes = append(p.Spec.Volumes, v1.Volume{Name: name, VolumeSource: s})
	return true
}

// podTerm adds a term: near=KEY:SELECTOR or far=KEY:SELECTOR, each with [@NS,NS…] or
// [@SELECTOR of namespaces]; spread=KEY:SELECTOR, also [+KEY] for matchLabelKeys and [honor-taints],
// soft=KEY:SELECTOR.
func podTerm(p *v1.Pod, k, v string) bool {
	key, rest, _ := strings.Cut(v, ":")
	switch k {
	case "near", "far":
		pods, where, _ := strings.Cut(rest, "@")
		t := v1.PodAffinityTerm{TopologyKey: key, LabelSelector: readSelector(pods)}
		if strings.ContainsAny(where, "=!{") {
			t.NamespaceSelector = readSelector(where)
		} else if where != "" {
			t.Namespaces = strings.Split(where, ",")
		}
		addTerm(p, k == "near", t)
	case "spread", "soft":
		pods, honor := strings.CutSuffix(rest, ":honor-taints")
		pods, matched, _ := strings.Cut(pods, "+")
		c := v1.TopologySpreadConstraint{MaxSkew: 1, TopologyKey: key, WhenUnsatisfiable: v1.DoNotSchedule, LabelSelector: readSelector(pods)}
		if k == "soft" {
			c.WhenUnsatisfiable = v1.ScheduleAnyway
		}
		if matched != "" {
			c.MatchLabelKeys = []string{matched}
		}
		if honor {
			policy := v1.NodeInclusionPolicyHonor
			c.NodeTaintsPolicy = &policy
		}
		p.Spec.TopologySpreadConstraints = append(p.Spec.TopologySpreadConstraints, c)
	default:
		return false
	}
	return true
}

func addTerm(p *v1.Pod, near bool, t v1.PodAffinityTerm) {
	if p.Spec.Affinity == nil {
		p.Spec.Affinity = &v1.Affinity{PodAffinity: &v1.PodAffinity{}, PodAntiAffinity: &v1.PodAntiAffinity{}}
	}
	terms := &p.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	if near {
		terms = &p.Spec.Affinity.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	}
	*terms = append(*terms, t)
}

// readSelector reads a label selector: KEY=VALUE, !KEY, {} for everything, "broken" for one
// that can not be read, and nothing for none.
func readSelector(s string) *metav1.LabelSelector {
	key, value, isPair := strings.Cut(s, "=")
	absent, isAbsent := strings.CutPrefix(s, "!")
	switch {
	case s == "":
		return nil
	case s == "{}":
		return &metav1.LabelSelector{}
	case isPair:
		return &metav1.LabelSelector{MatchLabels: map[string]string{key: value}}
	case isAbsent:
		return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: absent, Operator: metav1.LabelSelectorOpDoesNotExist}}}
	case s == "broken":
		return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "k", Operator: "Equals"}}}
	}
	panic("unknown selector " + s)
}

// node builds a node of words.
func node(name string, args []string) *v1.Node {
	b := build.Node(name)
	obj := b.Obj()
	for k, v := range words(args) {
		key, value, _ := strings.Cut(v, "=")
		switch k {
		case "cpu":
			b.CPU(v)
		case "gpu":
			b.Resource("nvidia.com/gpu", v)
		case "pods":
			b.Pods(v)
		case "label":
			b.Label(key, value)
		case "taint":
			b.Taint(v)
		case "unschedulable":
			b.Unschedulable()
		case "ready":
			obj.Status.Conditions = []v1.NodeCondition{{Type: v1.NodeReady, Status: v1.ConditionStatus(v)}}
		case "feature":
			obj.Status.DeclaredFeatures = append(obj.Status.DeclaredFeatures, v)
		case "heartbeat":
			obj.ResourceVersion = v
		default:
			panic("unknown word " + k)
		}
	}
	return obj
}
