// Package framework holds coordinator/framework against upstream's own runtime: the same plugins,
// whose answers are drawn at random, run through both, and so do views of random nodes and pods.
//
// It has tests only.
package framework
