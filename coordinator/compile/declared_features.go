package compile

import "k8s.io/component-helpers/nodedeclaredfeatures"

// declaredFeatures are the features that a node declares, of those that pods may need.
// As upstream, a name that stands out of order is passed over.
func declaredFeatures(names []string) []string {
	if len(names) == 0 {
		return nil
	}
	known := nodedeclaredfeatures.DefaultFramework
	out, err := known.Unmap(known.TryMap(names))
	if err != nil {
		panic(err) // the set is the framework's own
	}
	return out
}
