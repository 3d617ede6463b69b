package testbed

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
)

func (b *Bed) auditLog() string { return b.path("audit.jsonl") }

// Audit returns what the API server was asked to write, by anybody but itself, and all
// that schedulers asked for, up to now.
func (b *Bed) Audit(ctx context.Context) ([]auditv1.Event, error) {
	// The server logs a request after it has answered it: one that is answered after all
	// the others is waited for.
	marker := &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "audit-marker-", Namespace: metav1.NamespaceDefault}}
	made, err := b.Admin.CoreV1().ConfigMaps(marker.Namespace).Create(ctx, marker, metav1.CreateOptions{})
	if err != nil {
		return nil, err
	}
	if err := b.Admin.CoreV1().ConfigMaps(marker.Namespace).Delete(ctx, made.Name, metav1.DeleteOptions{}); err != nil {
		return nil, err
	}
	tick := time.NewTicker(readyPoll)
	defer tick.Stop()
	for {
		text, err := os.ReadFile(b.auditLog())
		if err != nil {
			return nil, err
		}
		if bytes.Contains(text, []byte(made.Name)) {
			return readAudit(text)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, fmt.Errorf("the audit log lacks %s: %w", made.Name, ctx.Err())
		}
	}
}

// readAudit reads an audit log. A last line that a killed server has not finished is left out.
func readAudit(text []byte) (events []auditv1.Event, err error) {
	for line := range bytes.Lines(text) {
		if !bytes.HasSuffix(line, []byte("\n")) {
			break
		}
		var e auditv1.Event
		if err := json.Unmarshal(line, &e); err != nil {
			return nil, fmt.Errorf("audit log: %w in %q", err, line)
		}
		events = append(events, e)
	}
	return events, nil
}

// Denied are the requests of schedulers that RBAC refused, a line each.
func Denied(events []auditv1.Event) (lines []string) {
	for _, e := range events {
		if IsScheduler(e.User.Username) && e.ResponseStatus != nil && e.ResponseStatus.Code == http.StatusForbidden {
			lines = append(lines, AuditLine(e))
		}
	}
	return lines
}

// Writes are the requests of schedulers to write, a line each.
func Writes(events []auditv1.Event) (lines []string) {
	for _, e := range events {
		switch e.Verb {
		case "create", "update", "patch", "delete", "deletecollection":
			if IsScheduler(e.User.Username) {
				lines = append(lines, AuditLine(e))
			}
		}
	}
	return lines
}

// AuditLine says what was asked for and what the answer was, such as
// "create pods/binding default/p: 201".
func AuditLine(e auditv1.Event) string {
	what := e.RequestURI
	if r := e.ObjectRef; r != nil {
		what = r.Resource
		if r.Subresource != "" {
			what += "/" + r.Subresource
		}
		what += " " + strings.TrimPrefix(r.Namespace+"/"+r.Name, "/")
	}
	code := int32(0)
	if e.ResponseStatus != nil {
		code = e.ResponseStatus.Code
	}
	return fmt.Sprintf("%s %s: %d", e.Verb, what, code)
}
