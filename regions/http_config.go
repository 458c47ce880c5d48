package regions

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net/url"
	"strings"
)

// HTTPConfig says how users reach the front door.
type HTTPConfig struct {
	// CORSOrigins are the web pages that may call from a browser, with the user's
	// credentials: each scheme://host or scheme://host:port, compared as a whole.
	// There is no wildcard. Empty: no page of another origin may.
	CORSOrigins []string

	// TLSCert and TLSKey are PEM: the certificate chain and the private key with
	// which the front door speaks HTTP/1.1 and HTTP/2 over TLS. Both empty: it
	// speaks the same in plaintext, and TLS ends before it.
	TLSCert, TLSKey []byte
}

func (c HTTPConfig) validate() error {
	errs := make([]error, 0, len(c.CORSOrigins)+1)
	for _, origin := range c.CORSOrigins {
		if err := CheckOrigin(origin); err != nil {
			errs = append(errs, fmt.Errorf("HTTP.CORSOrigins: %w", err))
		}
	}
	_, err := c.certificates()
	return errors.Join(append(errs, err)...)
}

// CheckOrigin accepts what a browser sends as Origin, byte by byte: anything else
// would silently never match.
func CheckOrigin(origin string) error {
	u, err := url.Parse(origin)
	port := map[string]string{"http": "80", "https": "443"}
	switch {
	case strings.Contains(origin, "*"):
		return errors.New("a wildcard would let any page act for its visitors: list the origins")
	case err != nil, port[u.Scheme] == "", u.Hostname() == "", strings.HasSuffix(u.Host, ":"), origin != strings.ToLower(u.Scheme+"://"+u.Host):
		return fmt.Errorf("want https://host or https://host:port, in lower case, with no path, have %q", origin)
	case u.Port() == port[u.Scheme]:
		return fmt.Errorf("leave out the scheme's own port, as browsers do, have %q", origin)
	default:
		return nil
	}
}

// certificates is empty if the front door speaks plaintext.
func (c HTTPConfig) certificates() ([]tls.Certificate, error) {
	if len(c.TLSCert) == 0 && len(c.TLSKey) == 0 {
		return nil, nil
	}
	cert, err := tls.X509KeyPair(c.TLSCert, c.TLSKey)
	if err != nil {
		return nil, fmt.Errorf("HTTP.TLSCert: want a PEM certificate whose private key is in HTTP.TLSKey: %w", err)
	}
	return []tls.Certificate{cert}, nil
}
