package cli

import (
	"slices"
	"strings"
)

// eventSubject is what an event is about: upstream's name of the resource, the words for people, and what happens to it where other
// words tell that better than those of eventVerb.
type eventSubject struct {
	resource, thing string
	verbs           map[string]string
}

// eventSubjects has the pending pod itself for UnschedulablePod: no pod is tried again for a change of another that is pending.
func eventSubjects() []eventSubject {
	const ends = "ends or is deleted"
	return []eventSubject{
		{"Node", "a node", map[string]string{"Add": "joins", "Delete": "is removed", "Update": "changes otherwise"}},
		{"AssignedPod", "another pod", map[string]string{"Add": "is placed", "Delete": ends, "Update": "changes otherwise"}},
		{"UnschedulablePod", "this pod", map[string]string{"Delete": ends, "Update": "is changed otherwise"}},
		{"PersistentVolumeClaim", "a claim of it", map[string]string{"Update": "is bound or changed"}},
		{"PersistentVolume", "a volume", nil},
		{"storage.k8s.io/StorageClass", "a StorageClass", nil},
		{"storage.k8s.io/CSINode", "a node's CSINode (its storage drivers)", nil},
		{"storage.k8s.io/CSIDriver", "a CSIDriver", nil},
		{"storage.k8s.io/CSIStorageCapacity", "the capacity of a storage driver", map[string]string{"Add": "is told", "Update": "changes"}},
		{"storage.k8s.io/VolumeAttachment", "a VolumeAttachment", map[string]string{"Delete": "is deleted (a volume is detached)"}},
		{"resource.k8s.io/ResourceClaim", "a resource claim", map[string]string{"Update": "gets or frees devices, or is changed"}},
		{"resource.k8s.io/ResourceSlice", "a device driver's ResourceSlice", nil},
		{"resource.k8s.io/DeviceClass", "a DeviceClass", nil},
	}
}

// eventVerb words what happens to a thing; "": one of its parts changes, see eventPart.
func eventVerb(action string) string {
	switch action {
	case "Add":
		return "is created"
	case "Delete":
		return "is deleted"
	case "Update":
		return "is changed"
	case "UpdatePodScaleDown":
		return "is resized to ask for less"
	case "UpdatePodSchedulingGatesEliminated":
		return "loses its last scheduling gate"
	case "UpdatePodToleration":
		return "gets a toleration"
	case "UpdatePodGeneratedResourceClaim":
		return "gets the claim that is made for it"
	}
	if eventPart(action) != "" {
		return ""
	}
	return action
}

// eventPart is what changes of a thing; "": it is no change of a part.
func eventPart(action string) string {
	switch action {
	case "UpdateNodeAllocatable":
		return "allocatable resources"
	case "UpdateNodeLabel", "UpdatePodLabel":
		return "labels"
	case "UpdateNodeTaint":
		return "taints"
	case "UpdateNodeCondition":
		return "conditions"
	case "UpdateNodeAnnotation":
		return "annotations"
	case "UpdateNodeDeclaredFeature":
		return "declared features"
	}
	return ""
}

// eventWords words events as conditions: "a node joins or its labels change; a claim of it is created". Events that have no words stay
// as they are.
func eventWords(events []string) string {
	type clause struct {
		subject      eventSubject
		verbs, parts []string
	}
	var clauses []*clause
	for _, e := range events {
		if repeatsEvent(events, e) {
			continue
		}
		resource, action, _ := strings.Cut(e, " ")
		i := slices.IndexFunc(clauses, func(c *clause) bool { return c.subject.resource == resource })
		if i < 0 {
			i = len(clauses)
			clauses = append(clauses, &clause{subject: subjectOf(resource)})
		}
		c := clauses[i]
		if part := eventPart(action); part != "" {
			c.parts = append(c.parts, part)
		} else if verb := c.subject.verbs[action]; verb != "" {
			c.verbs = append(c.verbs, verb)
		} else if action != "" {
			c.verbs = append(c.verbs, eventVerb(action))
		}
	}
	words := make([]string, len(clauses))
	for i, c := range clauses {
		switch parts := anyOf(c.parts) + " change"; {
		case len(c.parts) > 0 && len(c.verbs) > 0:
			words[i] = c.subject.thing + " " + anyOf(append(c.verbs, "its "+parts))
		case len(c.parts) > 0:
			words[i] = c.subject.thing + "'s " + parts
		default:
			words[i] = strings.TrimSpace(c.subject.thing + " " + anyOf(c.verbs))
		}
	}
	return strings.Join(words, "; ")
}

func subjectOf(resource string) eventSubject {
	for _, s := range eventSubjects() {
		if s.resource == resource {
			return s
		}
	}
	return eventSubject{resource: resource, thing: resource}
}

// repeatsEvent tells whether an event is to be left out, for it stands beside the same event of other pods. A plugin that waits for any
// pod has each event twice, of pods on nodes and of pending ones. Only pods on nodes come and go to any effect; only the pending pod
// itself gets a toleration or a claim, or loses its gates.
func repeatsEvent(events []string, e string) bool {
	resource, action, _ := strings.Cut(e, " ")
	switch action {
	case "Add", "Delete":
		return resource == "UnschedulablePod" && slices.Contains(events, "AssignedPod "+action)
	case "UpdatePodToleration", "UpdatePodSchedulingGatesEliminated", "UpdatePodGeneratedResourceClaim":
		return resource == "AssignedPod" && slices.Contains(events, "UnschedulablePod "+action)
	}
	return false
}

// anyOf joins words: "a, b or c".
func anyOf(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:len(words)-1], ", ") + " or " + words[len(words)-1]
}
