package holder

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"

	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
	"k8s.io/streaming/pkg/httpstream"

	"github.com/shardsched/shardsched/coordinator/kube"
)

// forward is a port-forward that runs.
type forward struct {
	to    kube.ClientAccess
	local string // 127.0.0.1:port
	stop  chan struct{}
	ended chan struct{} // closed when it has ended, with err set
	err   error
}

func (f *forward) alive() bool {
	select {
	case <-f.ended:
		return false
	default:
		return true
	}
}

func (f *forward) close() {
	close(f.stop)
	<-f.ended
}

// start forwards a free port of this host's loopback to a port of a pod, through the API server. It ends with close.
func (f *Finder) start(ctx context.Context, to kube.ClientAccess, port string) (*forward, error) {
	dialer, err := f.dialer(to.Pod)
	if err != nil {
		return nil, err
	}
	made := &forward{to: to, stop: make(chan struct{}), ended: make(chan struct{})}
	ready := make(chan struct{})
	forwarder, err := portforward.NewOnAddressesForStreaming(dialer, []string{"127.0.0.1"}, []string{"0:" + port}, made.stop, ready,
		io.Discard, io.Discard)
	if err != nil {
		return nil, err
	}
	go func() {
		made.err = forwarder.ForwardPorts()
		close(made.ended)
	}()
	select {
	case <-ready:
	case <-made.ended:
		return nil, cmp.Or(made.err, errEnded)
	case <-ctx.Done():
		made.close()
		return nil, ctx.Err()
	}
	ports, err := forwarder.GetPorts()
	if err != nil {
		made.close()
		return nil, err
	}
	made.local = fmt.Sprintf("127.0.0.1:%d", ports[0].Local)
	return made, nil
}

// dialer opens streams to a pod: over a WebSocket, or SPDY where a server or a proxy on the way does not know that.
func (f *Finder) dialer(pod string) (httpstream.Dialer, error) {
	namespace, name, _ := strings.Cut(pod, "/")
	url := f.client.CoreV1().RESTClient().Post().Resource("pods").Namespace(namespace).Name(name).SubResource("portforward").URL()
	transport, upgrader, err := spdy.RoundTripperFor(f.rest)
	if err != nil {
		return nil, err
	}
	old := spdy.NewDialerForStreaming(upgrader, &http.Client{Transport: transport}, http.MethodPost, url)
	sockets, err := portforward.NewSPDYOverWebsocketDialerForStreaming(url, f.rest)
	if err != nil {
		return nil, err
	}
	return portforward.NewFallbackDialerForStreaming(sockets, old, func(err error) bool {
		return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
	}), nil
}
