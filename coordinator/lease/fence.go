package lease

import clientv3 "go.etcd.io/etcd/client/v3"

// Fence proves leadership with every write; *Leadership is one.
type Fence interface {
	// Check returns an error that wraps ErrDeposed when the lease may have run out. It is
	// called right before every write.
	Check() error
	// Compare holds in etcd as long as the term lasts. It is part of every write.
	Compare() clientv3.Cmp
}
