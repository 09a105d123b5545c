// Package job reads, completes, checks and compiles the description of a
// crawl: YAML to lycosa.job.v1.Spec and back, the defaults, the rules that a
// spec must keep, and the scope that judges links.
//
// The proto message is the only definition of a spec. YAML has the same fields
// by the same names, decoded strictly by the message's descriptor: an unknown
// key or a value of the wrong type is an error with file, line, column and a
// suggestion, and all errors of a file are reported at once.
package job
