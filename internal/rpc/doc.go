// Package rpc is the gRPC chassis that every service stands on.
//
// A Server is grpc-go with the house's interceptors (recovery, logging,
// metrics, token, validation), health, reflection and an orderly end. A Local
// is the same services without sockets: Dial("inproc:scheduler") gives a
// channel that hands messages over instead of copying them, and a service
// cannot tell which of the two it is called through.
//
// The hot paths are streams that carry many calls at once, matched by an id.
// Caller is the client's side of such a stream; ServeItems (one message in, one
// out) and ServeCalls (several messages under one id) are the server's.
//
// # Ownership of messages
//
// Sending a message hands it over: in process, the receiver gets a message of
// its own whose fields are the sender's (nested messages, slices and maps are
// shared, not copied). So a sender changes nothing of a message after sending
// it, and may reuse memory that it refers to only after the call's final
// answer; a receiver reads only, and keeps no reference after it has answered.
package rpc
