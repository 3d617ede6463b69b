// Package devices holds, on a real API server with upstream's resource claim controller and garbage collector, what becomes of
// pods with claims of devices and of their claims: those of upstream's integration tests, and more.
//
// All stories begin at once. Each has nodes, a driver and a device class of its own, under its name.
package devices
