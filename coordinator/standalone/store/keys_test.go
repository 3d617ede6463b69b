package store

import (
	"os"
	"strings"
	"testing"

	"github.com/shardsched/shardsched/coordinator/lease"
)

// What docs/leaving.md has removed from etcd is what is written there: one prefix, and the page names each part below it.
func TestThePageOfLeavingRemovesAllKeys(t *testing.T) {
	page, err := os.ReadFile("../../../docs/leaving.md")
	if err != nil {
		t.Fatal(err)
	}
	const command, cluster = "\n    etcdctl del --prefix ", "NAME"
	_, prefix, found := strings.Cut(string(page), command)
	prefix, _, _ = strings.Cut(prefix, "\n")
	if !found {
		t.Fatalf("docs/leaving.md: got no line %q", command)
	}
	k := keysOf(cluster)
	for _, key := range []string{k.objects, k.queue, lease.Prefix(cluster)} {
		part, below := strings.CutPrefix(key, prefix)
		if !below || !strings.Contains(string(page), "`"+part+"`") {
			t.Errorf("docs/leaving.md removes %q: got %q outside of it, or not named", prefix, key)
		}
	}
}
