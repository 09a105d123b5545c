// Package secret finds secrets by their name. A job's spec travels, is stored
// and is shown; so it holds the names of secrets and never the secrets. Where
// they lie is for whoever runs the downloader to say: files of a folder, or
// environment variables with a prefix of their own. A job can reach no other
// file and no other variable.
package secret

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// EnvPrefix begins the name of an environment variable that holds a secret.
const EnvPrefix = "LYCOSA_SECRET_"

// maxBytes bounds a secret: a cookies.txt or a chain of certificates.
const maxBytes = 4 << 20

var validName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// Store finds secrets. The zero value knows those of the environment only.
type Store struct {
	// Dir is the folder of secret files; empty: none.
	Dir string
}

// Value returns the secret of that name: the file of that name in the folder,
// or LYCOSA_SECRET_<NAME> in upper case with "-" as "_". One line end at its
// end is no part of it. The error never holds a part of a secret.
func (s Store) Value(name string) ([]byte, error) {
	if !validName.MatchString(name) {
		return nil, errors.New("the name of a secret must be 1 to 64 letters, digits, \"-\", \"_\"")
	}
	if s.Dir != "" {
		path := filepath.Join(s.Dir, name)
		st, err := os.Stat(path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return nil, fmt.Errorf("secret %q: %w", name, err)
		case !st.Mode().IsRegular() || st.Size() > maxBytes:
			return nil, fmt.Errorf("secret %q: %s must be a file of at most %d bytes", name, path, maxBytes)
		case st.Mode().Perm()&0o077 != 0:
			return nil, fmt.Errorf("secret %q: %s may be read by others (mode %04o); make it 0600", name, path, st.Mode().Perm())
		default:
			b, err := os.ReadFile(path)
			if err != nil {
				return nil, fmt.Errorf("secret %q: %w", name, err)
			}
			return trimLine(b), nil
		}
	}
	env := EnvPrefix + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
	if v, ok := os.LookupEnv(env); ok {
		return trimLine([]byte(v)), nil
	}
	if s.Dir == "" {
		return nil, fmt.Errorf("secret %q: set the environment variable %s, or name a folder of secrets (secrets_dir)", name, env)
	}
	return nil, fmt.Errorf("secret %q: there is neither a file %s nor an environment variable %s", name, filepath.Join(s.Dir, name), env)
}

func trimLine(b []byte) []byte {
	return bytes.TrimSuffix(bytes.TrimSuffix(b, []byte("\n")), []byte("\r"))
}
