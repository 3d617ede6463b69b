// Package summary draws a scheduler's Summary: as text for people, as JSON for
// machines.
//
// The text has up to seven parts, each left out where it is empty: the totals,
// the speed, the time from submit to bound, the reasons of pending pods, the
// latency of each plugin by extension point, each worker's share, and the use of
// each resource as a histogram of ten bins over the nodes.
//
// Style says what the reader's terminal can show. In a pipe there is neither
// colour nor a control character, and the text is the same on every run with the
// same figures.
//
// The JSON's names are camelCase, durations are seconds, and names are only ever
// added.
package summary
