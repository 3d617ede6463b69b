package main

import (
	"net"
	"sync/atomic"
)

// traffic is what went over connections, in bytes; TCP's and IP's own are not counted.
type traffic struct{ in, out atomic.Int64 }

// counted is a listener whose connections are counted.
type counted struct {
	net.Listener
	traffic *traffic
}

func (l counted) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return countedConn{c, l.traffic}, nil
}

type countedConn struct {
	net.Conn
	traffic *traffic
}

func (c countedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.traffic.in.Add(int64(n))
	return n, err
}

func (c countedConn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	c.traffic.out.Add(int64(n))
	return n, err
}
