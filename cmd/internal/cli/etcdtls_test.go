package cli

import (
	"crypto/tls"
	"net"
	"testing"

	"github.com/shardsched/shardsched/cmd/internal/serving/authority"
)

// TestTheAuthorityOfEtcdIsReadAnew lets the authority of etcd's certificate change under a client that
// connects again and again.
func TestTheAuthorityOfEtcdIsReadAnew(t *testing.T) {
	before, after := authority.New(t), authority.New(t)
	trusted := before.Issue(t.TempDir(), authority.Subject{}).CA
	pairs := make(chan tls.Certificate, 1)
	load := func(a *authority.Authority) {
		f := a.Issue(t.TempDir(), authority.Subject{})
		pair, err := tls.LoadX509KeyPair(f.Cert, f.Key)
		if err != nil {
			t.Fatal(err)
		}
		pairs <- pair
	}
	load(before)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	shaken := make(chan error)
	go func() {
		pair := <-pairs
		for {
			conn, err := l.Accept()
			if err != nil {
				close(shaken)
				return
			}
			select {
			case pair = <-pairs:
			default:
			}
			err = tls.Server(conn, &tls.Config{Certificates: []tls.Certificate{pair}, NextProtos: []string{"h2"}}).HandshakeContext(t.Context())
			conn.Close()
			select {
			case shaken <- err:
			case <-t.Context().Done():
			}
		}
	}()
	c, err := Etcd{Endpoints: []string{"https://" + l.Addr().String()}, CAFile: trusted}.connect()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	go c.Get(t.Context(), "key")
	// The client may give up a connection for a reason of its own: it has some tries.
	taken := func(tries int) (err error) {
		for range tries {
			if err = <-shaken; err == nil {
				return nil
			}
		}
		return err
	}
	if err := taken(4); err != nil {
		t.Errorf("at the start: want etcd's certificate taken, got %v", err)
	}
	load(after)
	for err = <-shaken; err == nil; err = <-shaken { // those that were under way
	}
	authority.Replace(t, trusted, after.PEM)
	if err := taken(4); err != nil {
		t.Errorf("with the new authority: want etcd's certificate taken, got %v", err)
	}
}
