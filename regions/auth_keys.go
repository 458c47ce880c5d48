package regions

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/MicahParks/jwkset"
	"github.com/golang-jwt/jwt/v5"
)

const (
	// maxKeys bounds the keys of one set: a token that does not say which one
	// signed it is tried with each.
	maxKeys = 50
	// minRSA is the size of the smallest RSA key that RFC 7518 allows, in bits.
	minRSA = 2048
)

// publicKey is a key of an issuer.
type publicKey struct {
	id        string
	algorithm string // the only one it is for; empty: any of its kind
	key       any    // *rsa.PublicKey, *ecdsa.PublicKey or ed25519.PublicKey
}

// canVerify reports whether the key is of the kind and the size that a method
// wants.
func (k publicKey) canVerify(method jwt.SigningMethod) bool {
	switch key := k.key.(type) {
	case *rsa.PublicKey:
		switch method.(type) {
		case *jwt.SigningMethodRSA, *jwt.SigningMethodRSAPSS:
			return key.Size()*8 >= minRSA
		}
	case *ecdsa.PublicKey:
		curve, ok := method.(*jwt.SigningMethodECDSA)
		return ok && curve.CurveBits == key.Curve.Params().BitSize
	case ed25519.PublicKey:
		_, ok := method.(*jwt.SigningMethodEd25519)
		return ok
	}
	return false
}

// keySet is what issuers publish at one moment. It never changes: other keys are
// another set.
type keySet struct{ keys []publicKey }

// verify returns errUnknownKey if the token may be signed by a key that is not in
// the set, and errBadSignature if it is not signed by the one that it names.
func (s *keySet) verify(method jwt.SigningMethod, token signedToken) error {
	verdict := errUnknownKey
	for _, key := range s.keys {
		if token.header.hasKeyID && key.id != token.header.keyID || !key.fits(method) {
			continue
		}
		if method.Verify(token.input, token.signature, key.key) == nil {
			return nil
		}
		if token.header.hasKeyID {
			verdict = errBadSignature
		}
	}
	return verdict
}

var errNoKeySet = errors.New("want a JSON Web Key Set: an object with an array 'keys'")

// parseKeySet returns the keys of a JSON Web Key Set that can verify tokens. It
// leaves out, as RFC 7517 asks, what it does not know, and what is for other
// ends: secrets are never among them.
func parseKeySet(document []byte) ([]publicKey, error) {
	var set struct{ Keys *[]json.RawMessage }
	if err := json.Unmarshal(document, &set); err != nil || set.Keys == nil {
		return nil, errNoKeySet
	}
	if len(*set.Keys) > maxKeys {
		return nil, fmt.Errorf("want at most %d keys, have %d", maxKeys, len(*set.Keys))
	}
	var keys []publicKey
	for _, raw := range *set.Keys {
		if key, ok := parseKey(raw); ok {
			keys = append(keys, key)
		}
	}
	return keys, nil
}

func parseKey(raw json.RawMessage) (publicKey, bool) {
	var fields jwkset.JWKMarshal
	if json.Unmarshal(raw, &fields) != nil || !forSignatures(fields) {
		return publicKey{}, false
	}
	// Certificates prove nothing here, and the library might fetch them.
	fields.X5U, fields.X5C, fields.X5T, fields.X5TS256 = "", nil, "", ""
	jwk, err := jwkset.NewJWKFromMarshal(fields, jwkset.JWKMarshalOptions{}, jwkset.JWKValidateOptions{})
	if err != nil {
		return publicKey{}, false
	}
	key := publicKey{id: fields.KID, algorithm: fields.ALG.String(), key: jwk.Key()}
	for _, method := range signingMethods() {
		if key.canVerify(method) {
			return key, true
		}
	}
	return publicKey{}, false
}

func forSignatures(fields jwkset.JWKMarshal) bool {
	return (fields.USE == "" || fields.USE == jwkset.UseSig) &&
		(len(fields.KEYOPS) == 0 || slices.Contains(fields.KEYOPS, jwkset.KeyOpsVerify))
}
