package fetch

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"os"
	"reflect"
	"strings"
	"syscall"
	"time"

	"lycosa.dev/internal/descriptors"
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

// codeNoDescriptors is the code of a fetch that found no place for a connection.
const codeNoDescriptors = "no-file-descriptors"

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
	case descriptors.Exhausted(err):
		// Our own lack: nothing is wrong with the server.
		return &failure{ClassNotStarted, codeNoDescriptors, words(err)}
	}
	return &failure{ClassConnect, code, words(err)}
}

// Alerts by which a server says that it does not know what we speak (RFC 8446
// section 6.2).
const (
	alertUnexpectedMessage = 10
	alertHandshakeFailure  = 40
	alertBadCertificate    = 42
	alertIllegalParameter  = 47
	alertUnknownCA         = 48
	alertAccessDenied      = 49
	alertDecodeError       = 50
	alertProtocolVersion   = 70
	alertInsufficient      = 71
	alertInternalError     = 80
	alertUnrecognizedName  = 112
	alertNeedsCertificate  = 116
)

// remoteAlert returns the number of the alert that the server sent, if that is
// what err says. crypto/tls wraps it in a net.OpError and keeps its type, a
// uint8, to itself.
func remoteAlert(err error) (uint64, bool) {
	var op *net.OpError
	if !errors.As(err, &op) || op.Op != "remote error" {
		return 0, false
	}
	v := reflect.ValueOf(op.Err)
	if v.Kind() != reflect.Uint8 {
		return 0, false
	}
	return v.Uint(), true
}

// tlsFailure says why there is no TLS session.
func tlsFailure(err error) *failure {
	var (
		verify *tls.CertificateVerificationError
		record tls.RecordHeaderError
	)
	switch alert, said := remoteAlert(err); {
	case isTimeout(err):
		return &failure{ClassTLS, "tls-timeout", "the TLS handshake did not end in time"}
	case errors.As(err, &verify):
		return &failure{ClassTLS, "certificate-invalid", certWords(verify.Err)}
	case said:
		switch alert {
		case alertProtocolVersion:
			return &failure{ClassTLS, "tls-version", "the server speaks none of the TLS versions offered"}
		case alertHandshakeFailure, alertInsufficient:
			return &failure{ClassTLS, "tls-ciphers", "the server accepts none of the cipher suites and parameters offered, or demands a client certificate"}
		case alertUnexpectedMessage, alertIllegalParameter, alertDecodeError, alertInternalError:
			return &failure{ClassTLS, "tls-refused", "the server stumbles over the TLS handshake: " + words(err)}
		case alertUnrecognizedName:
			return &failure{ClassTLS, "tls-name", "the server has no TLS site of this name"}
		case alertNeedsCertificate, alertBadCertificate, alertUnknownCA, alertAccessDenied:
			return &failure{ClassTLS, "tls-client-certificate", "the server demands a client certificate that it accepts: " + words(err)}
		}
		return &failure{ClassTLS, "tls-alert", words(err)}
	case errors.As(err, &record):
		return &failure{ClassTLS, "no-tls", "the server does not speak TLS on this port"}
	case isEnd(err):
		return &failure{ClassTLS, "tls-closed", "the server closed the connection during the TLS handshake"}
	case isReset(err):
		return &failure{ClassTLS, "tls-reset", "the server reset the connection during the TLS handshake"}
	case strings.Contains(err.Error(), "unsupported protocol version"):
		return &failure{ClassTLS, "tls-version", "the server chose a TLS version that was not offered: " + strings.TrimPrefix(words(err), "tls: ")}
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
	const day = "2006-01-02"
	switch {
	case errors.As(err, &host):
		names := host.Certificate.DNSNames
		for _, ip := range host.Certificate.IPAddresses {
			names = append(names[:len(names):len(names)], ip.String())
		}
		if len(names) == 0 {
			return "the certificate is for another host: it names none"
		}
		return "the certificate is for another host: " + clip(strings.Join(names, ", "))
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		c := invalid.Cert
		if time.Now().Before(c.NotBefore) {
			return "the certificate is valid only from " + c.NotBefore.Format(day) + " on"
		}
		return "the certificate has expired on " + c.NotAfter.Format(day)
	case errors.As(err, &unknown):
		return "the certificate is signed by an unknown authority"
	}
	return strings.TrimPrefix(err.Error(), "x509: ")
}
