package observe

import "testing"

// A size that is read has no amount below 0, and its resources are sorted, each once.
func FuzzParseSize(f *testing.F) {
	for _, s := range []string{"cpu=500m,memory=2Gi", "cpu=1", "example.com/gpu=1,cpu=0", "=1", "cpu", "cpu=1,cpu=1", "memory=9e99", "pods=1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		size, err := parseSize(text)
		if err != nil {
			return
		}
		if size.MilliCpu < 0 || size.MemoryBytes < 0 || size.EphemeralStorageBytes < 0 {
			t.Errorf("%q: got %v", text, size)
		}
		for i, s := range size.Scalars {
			if s.Quantity < 0 || i > 0 && size.Scalars[i-1].Name >= s.Name {
				t.Errorf("%q: got %v", text, size.Scalars)
			}
		}
	})
}
