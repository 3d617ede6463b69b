package scorer

import (
	"slices"
	"strconv"
	"strings"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
	"github.com/shardsched/shardsched/scorer/devices"
)

// ResourceMapping tells which request of the special claim serves a container's extended resource.
type ResourceMapping struct {
	// Container counts init containers, then containers.
	Container         int
	Resource, Request string
}

// extendedClaim is a node's own special claim: requests for the extended resources of which the node has none to allocate. These
// are told by their bits in served.
//
// Containers that run until the pod's end each need devices of their own. An init container that ends before may have
// devices of those that start after it; what is missing then is requested once, for the init container that lacks most.
func extendedClaim(q *pb.ExtendedResourcesQuery, served uint64, compiler devices.Compiler) (devices.Claim, []ResourceMapping) {
	var claim devices.Claim
	var mappings []ResourceMapping
	for i, r := range q.GetResources() {
		if served>>i&1 == 0 || r.GetClass() == "" {
			continue
		}
		x := extendedRequests{resource: r.GetName(), containers: q.GetContainers()}
		x.make()
		selectors := compiledSelectors(r.GetClassSelectors(), compiler)
		for _, own := range x.requests {
			claim.Requests = append(claim.Requests, devices.Request{Name: own.name, Alternatives: []devices.Alternative{{
				Class: r.GetClass(), ClassSelectors: selectors, Mode: devices.ExactCount, Count: own.count,
			}}})
		}
		mappings = append(mappings, x.mappings...)
	}
	slices.SortFunc(claim.Requests, func(a, b devices.Request) int { return strings.Compare(a.Name, b.Name) })
	return claim, mappings
}

// extendedRequests are the requests for one resource.
type extendedRequests struct {
	resource   string
	containers []*pb.ContainerResources
	requests   []extendedRequest
	mappings   []ResourceMapping
}

type extendedRequest struct {
	container int
	name      string
	count     int64
}

func (x *extendedRequests) make() {
	for i, c := range x.containers {
		if n, at := amountIn(c, x.resource); n > 0 && !c.GetShortLived() {
			x.requests = append(x.requests, extendedRequest{i, requestName(i, at), n})
			x.mapTo(i, requestName(i, at))
		}
	}
	lasting := x.requests
	var most *extendedRequest
	first := len(x.mappings)
	own := map[string]bool{}
	for i, c := range x.containers {
		n, at := amountIn(c, x.resource)
		if n == 0 || !c.GetShortLived() {
			continue
		}
		for k := range lasting {
			if lasting[k].container >= i && n > 0 {
				x.mapTo(i, lasting[k].name)
				n -= lasting[k].count
			}
		}
		if n <= 0 {
			continue
		}
		more := extendedRequest{i, requestName(i, at), n}
		x.mapTo(i, more.name)
		own[more.name] = true
		if most == nil || n > most.count {
			most = &more
		}
	}
	if most == nil {
		return
	}
	for i := range x.mappings[first:] {
		if m := &x.mappings[first+i]; own[m.Request] {
			m.Request = most.name
		}
	}
	x.requests = append(x.requests, *most)
}

func (x *extendedRequests) mapTo(container int, request string) {
	x.mappings = append(x.mappings, ResourceMapping{Container: container, Resource: x.resource, Request: request})
}

func requestName(container, resource int) string {
	return "container-" + strconv.Itoa(container) + "-request-" + strconv.Itoa(resource)
}

// amountIn is how much a container requests of a resource, and the resource's index among all that it requests.
func amountIn(c *pb.ContainerResources, resource string) (amount int64, at int) {
	at, found := slices.BinarySearch(c.GetNames(), resource)
	if !found {
		return 0, 0
	}
	return c.GetAmounts()[at], at
}
