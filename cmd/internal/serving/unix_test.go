package serving

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestASocketIsItsOwnersOnly(t *testing.T) {
	path := filepath.Join(t.TempDir(), "folder", "client.sock")
	first, err := ListenUnix("listen", path)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode() != os.ModeSocket|0o600 {
		t.Errorf("want a socket of mode 0600, got %v, %v", info.Mode(), err)
	}
	if _, err := ListenUnix("listen", path); err == nil || !strings.Contains(err.Error(), "another process serves") {
		t.Errorf("while it is served: want an error, got %v", err)
	}
	first.Close()
	again, err := ListenUnix("listen", path)
	if err != nil {
		t.Fatalf("left behind: want it replaced, got %v", err)
	}
	again.Close()
	if left, err := os.ReadDir(filepath.Dir(path)); err != nil || len(left) != 1 {
		t.Errorf("want the socket alone, got %v, %v", left, err)
	}
}
