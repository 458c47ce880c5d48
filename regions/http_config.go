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
		if err := checkOrigin(origin); err != nil {
			errs = append(errs, fmt.Errorf("HTTP.CORSOrigins: %q: %w", origin, err))
		}
	}
	_, err := c.certificates()
	return errors.Join(append(errs, err)...)
}

var errOrigin = errors.New("want scheme://host or scheme://host:port, in lower case, with no path")

// checkOrigin accepts what a browser may send as Origin, byte by byte: anything
// else would silently never match.
func checkOrigin(origin string) error {
	if strings.Contains(origin, "*") {
		return errors.New("a wildcard would let any page act for its visitors; list the origins")
	}
	parsed, err := url.Parse(origin)
	if err != nil || (parsed.Scheme != "http" && parsed.Scheme != "https") {
		return errOrigin
	}
	if parsed.Hostname() == "" || strings.HasSuffix(parsed.Host, ":") || origin != strings.ToLower(parsed.Scheme+"://"+parsed.Host) {
		return errOrigin
	}
	if (parsed.Scheme == "http" && parsed.Port() == "80") || (parsed.Scheme == "https" && parsed.Port() == "443") {
		return errors.New("leave out the scheme's own port, as browsers do")
	}
	return nil
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
