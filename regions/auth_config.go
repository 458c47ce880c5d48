package regions

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"
)

// minSecret is the length of an HMAC-SHA256 key that loses no strength.
const minSecret = 32

// AuthConfig says whose tokens are believed: those that are signed with Secret,
// those that are signed by a key of JWKSFile or JWKSURL, or any of these. At
// least one of the three is required.
type AuthConfig struct {
	// Secret signs tokens, by HS256. At least 32 bytes.
	Secret []byte

	// JWKSFile is a file with a JSON Web Key Set: the public keys that sign
	// tokens. It is read again every 5 s, so it may be replaced at any time. One
	// that cannot be read, or is no key set, leaves the keys as they were.
	JWKSFile string
	// JWKSURL is where a JSON Web Key Set is fetched: https://, or http:// on this
	// host. Redirects are not followed, and no proxy is used. Once there are keys,
	// a URL that does not answer leaves them as they are.
	JWKSURL string
	// JWKSRefresh is the time between two fetches of JWKSURL, and so how long a key
	// that was withdrawn still counts; ± 10 %. Default 5 min.
	JWKSRefresh time.Duration
	// JWKSCooldown is the least time between two fetches of JWKSURL: a token whose
	// key is unknown causes one, if the last one is that long ago, and so does a
	// failure. Default 10 s.
	JWKSCooldown time.Duration
	// JWKSTimeout bounds one fetch of JWKSURL. Default 5 s.
	JWKSTimeout time.Duration

	// Issuer is the claim 'iss' that every token must carry. Empty: any.
	Issuer string
	// Audience lists names of this service. One of them must be in the claim 'aud'
	// of every token. None: any, so that tokens which the issuer made for another
	// service count here as well.
	Audience []string
	// Algorithms lists those by which tokens may be signed: HS256 with Secret;
	// RS256, RS384, RS512, PS256, PS384, PS512, ES256, ES384, ES512 and EdDSA with
	// a key set. Default: HS256 if there is a Secret; RS256, ES256 and EdDSA if
	// there is a key set.
	Algorithms []string
	// Leeway is how far the clocks of the issuer and of this node may differ.
	// Default 30 s.
	Leeway time.Duration
}

const hs256 = "HS256"

func (c AuthConfig) hasKeySet() bool { return c.JWKSFile != "" || c.JWKSURL != "" }

func (c AuthConfig) withDefaults() AuthConfig {
	orDefault(&c.JWKSRefresh, 5*time.Minute)
	orDefault(&c.JWKSCooldown, min(10*time.Second, c.JWKSRefresh))
	orDefault(&c.JWKSTimeout, 5*time.Second)
	orDefault(&c.Leeway, 30*time.Second)
	if len(c.Algorithms) == 0 {
		c.Algorithms = c.usualAlgorithms()
	}
	return c
}

func (c AuthConfig) usualAlgorithms() []string {
	var algorithms []string
	if len(c.Secret) > 0 {
		algorithms = append(algorithms, hs256)
	}
	if c.hasKeySet() {
		algorithms = append(algorithms, "RS256", "ES256", "EdDSA")
	}
	return algorithms
}

func (c AuthConfig) validate() error {
	var errs []error
	if len(c.Secret) == 0 && !c.hasKeySet() {
		errs = append(errs, errors.New("Auth.Secret: give this, or Auth.JWKSFile, or Auth.JWKSURL: without any of them no token can be verified"))
	}
	if n := len(c.Secret); n > 0 && n < minSecret {
		errs = append(errs, fmt.Errorf("Auth.Secret: want at least %d bytes, have %d", minSecret, n))
	}
	if c.Leeway < 0 {
		errs = append(errs, fmt.Errorf("Auth.Leeway: want 0 or more, have %s", c.Leeway))
	}
	if slices.Contains(c.Audience, "") {
		errs = append(errs, errors.New("Auth.Audience: want names, have an empty one"))
	}
	if c.JWKSRefresh < c.JWKSCooldown {
		errs = append(errs, fmt.Errorf("Auth.JWKSRefresh: want at least Auth.JWKSCooldown (%s), have %s", c.JWKSCooldown, c.JWKSRefresh))
	}
	return errors.Join(append(errs,
		c.validateURL(),
		c.validateAlgorithms(),
		positive("Auth.JWKSRefresh", c.JWKSRefresh),
		positive("Auth.JWKSCooldown", c.JWKSCooldown),
		positive("Auth.JWKSTimeout", c.JWKSTimeout),
	)...)
}

func (c AuthConfig) validateURL() error {
	if c.JWKSURL == "" {
		return nil
	}
	if err := CheckKeysURL(c.JWKSURL); err != nil {
		return fmt.Errorf("Auth.JWKSURL: %w", err)
	}
	return nil
}

// CheckKeysURL says whether keys may be fetched from a URL. It repeats nothing of
// it, as it may hold a secret.
func CheckKeysURL(text string) error {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "":
		return errors.New("want a URL such as https://login.example.com/jwks.json")
	case u.Scheme == "https", u.Scheme == "http" && isLoopback(u.Hostname()):
		return nil
	default:
		return errors.New("want https://, or http:// on this machine only: whoever could change the answer on its way could sign tokens")
	}
}

func isLoopback(host string) bool {
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && addr.IsLoopback()
}

func (c AuthConfig) validateAlgorithms() error {
	var errs []error
	known := signingMethods()
	for _, name := range c.Algorithms {
		switch _, ok := known[name]; {
		case !ok:
			errs = append(errs, fmt.Errorf("Auth.Algorithms: want some of %s, have %q", strings.Join(sortedKeys(known), ", "), name))
		case name == hs256 && len(c.Secret) == 0:
			errs = append(errs, errors.New("Auth.Algorithms: HS256 needs Auth.Secret"))
		case name != hs256 && !c.hasKeySet():
			errs = append(errs, fmt.Errorf("Auth.Algorithms: %s needs Auth.JWKSFile or Auth.JWKSURL", name))
		}
	}
	if len(c.Secret) > 0 && !slices.Contains(c.Algorithms, hs256) {
		errs = append(errs, errors.New("Auth.Algorithms: add HS256, or leave Auth.Secret out: nothing else can be signed with it"))
	}
	if c.hasKeySet() && !slices.ContainsFunc(c.Algorithms, func(name string) bool { return name != hs256 }) {
		errs = append(errs, errors.New("Auth.Algorithms: add RS256 or another algorithm of public keys, or leave Auth.JWKSFile and Auth.JWKSURL out"))
	}
	return errors.Join(errs...)
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
