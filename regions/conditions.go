package regions

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"connectrpc.com/connect"
)

// What HTTP says in headers and the API in fields, in every protocol.
const (
	// keyHeader names a write, as the field idempotency_key does.
	keyHeader = "Idempotency-Key"
	// matchHeader is expected_version: If-Match: "7".
	matchHeader = "If-Match"
	// noneMatchHeader is expected_version 0, where a write brings it: If-None-Match: *.
	noneMatchHeader = "If-None-Match"
	// etagHeader is the version of the reaction in an answer.
	etagHeader = "ETag"
)

var (
	errTwoKeys = &invalidError{Field: "idempotency_key", Say: "differs from the header Idempotency-Key; send one of them"}
	errBadKey  = &invalidError{Field: keyHeader, Say: "must be 1 to 128 printable ASCII characters, and be sent once"}

	errTwoVersions  = &invalidError{Field: "expected_version", Say: "differs from the header If-Match or If-None-Match; send one of them"}
	errBothMatch    = &invalidError{Field: matchHeader, Say: "and If-None-Match exclude each other; send one of them"}
	errBadMatch     = &invalidError{Field: matchHeader, Say: `must be one version in double quotes, as the ETag of an answer has it: If-Match: "7"`}
	errNoConditions = &invalidError{Field: matchHeader, Say: "and If-None-Match mean nothing here; leave them out"}
	errBadNoneMatch = &invalidError{Field: noneMatchHeader, Say: `must be *, which means that there is no reaction yet; for a version send If-Match: "7"`}
)

// conditionsOf returns the idempotency key and the expected version of a write.
// The fields are valid; the headers of the call may say the same, and may hold
// anything.
func conditionsOf(ctx context.Context, key string, expected *int64) (string, *int64, error) {
	call, ok := connect.CallInfoForHandlerContext(ctx)
	if !ok {
		return key, expected, nil
	}
	key, err := idempotencyKey(call.RequestHeader(), key)
	if err != nil {
		return "", nil, err
	}
	expected, err = expectedVersion(call.RequestHeader(), expected)
	return key, expected, err
}

func idempotencyKey(header http.Header, field string) (string, error) {
	value, err := keyFromHeader(header)
	switch {
	case err != nil:
		return "", err
	case value == "" || value == field:
		return field, nil
	case field == "":
		return value, nil
	default:
		return "", errTwoKeys
	}
}

func keyFromHeader(header http.Header) (string, error) {
	values := header.Values(keyHeader)
	switch {
	case len(values) == 0:
		return "", nil
	case len(values) > 1 || values[0] == "" || !validKey(values[0]):
		return "", errBadKey
	default:
		return values[0], nil
	}
}

func validKey(key string) bool {
	for i := range len(key) {
		if key[i] < 0x21 || key[i] > 0x7e {
			return false
		}
	}
	return len(key) <= maxID
}

func expectedVersion(header http.Header, field *int64) (*int64, error) {
	value, err := versionFromHeader(header)
	switch {
	case err != nil:
		return nil, err
	case value == nil:
		return field, nil
	case field != nil && *field != *value:
		return nil, errTwoVersions
	default:
		return value, nil
	}
}

// versionFromHeader is nil where no header sets a condition. What it cannot read
// it refuses: a condition that is not heeded would be worse than none.
func versionFromHeader(header http.Header) (*int64, error) {
	match, noneMatch := header.Values(matchHeader), header.Values(noneMatchHeader)
	switch {
	case len(match) > 0 && len(noneMatch) > 0:
		return nil, errBothMatch
	case len(match) > 0:
		return versionOf(match)
	case len(noneMatch) == 0:
		return nil, nil
	case len(noneMatch) > 1 || noneMatch[0] != "*":
		return nil, errBadNoneMatch
	default:
		return new(int64), nil
	}
}

func versionOf(tags []string) (*int64, error) {
	if len(tags) > 1 {
		return nil, errBadMatch
	}
	version, err := strconv.ParseInt(strings.Trim(tags[0], `"`), 10, 64)
	if err != nil || version < 0 || tags[0] != etag(version) { // there is one spelling
		return nil, errBadMatch
	}
	return &version, nil
}

// unconditional refuses conditions where none is heeded.
func unconditional(ctx context.Context) error {
	call, ok := connect.CallInfoForHandlerContext(ctx)
	if ok && len(call.RequestHeader().Values(matchHeader))+len(call.RequestHeader().Values(noneMatchHeader)) > 0 {
		return errNoConditions
	}
	return nil
}

// etag is a version as a strong validator.
func etag(version int64) string { return fmt.Sprintf(`"%d"`, version) }

// answerPrivately keeps caches from giving one user's answer to another, who
// reads the same URL and may have the same ETag.
func answerPrivately(ctx context.Context) {
	if call, ok := connect.CallInfoForHandlerContext(ctx); ok {
		call.ResponseHeader().Set("Cache-Control", "private, no-cache")
		call.ResponseHeader().Add("Vary", "Authorization")
	}
}

// answerETag puts the version into the headers of the answer.
func answerETag(ctx context.Context, version int64) {
	if call, ok := connect.CallInfoForHandlerContext(ctx); ok {
		call.ResponseHeader().Set(etagHeader, etag(version))
	}
}
