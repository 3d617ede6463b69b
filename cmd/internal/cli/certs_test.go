package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

func runCerts(t *testing.T, args ...string) (code int, out, errs string) {
	t.Helper()
	var o, e bytes.Buffer
	s := Streams{In: strings.NewReader(""), Out: &o, Err: &e, Env: func(string) string { return "" }}
	code = Main(t.Context(), append([]string{"certs"}, args...), s, Runs{})
	return code, o.String(), e.String()
}

// TestCertificatesHaveTheNamesOfThePage makes them as its table says, and holds names and usages to it.
func TestCertificatesHaveTheNamesOfThePage(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "pki")
	code, out, errs := runCerts(t, "create", "--dir", dir, "--domain", "example.org")
	if code != 0 {
		t.Fatal(errs)
	}
	page, err := os.ReadFile("../../../docs/security.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "## Certificates to make")
	rows := regexp.MustCompile("(?m)^\\| [^|]+ \\| `(spiffe://example.org/shardsched/default/(\\w+))` \\|([^|]*)\\|").FindAllStringSubmatch(section, -1)
	if len(rows) != 6 {
		t.Fatalf("docs/security.md: want 6 certificates in the table, got %d", len(rows))
	}
	for _, row := range rows {
		want := row[1]
		for _, name := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(row[3], -1) {
			want += " " + name[1]
		}
		if !regexp.MustCompile(`(?m)^` + row[2] + ` +\S+ +` + regexp.QuoteMeta(want) + `$`).MatchString(out) {
			t.Errorf("want %s with the names %s, got\n%s", row[2], want, out)
		}
	}
	if code, _, errs := runCerts(t, "rotate-ca", "--dir", dir); code != 0 {
		t.Error(errs)
	}
	if code, out, errs := runCerts(t, "renew", "--dir", dir); code != 0 || !strings.Contains(out, "authority before") {
		t.Errorf("renew: got\n%s%s", out, errs)
	}
	if code, out, errs := runCerts(t, "retire-ca", "--dir", dir); code != 0 || strings.Contains(out, "authority before") {
		t.Errorf("retire-ca: got\n%s%s", out, errs)
	}
	if code, out, errs := runCerts(t, "show", "--dir", dir, "worker"); code != 0 || !strings.Contains(out, "\nworker ") || strings.Contains(out, "\nadmin ") {
		t.Errorf("show: got\n%s%s", out, errs)
	}
	code, out, errs = runCerts(t, "show", "--dir", dir, "-o", "yaml", "--namespace", "ns")
	if code != 0 {
		t.Fatal(errs)
	}
	for doc := range strings.SplitSeq(out, "---\n") {
		var s v1.Secret
		if err := yaml.UnmarshalStrict([]byte(doc), &s); err != nil || s.Namespace != "ns" || len(s.Data["tls.key"]) == 0 {
			t.Errorf("want a Secret with a key, got %v\n%s", err, doc)
		}
	}
}

// TestSecretsOfManifestsAreMade looks up in what the command prints every Secret that the README wants.
func TestSecretsOfManifestsAreMade(t *testing.T) {
	roles, etcd := filepath.Join(t.TempDir(), "pki"), filepath.Join(t.TempDir(), "etcd")
	runCerts(t, "create", "--dir", roles, "--domain", "example.org")
	if code, _, errs := runCerts(t, "create-etcd", "--dir", etcd, "--hosts", "etcd.etcd.svc,127.0.0.1"); code != 0 {
		t.Fatal(errs)
	}
	_, first, _ := runCerts(t, "show", "--dir", roles, "-o", "yaml")
	_, second, _ := runCerts(t, "show", "--dir", etcd, "-o", "yaml")
	page, err := os.ReadFile("../../../deploy/README.md")
	if err != nil {
		t.Fatal(err)
	}
	names := regexp.MustCompile("(?m)^\\| `(shardsched-[a-z-]+-tls)` \\|").FindAllStringSubmatch(string(page), -1)
	if len(names) < 4 {
		t.Fatalf("deploy/README.md: want 4 Secrets, got %d", len(names))
	}
	for _, name := range names {
		if !strings.Contains(first+second, "name: "+name[1]+"\n") {
			t.Errorf("want a Secret %s, got none", name[1])
		}
	}
}

func TestCertsTellWhatIsWrong(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct {
		args, want string
		code       int
	}{
		{"", "name what to do", 2},
		{"create", "--dir is required", 2},
		{"create --dir " + dir, `--domain, --cluster: "" is not letters`, 2},
		{"create --dir " + dir + " --domain a/b", `"a/b" is not letters`, 2},
		{"create --dir " + dir + " --domain d --namespace N", `--namespace: "N"`, 2},
		{"create --dir " + dir + " --domain d --validity 1s", "--validity: 1s is shorter than a minute", 2},
		{"create --dir " + dir + " --domain d --ca-validity 1h", "--ca-validity: 1h0m0s is shorter than --validity", 2},
		{"create --dir " + dir + " --domain d --hosts a,", `--hosts: "" is neither an address nor a DNS name`, 2},
		{"create --dir " + dir + " --domain d --hosts https://a:2379", `--hosts: "https://a:2379" is neither`, 2},
		{"create-etcd --dir " + dir, "--hosts is required", 2},
		{"create-etcd --dir " + dir + " --hosts ::1,10.0.0.1:2379", `--hosts: "10.0.0.1:2379" is neither`, 2},
		{"show --dir " + dir + " -o yaml --namespace N", `--namespace: "N"`, 2},
		{"show --dir " + dir + " -o json", `--output: "json" is not one of text, yaml`, 2},
		{"show --dir " + dir, "ca.crt: no such file", 1},
		{"show --dir " + dir + " -o yaml", "want certificates of pods in it", 1},
		{"renew --dir " + dir, "ca.crt: no such file", 1},
	} {
		code, _, errs := runCerts(t, strings.Fields(c.args)...)
		if code != c.code || !strings.Contains(errs, c.want) {
			t.Errorf("certs %s: got exit code %d: %s; want %d: %s", c.args, code, errs, c.code, c.want)
		}
	}
}
