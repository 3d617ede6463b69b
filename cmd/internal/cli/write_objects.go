package cli

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/shardsched/shardsched/coordinator/objects"
)

// writeObjects writes an input as a list, in the order in which it is loaded: with the
// decisions it is all that is needed to hold these against another scheduler.
func writeObjects(file string, in *Input) error {
	if file == "" {
		return nil
	}
	f, err := createPrivate(file, os.O_WRONLY|os.O_TRUNC)
	if err != nil {
		return fmt.Errorf("write objects: %w", err)
	}
	buffered := bufio.NewWriter(f)
	if err := errors.Join(in.list(buffered), buffered.Flush(), f.Close()); err != nil {
		return fmt.Errorf("write objects: %w", err)
	}
	return nil
}

// list writes the input, an object a line.
func (in *Input) list(out io.Writer) error {
	all := append([]objects.Object{}, in.Cluster...)
	for _, n := range in.Nodes {
		all = append(all, n)
	}
	for _, p := range in.Pods {
		all = append(all, p)
	}
	before := `{"apiVersion":"v1","kind":"List","items":[` + "\n"
	for _, obj := range all {
		named := obj.DeepCopyObject().(objects.Object)
		kind := objects.KindOf(obj)
		named.GetObjectKind().SetGroupVersionKind(kind.GroupVersion().WithKind(string(kind)))
		text, err := json.Marshal(named)
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(out, "%s%s", before, text); err != nil {
			return err
		}
		before = ",\n"
	}
	if len(all) == 0 {
		fmt.Fprint(out, before)
	}
	_, err := fmt.Fprintln(out, "\n]}")
	return err
}
