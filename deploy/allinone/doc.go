// Package allinone is Lycosa in one process: scheduler, downloader, extractor,
// dnser and gateway, the same services as the five binaries, wired by in-process
// channels without sockets and without copies. The services cannot tell.
//
// A Process owns a folder (see Layout) and holds a lock on it while it lives.
// It serves AdminService on a unix socket in the folder, and on TCP if asked.
//
// Order of the end: the gateway first, so that nobody asks for more; the
// scheduler, which lets its leases come home through the others; then
// downloader, extractor and dnser.
package allinone
