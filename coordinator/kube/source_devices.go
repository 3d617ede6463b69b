package kube

import (
	"sync"
	"sync/atomic"

	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/discovery"
	"k8s.io/klog/v2"
)

// presence tells whether the API server has a kind of devices: resource.k8s.io/v1 came with 1.34, and can be turned off. Nothing
// is waited for where it does not, and pods with claims are refused. The informer goes on asking, as upstream's: no term has to end
// where the API server has the kinds later.
type presence struct {
	discovery discovery.DiscoveryInterface
	told      *sync.Once
	known     atomic.Bool // it was there once: what is missing from then on is a trouble
	absent    atomic.Bool
}

// missing tells, of the outcome of a request for the kind, whether it says that the kind is not served. Without a role for it
// the API server says Forbidden.
func (p *presence) missing(err error) bool {
	switch {
	case p == nil || p.known.Load():
		return false
	case err == nil:
		p.known.Store(true)
		p.absent.Store(false)
		return false
	case apierrors.IsNotFound(err) || apierrors.IsForbidden(err):
		_, err := p.discovery.ServerResourcesForGroupVersion(resourcev1.SchemeGroupVersion.String())
		p.absent.Store(apierrors.IsNotFound(err))
	}
	if !p.absent.Load() {
		return false
	}
	p.told.Do(func() {
		klog.Background().Info("The API server does not serve the kinds of devices: pods with resource claims are refused until it does. "+
			"Kubernetes 1.34 and later serve them by default", "kinds", "deviceclasses, resourceclaims, resourceslices",
			"version", resourcev1.SchemeGroupVersion)
	})
	return true
}

// isAbsent tells whether the kind was found missing.
func (p *presence) isAbsent() bool { return p != nil && p.absent.Load() }
