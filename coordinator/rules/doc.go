// Package rules is the catalogue of the built-in plugins: one file for each plugin says what the coordinator knows of it. Whoever has to
// know all plugins ranges over All, or gets what it needs from here; no other list of them stands anywhere.
//
//	a rule's file                                         who uses it
//	  name, points, weight, arguments ──────────────────> config, policy, bench/judge/oracle
//	  Part: what it asks of nodes (compile.Part) ───────> compile, by NewProfile
//	  Hints: what a refused pod waits for (queue.Plugin) > queue, by QueuePlugins
//	  Words: what it refuses, told to people ───────────> observe
//
// The packages compile and queue know no plugin by a list: they are given theirs. What a rule needs of them beyond its own file, such as
// the look that all volume plugins take at a pod's claims, stands there, and its file here refers to it. Package scorer has the rules
// themselves. docs/adding-a-rule.md follows one plugin through all of its files.
//
// # Words
//
// A plugin is what a configuration names. A rule is a built-in plugin as this package describes it. Tables evaluate a rule where its
// number, a pb.Plugin, stands in queries. The loop and the queue do what some others stand for: see Rule.Loop.
package rules
