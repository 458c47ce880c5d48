package regions

import (
	"fmt"
	"strings"
)

// What a caller without a good token is told: fixed sentences that name what to
// change, and never repeat anything of the token.
var (
	errNoToken      = unauthenticated("no token: send the header 'Authorization: Bearer TOKEN'")
	errManyTokens   = unauthenticated("several Authorization headers: send one")
	errLongToken    = unauthenticated(fmt.Sprintf("the token is longer than %d bytes: ask its issuer for a shorter one", maxToken))
	errMalformed    = unauthenticated("the token cannot be read: send a signed JWT, as its issuer gave it, as 'Authorization: Bearer TOKEN'")
	errTwice        = unauthenticated("the token has a header field or a claim twice: its issuer must name each once")
	errCritical     = unauthenticated("the token's header has the field 'crit', and this service understands no extension: ask its issuer for a token without")
	errType         = unauthenticated("the token is not for calls: its header 'typ' must be JWT or at+jwt, or left out")
	errBadSignature = unauthenticated("the token's signature is not that of its issuer: get a new one")
	errUnknownKey   = unauthenticated("the token's signature fits no key that its issuer publishes: get a new token; if the key is a new one, try again in some seconds")
	errExpired      = unauthenticated("the token is expired: get a new one")
	errNotYet       = unauthenticated("the token is not valid yet: check the clock of its issuer")
	errNoExpiry     = unauthenticated("the token never expires: it needs the claim 'exp'")
	errBadTime      = unauthenticated("the token's claims 'exp', 'nbf' and 'iat' must be seconds since 1970, before the year 10000")
	errBadScopes    = unauthenticated("the token's claims 'scope' and 'scp' must be a string with spaces between scopes, or an array of strings")
	errBadClaims    = unauthenticated("the token's claims 'sub' and 'iss' must be strings, and 'aud' a string or an array of strings")
	errBadSubject   = unauthenticated("the token names no user: its claim 'sub' must be 1 to 128 of the characters A-Z a-z 0-9 - . _ ~ : @ + = , |")
)

// sentences say what this service is configured to want.
type sentences struct{ algorithm, issuer, audience error }

func newSentences(cfg AuthConfig) sentences {
	return sentences{
		algorithm: unauthenticated(fmt.Sprintf("the token must be signed by %s: ask its issuer for one that is", strings.Join(cfg.Algorithms, " or "))),
		issuer:    unauthenticated(fmt.Sprintf("the token is of another issuer: its claim 'iss' must be %q", cfg.Issuer)),
		audience:  unauthenticated(fmt.Sprintf("the token is for another service: its claim 'aud' must hold %s", quotedList(cfg.Audience))),
	}
}

func quotedList(names []string) string {
	quoted := make([]string, len(names))
	for i, name := range names {
		quoted[i] = fmt.Sprintf("%q", name)
	}
	return strings.Join(quoted, " or ")
}
