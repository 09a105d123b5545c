// Package progress shows how a crawl goes: one live line on a terminal, a line
// every ten seconds elsewhere, JSON lines for machines, and a summary at the
// end.
//
// Nothing that a server sent is written raw: Sanitise takes out what a terminal
// would obey.
package progress
