package process

import "net"

// FreeAddress is a loopback address that was free just now, for a process that has to be told where to listen.
func FreeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}

// MustFreeAddress is FreeAddress for a test.
func MustFreeAddress(t interface {
	Helper()
	Fatal(...any)
}) string {
	t.Helper()
	address, err := FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	return address
}
