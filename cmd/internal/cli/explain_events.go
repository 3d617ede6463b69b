package cli

import (
	"slices"
	"strings"
)

// eventSubject is what an event is about: upstream's name of the resource, and the word for people.
type eventSubject struct{ resource, word string }

func eventSubjects() []eventSubject {
	return []eventSubject{
		{"Node", "a node"}, {"AssignedPod", "a pod on a node"}, {"UnschedulablePod", "a pending pod"},
		{"PersistentVolumeClaim", "a claim"}, {"PersistentVolume", "a volume"}, {"storage.k8s.io/StorageClass", "a StorageClass"},
		{"storage.k8s.io/CSINode", "a CSINode"}, {"storage.k8s.io/CSIDriver", "a CSIDriver"},
		{"storage.k8s.io/CSIStorageCapacity", "storage capacity"}, {"storage.k8s.io/VolumeAttachment", "a volume's attachment"},
		{"resource.k8s.io/ResourceClaim", "a resource claim"}, {"resource.k8s.io/ResourceSlice", "a ResourceSlice"},
		{"resource.k8s.io/DeviceClass", "a DeviceClass"},
	}
}

// eventAction words what happens to it, by upstream's name of the action.
func eventAction(name string) string {
	switch name {
	case "Add":
		return "comes"
	case "Delete":
		return "goes"
	case "Update":
		return "changes"
	case "UpdateNodeAllocatable":
		return "gets other amounts"
	case "UpdateNodeLabel", "UpdatePodLabel":
		return "gets other labels"
	case "UpdateNodeTaint":
		return "gets other taints"
	case "UpdateNodeCondition":
		return "gets another condition"
	case "UpdateNodeAnnotation":
		return "gets other annotations"
	case "UpdateNodeDeclaredFeature":
		return "declares other features"
	case "UpdatePodScaleDown":
		return "asks for less"
	case "UpdatePodSchedulingGatesEliminated":
		return "loses its last gate"
	case "UpdatePodToleration":
		return "tolerates more"
	case "UpdatePodGeneratedResourceClaim":
		return "gets the claim that is made for it"
	}
	return name
}

// eventWords words events by what they are about: "a node comes or gets other labels; a claim changes". Events that have no words stay as
// they are.
func eventWords(events []string) string {
	actions, order := map[string][]string{}, []string(nil)
	for _, e := range events {
		subject, action := e, ""
		if resource, name, ok := strings.Cut(e, " "); ok {
			subject, action = resource, eventAction(name)
		}
		for _, s := range eventSubjects() {
			if s.resource == subject {
				subject = s.word
				break
			}
		}
		if !slices.Contains(order, subject) {
			order = append(order, subject)
		}
		if action != "" && !slices.Contains(actions[subject], action) {
			actions[subject] = append(actions[subject], action)
		}
	}
	words := make([]string, len(order))
	for i, subject := range order {
		words[i] = strings.TrimSpace(subject + " " + strings.Join(actions[subject], " or "))
	}
	return strings.Join(words, "; ")
}
