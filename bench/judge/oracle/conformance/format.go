package conformance

import (
	"bytes"
	"fmt"
	"strings"

	"sigs.k8s.io/yaml"
)

// Format writes a scenario as YAML, under the difference that it shows.
func Format(s *Scenario, d *Difference) ([]byte, error) {
	var out bytes.Buffer
	if d != nil {
		for line := range strings.Lines(d.String() + "\n") {
			fmt.Fprintf(&out, "# %s", line)
		}
	}
	text, err := yaml.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("write scenario: %w", err)
	}
	out.Write(text)
	return out.Bytes(), nil
}

// Read reads what Format wrote.
func Read(text []byte) (*Scenario, error) {
	s := &Scenario{}
	if err := yaml.UnmarshalStrict(text, s); err != nil {
		return nil, fmt.Errorf("read scenario: %w", err)
	}
	return s, nil
}
