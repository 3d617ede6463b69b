package console

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"net/http"
	"path"
	"strings"
)

//go:embed assets/*.css assets/*.js assets/*.svg assets/*.LICENSE
var assetFiles embed.FS

// asset is a file that pages name by its content, so that browsers keep it.
type asset struct {
	name, kind, hash string
	content, packed  []byte // packed: by gzip
}

// assets are all of them, by name.
type assets map[string]*asset

func readAssets() (assets, error) {
	all := assets{}
	names, err := fs.Glob(assetFiles, "assets/*")
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		content, err := assetFiles.ReadFile(name)
		if err != nil {
			return nil, err
		}
		sum := sha256.Sum256(content)
		a := &asset{name: path.Base(name), kind: kindOf(name), hash: hex.EncodeToString(sum[:8]), content: content}
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		z.Write(content) // into memory, where nothing fails
		z.Close()
		a.packed = b.Bytes()
		all[a.name] = a
	}
	return all, nil
}

func kindOf(name string) string {
	switch path.Ext(name) {
	case ".css":
		return "text/css; charset=utf-8"
	case ".js":
		return "text/javascript; charset=utf-8"
	case ".svg":
		return "image/svg+xml"
	}
	return "text/plain; charset=utf-8"
}

// url is where pages find an asset.
func (s assets) url(name string) (string, error) {
	a, ok := s[name]
	if !ok {
		return "", fmt.Errorf("no asset %q", name)
	}
	return "assets/" + a.hash + "/" + name, nil
}

// serve answers for HASH/NAME. A hash of another version has no content here: what has it asks anew.
func (s assets) serve(w http.ResponseWriter, r *http.Request, at string) {
	hash, name, _ := strings.Cut(at, "/")
	a, ok := s[name]
	if !ok || a.hash != hash {
		http.NotFound(w, r)
		return
	}
	h := w.Header()
	h.Set("Cache-Control", "public, max-age=31536000, immutable")
	h.Set("ETag", `"`+a.hash+`"`)
	h.Set("Content-Type", a.kind)
	if strings.Contains(r.Header.Get("If-None-Match"), a.hash) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	content := a.content
	h.Set("Vary", "Accept-Encoding")
	if takesGzip(r) {
		h.Set("Content-Encoding", "gzip")
		content = a.packed
	}
	send(w, r, http.StatusOK, content)
}
