package snapshot

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
)

// Write writes a snapshot as a JSON List, an object a line. After an error it is no JSON, so that nobody takes a part for the whole.
func Write(ctx context.Context, config *rest.Config, out io.Writer) (*Result, error) {
	buffered := bufio.NewWriterSize(out, 1<<20)
	before := `{"apiVersion":"v1","kind":"List","items":[` + "\n"
	result, err := Read(ctx, config, func(obj runtime.Object) error {
		text, err := json.Marshal(obj)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(buffered, "%s%s", before, text)
		before = ",\n"
		return err
	})
	if err != nil {
		buffered.Flush()
		return nil, err
	}
	if before != ",\n" {
		fmt.Fprint(buffered, before)
	}
	fmt.Fprintf(buffered, "\n],\"metadata\":{\"resourceVersion\":%q}}\n", result.ResourceVersion)
	return result, buffered.Flush()
}
