// Package devices holds our search for the devices of claims (scorer/devices) against upstream's own allocator
// (k8s.io/dynamic-resource-allocation/structured, the incubating implementation, which is the scheduler's default): on
// drawn scenes, node by node, and on the golden scripts of scorer/devices.
//
// What must agree: the verdict, each error's text, the devices in their order, what shares consume. Ids of shares are
// random, and left out. A search over its budget of steps is the one difference that is allowed; it is counted.
package devices
