// Package quota is a plugin that bounds what the pods of a namespace take of the cluster together.
//
// Other than a ResourceQuota, which refuses to create a pod, it lets pods wait until those before
// them have ended. What is in use is counted from the moment in which a node is reserved:
//
//	PreFilter          refuses a pod for which the rest of its namespace's quota is too small
//	Reserve, Unreserve take and give back
//	EventsToRegister   a pod of the namespace that ends is worth another try
//
// The idea is that of the capacity scheduling plugin of kubernetes-sigs/scheduler-plugins, without
// borrowing between namespaces.
package quota
