package regions

import (
	"encoding/base64"
	"encoding/binary"
	"math"
	"time"
)

// A consistency token proves a write to later reads: it is the time at which
// the write was surely committed, by the database's clock. To callers it is
// opaque: URL-safe base64, without padding, of a version byte and the
// microseconds since 1970, big-endian.
const (
	tokenVersion = 1
	tokenBytes   = 1 + 8
)

func tokenEncoding() *base64.Encoding { return base64.RawURLEncoding.Strict() }

func formatToken(committed time.Time) string {
	var raw [tokenBytes]byte
	raw[0] = tokenVersion
	binary.BigEndian.PutUint64(raw[1:], uint64(committed.UnixMicro()))
	return tokenEncoding().EncodeToString(raw[:])
}

// parseToken accepts exactly what formatToken returns for a time after 1970.
func parseToken(token string) (time.Time, error) {
	var raw [tokenBytes]byte
	if len(token) != tokenEncoding().EncodedLen(tokenBytes) {
		return time.Time{}, errBadToken
	}
	// The decoder skips line breaks; then fewer bytes come out.
	n, err := tokenEncoding().Decode(raw[:], []byte(token))
	micros := binary.BigEndian.Uint64(raw[1:])
	if err != nil || n != tokenBytes || raw[0] != tokenVersion || micros == 0 || micros > math.MaxInt64 {
		return time.Time{}, errBadToken
	}
	return time.UnixMicro(int64(micros)).UTC(), nil
}

var errBadToken = &invalidError{
	Field: "consistency_token",
	Say:   "must be a token from an earlier reply, unchanged; or leave it out",
}
