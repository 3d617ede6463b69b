package cli

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"google.golang.org/grpc/credentials/insecure"

	"github.com/shardsched/shardsched/cmd/internal/client"
)

// What was decided comes the oldest first, then each decision that is made, once.
func TestDecisionsAreWatched(t *testing.T) {
	sh := newShell(t)
	ctx, end := context.WithCancel(t.Context())
	defer end()
	cl, err := client.New(client.Config{Addresses: []string{sh.address}, Dial: client.DialWith(insecure.NewCredentials())})
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	o := &decisionsOptions{watch: true, limit: 2}
	o.output = "custom-columns=POD:.decision.pod"
	if err := o.complete(nil); err != nil {
		t.Fatal(err)
	}
	out := &endingWriter{after: 5, end: end}
	if err := o.run(ctx, Streams{Out: out, Err: out}, cl); err != nil {
		t.Fatal(err)
	}
	want := "POD\nshop/web-1\nshop/vip\nshop/new-1\nshop/new-2\n"
	if got := out.String(); !strings.HasPrefix(got, want) {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// endingWriter calls end once it has so many lines.
type endingWriter struct {
	bytes.Buffer
	after int
	end   func()
}

func (w *endingWriter) Write(p []byte) (int, error) {
	defer func() {
		if strings.Count(w.String(), "\n") >= w.after {
			w.end()
		}
	}()
	return w.Buffer.Write(p)
}
