package kube

// TrimmerForTest gives tests the source's transform.
func TrimmerForTest() func(any) (any, error) { return newTrimmer(Whole{}).transform }
