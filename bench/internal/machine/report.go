package machine

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// WriteReport writes a report as prefix.json, for programs, and as prefix.txt, for people, of
// which table writes the text. The folder is made where it is missing.
func WriteReport(prefix string, report any, table func(io.Writer) error) error {
	raw, err := json.MarshalIndent(report, "", "  ")
	if err != nil {
		return fmt.Errorf("report %s: %w", prefix, err)
	}
	var text bytes.Buffer
	if err := table(&text); err != nil {
		return fmt.Errorf("report %s: %w", prefix, err)
	}
	if err := os.MkdirAll(filepath.Dir(prefix), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(prefix+".json", append(raw, '\n'), 0o644); err != nil {
		return err
	}
	return os.WriteFile(prefix+".txt", text.Bytes(), 0o644)
}
