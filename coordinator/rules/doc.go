// Package rules is the catalogue of the built-in plugins: one file for each plugin says what the coordinator knows of it. Whoever has to
// know all plugins ranges over All; no other list of them stands anywhere.
//
//	                       ┌──> config   which names there are, their points, weights, arguments
//	rules: All, Find ──────┼──> policy   what an old Policy becomes
//	                       ├──> coordinator   plugins that are compiled in find the built-in ones by it
//	                       └──> bench/oracle  what upstream's plugins are held against
//
// docs/adding-a-rule.md follows one plugin through all of its files.
//
// # Words
//
// A plugin is what a configuration names. A rule is a built-in plugin as this package describes it. A table evaluates a rule where its
// number, a pb.Plugin, stands in queries; package scorer computes it. The loop does what the others stand for.
package rules
