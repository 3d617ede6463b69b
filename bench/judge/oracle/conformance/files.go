package conformance

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/shardsched/shardsched/bench/judge/oracle"
)

// ReadObjects reads the objects of files and folders: Kubernetes YAML or JSON, several
// documents or lists. It returns those that are of a kind that Kubernetes has built in; the
// objects must be as an API server holds them, with all defaults.
func ReadObjects(paths ...string) (out []oracle.Object, err error) {
	for _, path := range paths {
		err := filepath.WalkDir(path, func(file string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			if file != path && !slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(file)) {
				return nil
			}
			objects, err := readFile(file)
			if err != nil {
				return fmt.Errorf("%s: %w", file, err)
			}
			out = append(out, objects...)
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

func readFile(file string) (out []oracle.Object, err error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	documents := yaml.NewYAMLOrJSONDecoder(bufio.NewReader(f), 1<<16)
	for {
		var raw runtime.RawExtension
		err := documents.Decode(&raw)
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, err
		}
		if out, err = appendObjects(out, raw.Raw); err != nil {
			return nil, err
		}
	}
}

// appendObjects reads a document, which may hold nothing, or a list.
func appendObjects(out []oracle.Object, document []byte) ([]oracle.Object, error) {
	if len(document) == 0 || string(document) == "null" {
		return out, nil
	}
	obj, err := runtime.Decode(scheme.Codecs.UniversalDeserializer(), document)
	if mixed, ok := obj.(*v1.List); ok {
		for i := range mixed.Items {
			if out, err = appendObjects(out, mixed.Items[i].Raw); err != nil {
				return nil, err
			}
		}
		return out, nil
	}
	switch {
	case runtime.IsNotRegisteredError(err):
		return out, nil
	case err != nil:
		return nil, err
	case !meta.IsListType(obj):
		if obj, ok := obj.(oracle.Object); ok {
			out = append(out, obj)
		}
		return out, nil
	}
	return out, meta.EachListItem(obj, func(item runtime.Object) error {
		if obj, ok := item.(oracle.Object); ok {
			out = append(out, obj)
		}
		return nil
	})
}

// ReadDecisions reads a decision log.
func ReadDecisions(from io.Reader) (out []Decision, err error) {
	lines := json.NewDecoder(from)
	for {
		var d Decision
		err := lines.Decode(&d)
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, fmt.Errorf("decision %d: %w", len(out)+1, err)
		}
		out = append(out, d)
	}
}
