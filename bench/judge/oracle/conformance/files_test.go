package conformance

import (
	"os"
	"path/filepath"
	"testing"
)

func TestReadObjects(t *testing.T) {
	dir := t.TempDir()
	for file, text := range map[string]string{
		"a.yaml":     "apiVersion: v1\nkind: Node\nmetadata: {name: a}\n---\n---\napiVersion: v1\nkind: Pod\nmetadata: {name: p, namespace: x}\n",
		"list.json":  `{"apiVersion":"v1","kind":"List","items":[{"apiVersion":"v1","kind":"Node","metadata":{"name":"b"}},{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"name":"t"}}]}`,
		"nodes.yml":  "apiVersion: v1\nkind: NodeList\nitems: [{metadata: {name: c}}]\n",
		"crd.yaml":   "apiVersion: example.com/v1\nkind: Thing\nmetadata: {name: t}\n",
		"readme.txt": "nothing of use",
	} {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	objects, err := ReadObjects(dir)
	if err != nil {
		t.Fatal(err)
	}
	got := ""
	for _, obj := range objects {
		got += keyOf(obj).kind + " " + obj.GetName() + "\n"
	}
	if want := "*v1.Node a\n*v1.Pod p\n*v1.Node b\n*v1.Node c\n"; got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	if err := os.WriteFile(filepath.Join(dir, "bad.yaml"), []byte("kind: Node\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadObjects(dir); err == nil {
		t.Error("an object without apiVersion is read")
	}
}
