// Package gang is a plugin that binds the pods of a gang together or not at all. It is an example of what plugins can do: PodGroups
// (docs/groups.md) are better. There a gang is decided in one step, holds no room while it waits, and says why it waits.
//
// A pod belongs to the gang that its label gang.shardsched.io/name names, in its namespace, and the
// label gang.shardsched.io/size says how many pods make the gang complete. Each gets a node as
// any pod does, and then waits (Permit) until so many of them have one:
//
//	PreFilter   refuses a pod whose gang is not even created, so that it holds no room
//	Permit      waits for the others; whoever completes the gang lets all of them go
//	Unreserve   one that fails takes those that wait with it: their room is given back
//
// The idea is that of the coscheduling plugin of kubernetes-sigs/scheduler-plugins.
package gang
