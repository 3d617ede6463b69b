package cli

import (
	"math"
	"runtime/debug"
	"testing"
	"testing/fstest"
)

func TestTheMemoryLimitIsTheGroups(t *testing.T) {
	before := debug.SetMemoryLimit(-1)
	for _, test := range []struct {
		name     string
		files    map[string]string
		variable string
		want     int64
	}{
		{"a container", map[string]string{"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "1000000000\n"}, "", 900_000_000},
		{"no limit", map[string]string{"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "max\n"}, "", before},
		{"no group", nil, "", before},
		{"version 1", map[string]string{"proc/self/cgroup": "3:memory:/a\n"}, "", before},
		{"a group's own", map[string]string{"proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/b/memory.max": "500000000\n", "sys/fs/cgroup/a/memory.max": "max\n"}, "", 450_000_000},
		{"that of a group around it", map[string]string{"proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/b/memory.max": "500000000\n", "sys/fs/cgroup/a/memory.max": "400000000\n"}, "", 360_000_000},
		{"outside of what is mounted", map[string]string{"proc/self/cgroup": "0::/../../x\n", "sys/fs/cgroup/memory.max": "1000\n"}, "", before},
		{"the variable counts", map[string]string{"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "1000000000\n"}, "off", before},
		{"garbage", map[string]string{"proc/self/cgroup": "0::/\n0::/a/\n", "sys/fs/cgroup/memory.max": "-5\n"}, "", before},
	} {
		t.Run(test.name, func(t *testing.T) {
			defer debug.SetMemoryLimit(before)
			root := fstest.MapFS{}
			for name, text := range test.files {
				root[name] = &fstest.MapFile{Data: []byte(text)}
			}
			limitMemory(t.Context(), func(string) string { return test.variable }, root)
			if got := debug.SetMemoryLimit(-1); got != test.want {
				t.Errorf("want %d, got %d", test.want, got)
			}
		})
	}
	if before != math.MaxInt64 {
		t.Logf("the test itself has the limit %d", before)
	}
}
