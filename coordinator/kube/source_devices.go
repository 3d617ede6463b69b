package kube

import (
	"errors"
	"sync/atomic"

	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/klog/v2"
)

// presence tells whether the API server has a kind that not every one has.
//
// Devices: resource.k8s.io/v1 came with 1.34, and can be turned off. Nothing is waited for where it is missing, and pods with claims
// are refused. The informer goes on asking, as upstream's: no term has to end where the API server has the kinds later.
//
// PodGroups: an alpha version that has to be turned on. They are read where a feature gate says so, and then needed.
type presence struct {
	discovery discovery.DiscoveryInterface
	version   schema.GroupVersion
	needed    bool        // what asks for it fails
	told      func()      // is called when it was found missing; any number of times
	known     atomic.Bool // it was there once: what is missing from then on is a trouble
	absent    atomic.Bool
}

// ErrNoPodGroups says what an API server lacks.
//
// Differs from upstream: it waits at start for ever, and says nothing of it.
var ErrNoPodGroups = errors.New("the API server does not serve scheduling.k8s.io/v1alpha2, which has to be read with the feature gate " +
	"GenericWorkload: start kube-apiserver with --feature-gates=GenericWorkload=true and --runtime-config=scheduling.k8s.io/v1alpha2=true, " +
	"or turn the gate off here")

// missing tells, of the outcome of a request for the kind, whether it says that the kind is not served, and can be done without.
// Without a role for it the API server says Forbidden.
func (p *presence) missing(err error) bool {
	switch {
	case p == nil || p.known.Load():
		return false
	case err == nil:
		p.known.Store(true)
		p.absent.Store(false)
		return false
	case apierrors.IsNotFound(err) || apierrors.IsForbidden(err):
		_, err := p.discovery.ServerResourcesForGroupVersion(p.version.String())
		p.absent.Store(apierrors.IsNotFound(err))
	}
	if !p.absent.Load() {
		return false
	}
	p.told()
	return !p.needed
}

func tellNoDevices() {
	klog.Background().Info("The API server does not serve the kinds of devices: pods with resource claims are refused until it does. "+
		"Kubernetes 1.34 and later serve them by default", "kinds", "deviceclasses, resourceclaims, resourceslices",
		"version", resourcev1.SchemeGroupVersion)
}

// isAbsent tells whether the kind was found missing, and is done without.
func (p *presence) isAbsent() bool { return p != nil && !p.needed && p.absent.Load() }
