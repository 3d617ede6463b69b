package summary

import "strings"

// Style is what the reader's side can show.
type Style struct {
	// Color: ANSI colour sequences.
	Color bool
	// Unicode: block characters; else ASCII.
	Unicode bool
	// Width is the number of columns; 0: lines may be as long as they like.
	Width int
}

// StyleFor is the style of a terminal of that width, or of a pipe, in an
// environment: NO_COLOR and TERM=dumb turn colour off, the locale decides about
// block characters.
func StyleFor(terminal bool, width int, env func(string) string) Style {
	s := Style{Width: width}
	if !terminal {
		return s
	}
	s.Color = env("NO_COLOR") == "" && env("TERM") != "dumb" && env("TERM") != ""
	s.Unicode = utf8Locale(env)
	return s
}

// utf8Locale follows the C library: the first of these that is set decides.
func utf8Locale(env func(string) string) bool {
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if v := env(name); v != "" {
			v = strings.ToLower(v)
			return strings.Contains(v, "utf-8") || strings.Contains(v, "utf8")
		}
	}
	return false
}
