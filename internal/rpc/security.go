package rpc

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"

	"google.golang.org/grpc/credentials"

	"lycosa.dev/internal/telemetry"
)

// TLSFiles names the PEM files of one side of TLS. The zero value is no TLS.
// It is made to be a section of a service's settings.
type TLSFiles struct {
	Cert string `yaml:"cert" usage:"PEM file of this side's certificate chain"`
	Key  string `yaml:"key" usage:"PEM file of the certificate's private key"`
	CA   string `yaml:"ca" usage:"PEM file of the authorities that the other side's certificate must come from; on a server it makes client certificates required"`
	// ServerName is checked against the server's certificate in place of the
	// name dialled. Clients only.
	ServerName string `yaml:"server_name" usage:"name to expect in the server's certificate, if not the one dialled (clients)"`
}

// IsZero says that TLS is not wanted.
func (f TLSFiles) IsZero() bool { return f == TLSFiles{} }

// Validate checks that the names make a pair; the files are read by Server and
// Client.
func (f TLSFiles) Validate() error {
	if (f.Cert == "") != (f.Key == "") {
		return errors.New("tls: cert and key must be given together")
	}
	return nil
}

// Server returns the server's configuration, nil when f is zero.
func (f TLSFiles) Server() (*tls.Config, error) {
	if f.IsZero() {
		return nil, nil
	}
	if f.Cert == "" || f.Key == "" {
		return nil, errors.New("tls: a server needs cert and key")
	}
	conf := &tls.Config{MinVersion: tls.VersionTLS12}
	if err := f.load(conf); err != nil {
		return nil, err
	}
	if f.CA != "" {
		pool, err := certPool(f.CA)
		if err != nil {
			return nil, err
		}
		conf.ClientCAs = pool
		conf.ClientAuth = tls.RequireAndVerifyClientCert
	}
	return conf, nil
}

// Client returns the client's configuration, nil when f is zero. Without a CA
// the system's authorities count.
func (f TLSFiles) Client() (*tls.Config, error) {
	if f.IsZero() {
		return nil, nil
	}
	if err := f.Validate(); err != nil {
		return nil, err
	}
	conf := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: f.ServerName}
	if err := f.load(conf); err != nil {
		return nil, err
	}
	if f.CA != "" {
		pool, err := certPool(f.CA)
		if err != nil {
			return nil, err
		}
		conf.RootCAs = pool
	}
	return conf, nil
}

func (f TLSFiles) load(conf *tls.Config) error {
	if f.Cert == "" {
		return nil
	}
	pair, err := tls.LoadX509KeyPair(f.Cert, f.Key)
	if err != nil {
		return fmt.Errorf("tls: certificate %s with key %s: %w", f.Cert, f.Key, err)
	}
	conf.Certificates = []tls.Certificate{pair}
	return nil
}

func certPool(file string) (*x509.CertPool, error) {
	pem, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("tls: authorities: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("tls: authorities %s: no PEM certificate in it", file)
	}
	return pool, nil
}

// ReadToken returns the token given, or the first line of file when it names
// one. Both at once is an error, for nobody could tell which counts.
func ReadToken(token telemetry.Secret, file string) (telemetry.Secret, error) {
	if file == "" {
		return token, nil
	}
	if token != "" {
		return "", errors.New("token: give the token or its file, not both")
	}
	b, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("token: %w", err)
	}
	line, _, _ := strings.Cut(string(b), "\n")
	line = strings.TrimSpace(line)
	if line == "" {
		return "", fmt.Errorf("token: the first line of %s is empty", file)
	}
	return telemetry.Secret(line), nil
}

// CheckListen refuses an address that other machines could reach unless the
// server has TLS and a token. Unix sockets are guarded by their file mode.
func CheckListen(addr string, tlsConf *tls.Config, token telemetry.Secret) error {
	if path, ok := strings.CutPrefix(addr, "unix:"); ok {
		if path == "" {
			return fmt.Errorf("listen address %q: a path must follow unix:", addr)
		}
		return nil
	}
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("listen address %q: must be host:port or unix:path: %w", addr, err)
	}
	if isLoopback(host) {
		return nil
	}
	var lacks string
	switch {
	case tlsConf == nil && token == "":
		lacks = "TLS (tls.cert, tls.key) and a token (token or token_file)"
	case tlsConf == nil:
		lacks = "TLS (tls.cert, tls.key)"
	case token == "":
		lacks = "a token (token or token_file)"
	default:
		return nil
	}
	return fmt.Errorf("listen address %q is open to other machines: that needs %s; or listen on a loopback address such as 127.0.0.1", addr, lacks)
}

// Loopback says whether host:port is this machine's own address.
func Loopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	return err == nil && isLoopback(host)
}

// isLoopback says whether host is this machine only. Names other than
// localhost are not looked up and count as not.
func isLoopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

// tokenCreds sends the token with every call.
type tokenCreds struct {
	header string
	secure bool
}

var _ credentials.PerRPCCredentials = tokenCreds{}

func (t tokenCreds) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"authorization": t.header}, nil
}

func (t tokenCreds) RequireTransportSecurity() bool { return t.secure }

// String keeps the token out of logs.
func (t tokenCreds) String() string { return "token credentials" }
