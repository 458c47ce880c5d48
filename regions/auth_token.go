package regions

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/golang-jwt/jwt/v5"

	"likewise/storage"
)

// signedToken is a token (RFC 7519 in the compact form of RFC 7515), taken apart.
// Only its header was read.
type signedToken struct {
	header    tokenHeader
	input     string // what is signed
	payload   []byte
	signature []byte
}

type tokenHeader struct {
	algorithm string
	keyID     string
	hasKeyID  bool
}

// claims of a token, as far as they matter here.
type claims struct {
	subject, issuer              string
	audience, scopes             []string
	expires, notBefore, issuedAt time.Time // the last two are zero if they are not there
}

// caller is whom the claims name. A subject that is no user's id is no mistake:
// a program's token has one.
func (c claims) caller() caller {
	who := caller{subject: c.subject, scopes: c.scopes}
	if validID(c.subject) {
		who.user = storage.UserID(c.subject)
	}
	return who
}

// splitToken accepts one spelling of a token and no other: no padding, no line
// breaks, no bits that do not count.
func splitToken(token string) (signedToken, error) {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return signedToken{}, errMalformed
	}
	var raw [3][]byte
	for i, part := range parts {
		decoded, err := base64.RawURLEncoding.Strict().DecodeString(part)
		if err != nil || strings.ContainsAny(part, "\r\n") { // which the decoder skips
			return signedToken{}, errMalformed
		}
		raw[i] = decoded
	}
	header, err := parseHeader(raw[0])
	if err != nil {
		return signedToken{}, err
	}
	input := token[:len(parts[0])+1+len(parts[1])]
	return signedToken{header: header, input: input, payload: raw[1], signature: raw[2]}, nil
}

// parseHeader reads the fields that matter. Keys, and addresses of keys, that a
// token brings along are not among them.
func parseHeader(raw []byte) (tokenHeader, error) {
	fields, err := uniqueFields(raw)
	if err != nil {
		return tokenHeader{}, err
	}
	if _, ok := fields["crit"]; ok {
		return tokenHeader{}, errCritical
	}
	var header tokenHeader
	var ok bool
	if header.algorithm, ok = asString(fields["alg"]); !ok {
		return tokenHeader{}, errMalformed
	}
	if keyID, there := fields["kid"]; there {
		if header.keyID, header.hasKeyID = asString(keyID); !header.hasKeyID {
			return tokenHeader{}, errMalformed
		}
	}
	if kind, there := fields["typ"]; there && !isAccessToken(kind) {
		return tokenHeader{}, errType
	}
	return header, nil
}

// isAccessToken keeps out what the same issuer signs for other ends, such as
// logout tokens (RFC 8725, section 3.11).
func isAccessToken(kind json.RawMessage) bool {
	name, ok := asString(kind)
	if !ok {
		return false
	}
	name = strings.TrimPrefix(strings.ToLower(name), "application/")
	return name == "jwt" || name == "at+jwt"
}

func parseClaims(raw []byte) (claims, error) {
	fields, err := uniqueFields(raw)
	if err != nil {
		return claims{}, err
	}
	if _, ok := fields["exp"]; !ok {
		return claims{}, errNoExpiry
	}
	var c claims
	var subOK, issOK, audOK bool
	c.subject, subOK = optional(fields, "sub", asString)
	c.issuer, issOK = optional(fields, "iss", asString)
	c.audience, audOK = optional(fields, "aud", asStrings)
	if !subOK || !issOK || !audOK {
		return claims{}, errBadClaims
	}
	var expOK, nbfOK, iatOK bool
	c.expires, expOK = optional(fields, "exp", asTime)
	c.notBefore, nbfOK = optional(fields, "nbf", asTime)
	c.issuedAt, iatOK = optional(fields, "iat", asTime)
	if !expOK || !nbfOK || !iatOK {
		return claims{}, errBadTime
	}
	scope, scopeOK := optional(fields, "scope", asScopes)
	scp, scpOK := optional(fields, "scp", asScopes)
	if !scopeOK || !scpOK {
		return claims{}, errBadScopes
	}
	c.scopes = append(scope, scp...)
	return c, nil
}

// uniqueFields reads one JSON object and refuses a name that occurs twice, which
// parsers elsewhere may read otherwise. Names are compared byte by byte: "SUB" is
// not "sub", and counts for nothing.
func uniqueFields(raw []byte) (map[string]json.RawMessage, error) {
	if !utf8.Valid(raw) {
		return nil, errMalformed
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	if open, err := dec.Token(); err != nil || open != json.Delim('{') {
		return nil, errMalformed
	}
	fields := make(map[string]json.RawMessage)
	for dec.More() {
		token, err := dec.Token()
		name, ok := token.(string)
		var value json.RawMessage
		if err != nil || !ok || dec.Decode(&value) != nil {
			return nil, errMalformed
		}
		if _, twice := fields[name]; twice {
			return nil, errTwice
		}
		fields[name] = value
	}
	if _, err := dec.Token(); err != nil { // the brace
		return nil, errMalformed
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errMalformed
	}
	return fields, nil
}

// optional reads a field that may be missing, and then is zero.
func optional[T any](fields map[string]json.RawMessage, name string, read func(json.RawMessage) (T, bool)) (T, bool) {
	raw, ok := fields[name]
	if !ok {
		return *new(T), true
	}
	return read(raw)
}

// asString refuses null, which encoding/json would skip.
func asString(raw json.RawMessage) (string, bool) {
	var s string
	return s, len(raw) > 0 && raw[0] == '"' && json.Unmarshal(raw, &s) == nil
}

func asStrings(raw json.RawMessage) ([]string, bool) {
	if one, ok := asString(raw); ok {
		return []string{one}, true
	}
	var elements []json.RawMessage
	if len(raw) == 0 || raw[0] != '[' || json.Unmarshal(raw, &elements) != nil {
		return nil, false
	}
	all := make([]string, len(elements))
	for i, element := range elements {
		var ok bool
		if all[i], ok = asString(element); !ok {
			return nil, false
		}
	}
	return all, true
}

// asScopes splits a string at its spaces, and takes the strings of an array as
// they are.
func asScopes(raw json.RawMessage) ([]string, bool) {
	if list, ok := asString(raw); ok {
		return strings.Split(list, " "), true
	}
	return asStrings(raw)
}

// lastSecond is the last one of the year 9999.
const lastSecond = 253_402_300_799

// asTime reads a NumericDate: seconds since 1970, perhaps with a fraction.
func asTime(raw json.RawMessage) (time.Time, bool) {
	seconds, err := strconv.ParseFloat(string(raw), 64)
	if err != nil || seconds < 0 || seconds > lastSecond {
		return time.Time{}, false
	}
	return time.UnixMicro(int64(seconds * 1e6)), true
}

// signingMethods are the algorithms that can be chosen. "none" is not one.
func signingMethods() map[string]jwt.SigningMethod {
	methods := make(map[string]jwt.SigningMethod)
	for _, method := range []jwt.SigningMethod{
		jwt.SigningMethodHS256,
		jwt.SigningMethodRS256, jwt.SigningMethodRS384, jwt.SigningMethodRS512,
		jwt.SigningMethodPS256, jwt.SigningMethodPS384, jwt.SigningMethodPS512,
		jwt.SigningMethodES256, jwt.SigningMethodES384, jwt.SigningMethodES512,
		jwt.SigningMethodEdDSA,
	} {
		methods[method.Alg()] = method
	}
	return methods
}

func isHMAC(method jwt.SigningMethod) bool {
	_, ok := method.(*jwt.SigningMethodHMAC)
	return ok
}
