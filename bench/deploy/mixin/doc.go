// Package mixin holds deploy/mixin to Prometheus and to what a control plane at work serves: promtool's unit tests of the alerts, and every
// query of the dashboards over scrapes of a leader, a standby and workers.
//
//	processes ── scrapes, pods in between ──> series of a unit test ─┐
//	deploy/mixin/dashboards ── queries ───────> what it expects ─────┴─> promtool test rules
//
// promtool is built from its module by .ci/promtool.mod, without service discovery: the versions that it needs are its own.
package mixin
