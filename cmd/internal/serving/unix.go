package serving

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
)

// ListenUnix opens a Unix socket that only the process's own user may use. A socket that a process
// has left behind is replaced; its folder is made where it is missing.
func ListenUnix(flag, path string) (net.Listener, error) {
	if conn, err := net.Dial("unix", path); err == nil {
		conn.Close()
		return nil, fmt.Errorf("--%s: another process serves on %s", flag, path)
	}
	l, err := listenPrivate(path)
	if err != nil {
		return nil, fmt.Errorf("--%s: %w", flag, err)
	}
	return l, nil
}

// listenPrivate makes the socket in a folder that nobody else may enter, and moves it to its place when
// its mode is set: there is no moment in which others can open it.
func listenPrivate(path string) (net.Listener, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(filepath.Dir(path), "")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, "s")})
	if err != nil {
		return nil, err
	}
	l.SetUnlinkOnClose(false)
	err = os.Chmod(filepath.Join(dir, "s"), 0o600)
	if err == nil {
		err = os.Rename(filepath.Join(dir, "s"), path)
	}
	if err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}
