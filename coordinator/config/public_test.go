package config

import (
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

func TestSecretsAreNotPublic(t *testing.T) {
	c, err := Parse("file", []byte(`apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
extenders:
- {urlPrefix: "https://me:secret@example.com/x", filterVerb: f, weight: 1, enableHTTPS: true, tlsConfig: {certData: Y2VydA==, keyData: c2VjcmV0}}
- {urlPrefix: "https://example.com/y", filterVerb: f, weight: 1}
`))
	if err != nil {
		t.Fatal(err)
	}
	public, err := yaml.Marshal(c.Public())
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]bool{"secret": false, "c2VjcmV0": false, "https://me:xxxxx@example.com/x": true, "https://example.com/y": true, "Y2VydA==": true} {
		if got := strings.Contains(string(public), text); got != want {
			t.Errorf("%s: want there %v, got %v in\n%s", text, want, got, public)
		}
	}
	whole, err := c.YAML()
	if err != nil || !strings.Contains(string(whole), "me:secret@") || !strings.Contains(string(whole), "c2VjcmV0") {
		t.Errorf("want a file that can be loaded again, with its secrets, got %v\n%s", err, whole)
	}
}
