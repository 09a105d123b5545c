// Package fetch makes one HTTP/1.x exchange at a time for a caller that knows
// what it may do: which URL, at which addresses, with how many bytes and how
// much time. It knows nothing of crawling.
//
// It is no general HTTP client. It sends exactly the bytes it reports, sends
// nothing twice (a second request needs a second permission), follows no
// redirect, takes no coding off, and hands the response's bytes on as they came
// off the wire. It connects only to the addresses it was given, and to none
// that the address policy refuses.
//
// Connections are kept alive and owned by one exchange at a time; between
// exchanges they lie in a pool bounded in number and age. Memory: waiting for a
// server costs a goroutine and a small request buffer; a read buffer is held
// only from the response's first byte on, and belongs to the Sink from the
// moment it is handed over.
//
// What the web does is data: Fetch returns a Result and never an error.
package fetch
