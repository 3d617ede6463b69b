package cmd

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// maxPicture is how many bytes a picture of the documents may have: whoever clones pays for all of them.
const maxPicture = 150_000

// TestPicturesOfDocuments holds the pictures that documents show to the files that there are, both ways.
func TestPicturesOfDocuments(t *testing.T) {
	var pages []string
	for _, glob := range []string{"../*.md", "../docs/*.md", "../deploy/*.md"} {
		list, err := filepath.Glob(glob)
		if err != nil || len(list) == 0 {
			t.Fatalf("%s: got %q, %v", glob, list, err)
		}
		pages = append(pages, list...)
	}
	shown := map[string]bool{}
	picture := regexp.MustCompile(`!\[([^\]]*)\]\(([^)\s]+)[^)]*\)`)
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range picture.FindAllSubmatch(text, -1) {
			file := filepath.Join(filepath.Dir(page), string(m[2]))
			shown[file] = true
			switch f, err := os.Stat(file); {
			case err != nil:
				t.Errorf("%s shows %s: %v", page, m[2], err)
			case f.Size() > maxPicture:
				t.Errorf("%s: got %d bytes, want %d at the most", file, f.Size(), maxPicture)
			}
			if len(m[1]) == 0 {
				t.Errorf("%s shows %s without words for who does not see it", page, m[2])
			}
		}
	}
	files, err := filepath.Glob("../docs/images/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if !shown[file] {
			t.Errorf("%s: no page shows it", file)
		}
	}
}
