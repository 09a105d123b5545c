package fetch

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"syscall"

	"lycosa.dev/internal/netpolicy"
)

// failure is a web fact: why an exchange gave no response.
type failure struct {
	class  Class
	code   string
	detail string
}

func (f *failure) into(r *Result) { r.Class, r.Code, r.Detail = f.class, f.code, f.detail }

func isTimeout(err error) bool {
	var ne net.Error
	return errors.Is(err, os.ErrDeadlineExceeded) || (errors.As(err, &ne) && ne.Timeout())
}

// isEnd tells whether err is an orderly end of the connection. Many servers end
// a TLS session without saying goodbye; browsers take that for an end too.
func isEnd(err error) bool { return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) }

func isReset(err error) bool {
	return errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNABORTED)
}

// words is the innermost message of err, without addresses and wrappers that
// the Result says anyway.
func words(err error) string {
	var op *net.OpError
	if errors.As(err, &op) && op.Err != nil {
		err = op.Err
	}
	var sys *os.SyscallError
	if errors.As(err, &sys) {
		err = sys.Err
	}
	return err.Error()
}

// connectFailure says why there is no TCP connection.
func connectFailure(err error) *failure {
	var refused *netpolicy.Refusal
	if errors.As(err, &refused) {
		return &failure{ClassPolicy, "address-refused", refused.Error()}
	}
	code := "connect-failed"
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		code = "connect-refused"
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH), errors.Is(err, syscall.EADDRNOTAVAIL):
		code = "connect-unreachable"
	case isTimeout(err), errors.Is(err, syscall.ETIMEDOUT):
		code = "connect-timeout"
	case isReset(err):
		code = "connect-reset"
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE), errors.Is(err, syscall.ENOBUFS):
		// Our own lack: nothing is wrong with the server.
		return &failure{ClassNotStarted, "no-file-descriptors", words(err)}
	}
	return &failure{ClassConnect, code, words(err)}
}

// tlsFailure says why there is no TLS session.
func tlsFailure(err error) *failure {
	var (
		verify *tls.CertificateVerificationError
		alert  tls.AlertError
		record tls.RecordHeaderError
	)
	switch {
	case isTimeout(err):
		return &failure{ClassTLS, "tls-timeout", "the TLS handshake did not end in time"}
	case errors.As(err, &verify):
		return &failure{ClassTLS, "certificate-invalid", certWords(verify.Err)}
	case errors.As(err, &alert):
		return &failure{ClassTLS, "tls-alert", alert.Error()}
	case errors.As(err, &record):
		return &failure{ClassTLS, "no-tls", "the server does not speak TLS on this port"}
	case isEnd(err):
		return &failure{ClassTLS, "tls-closed", "the server closed the connection during the TLS handshake"}
	case isReset(err):
		return &failure{ClassTLS, "tls-reset", "the server reset the connection during the TLS handshake"}
	}
	return &failure{ClassTLS, "tls-failed", words(err)}
}

// certWords says why a certificate is not valid.
func certWords(err error) string {
	var (
		host    x509.HostnameError
		invalid x509.CertificateInvalidError
		unknown x509.UnknownAuthorityError
	)
	switch {
	case errors.As(err, &host):
		return "the certificate is for another host"
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return "the certificate has expired or is not yet valid"
	case errors.As(err, &unknown):
		return "the certificate is signed by an unknown authority"
	}
	return strings.TrimPrefix(err.Error(), "x509: ")
}
