package cli

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestTheDevicesPageCanBeTried simulates the objects that docs/devices.md has readers paste.
func TestTheDevicesPageCanBeTried(t *testing.T) {
	page, err := os.ReadFile("../../../docs/devices.md")
	if err != nil {
		t.Fatal(err)
	}
	const begin, end = "    cat > devices.yaml <<'EOF'\n", "    EOF\n"
	_, text, found := strings.Cut(string(page), begin)
	text, _, ended := strings.Cut(text, end)
	if !found || !ended {
		t.Fatalf("got no objects between %q and %q", begin, end)
	}
	input := filepath.Join(t.TempDir(), "devices.yaml")
	if err := os.WriteFile(input, []byte(strings.ReplaceAll("\n"+text, "\n    ", "\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	var out, told bytes.Buffer
	o := SimulateOptions{
		Sharding: Sharding{Cluster: "test", Shards: 1, Replicas: 1}, Files: []string{input}, Namespace: "default", Decisions: "-", Output: "text",
	}
	if err := runSimulate(t.Context(), Streams{Out: &out, Err: &told}, o); !errors.Is(err, errPends) {
		t.Fatalf("got %v, want that one of the two pods pends", err)
	}
	for _, want := range []string{`"devices":["gpu/gpu.example.com/n1/gpu-0"]`, "cannot allocate all claims"} {
		if strings.Count(out.String(), want) != 1 {
			t.Errorf("got decisions %s, want %q in one of them", out.String(), want)
		}
	}
	for _, want := range []string{"  devices        1 of 2 in use (gpu.example.com)\n", "  claims         1 with devices, 1 waiting\n"} {
		if !strings.Contains(told.String(), want) {
			t.Errorf("got summary %s, want %q in it", told.String(), want)
		}
	}
}
