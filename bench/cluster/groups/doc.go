// Package groups holds, on a real API server with the feature gates of pod groups on, when members of pod groups are placed and
// where, who leaves for them, and what members and pod groups are told meanwhile.
package groups
