package serving

import (
	"crypto/tls"
	"fmt"
	"os"
	"sync"
	"time"
)

// keyPair reads a certificate and its key again when either file has changed.
type keyPair struct {
	certFile, keyFile string

	mu      sync.Mutex // guards what is below
	changed [2]time.Time
	current *tls.Certificate
}

// certificate is the newest that could be read: a rotation caught halfway keeps
// the one before.
func (k *keyPair) certificate() (*tls.Certificate, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	changed, err := modified(k.certFile, k.keyFile)
	if err == nil && k.current != nil && changed == k.changed {
		return k.current, nil
	}
	if err == nil {
		var c tls.Certificate
		if c, err = tls.LoadX509KeyPair(k.certFile, k.keyFile); err == nil {
			k.current, k.changed = &c, changed
			return k.current, nil
		}
	}
	if k.current != nil {
		return k.current, nil
	}
	return nil, fmt.Errorf("--tls-cert-file, --tls-private-key-file: %w", err)
}

func modified(files ...string) (times [2]time.Time, err error) {
	for i, f := range files {
		info, err := os.Stat(f)
		if err != nil {
			return times, err
		}
		times[i] = info.ModTime()
	}
	return times, nil
}
