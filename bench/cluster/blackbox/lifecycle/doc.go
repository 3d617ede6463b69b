// Package lifecycle holds, on a real API server, how a scheduler lives with what goes on
// around it: nodes that come, change and go, pods that end, wait at gates or are somebody
// else's, and what it writes about all that: conditions, events, and nothing that its role
// does not allow.
package lifecycle
