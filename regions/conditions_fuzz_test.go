package regions

import (
	"net/http"
	"testing"

	"buf.build/go/protovalidate"
	"github.com/stretchr/testify/require"

	likewisev1 "likewise/proto/likewise/v1"
)

// Whatever the headers hold, a condition is understood as it was meant, or
// refused: it is never passed over.
func FuzzConditions(f *testing.F) {
	for _, seed := range []struct{ key, match, noneMatch string }{
		{"k1", `"7"`, ""},
		{"", "", "*"},
		{"k 1", "*", "*"},
		{"", `W/"7"`, ""},
		{"", `"9223372036854775808"`, ""},
		{"", `"-1"`, ""},
		{"", `"07"`, ""},
		{"", `"7", "8"`, ""},
		{"\x00", `"`, "**"},
		{"", `""7""`, `"*"`},
	} {
		f.Add(seed.key, seed.match, seed.noneMatch)
	}
	f.Fuzz(func(t *testing.T, key, match, noneMatch string) {
		header := make(http.Header)
		for name, value := range map[string]string{keyHeader: key, matchHeader: match, noneMatchHeader: noneMatch} {
			if value != "" {
				header.Set(name, value)
			}
		}
		if got, err := idempotencyKey(header, ""); err == nil {
			require.Equal(t, key, got)
		}
		version, err := expectedVersion(header, nil)
		switch {
		case err != nil:
			var invalid *invalidError
			require.ErrorAs(t, err, &invalid)
		case version == nil:
			require.Empty(t, match+noneMatch)
		case match != "":
			require.Equal(t, match, etag(*version))
			require.Empty(t, noneMatch)
		default:
			require.Equal(t, "*", noneMatch)
			require.Zero(t, *version)
		}
	})
}

// The rules in the proto and those that nodes hold each other to are the same,
// in every call.
func FuzzRulesOfIDsAndKeys(f *testing.F) {
	for _, seed := range []string{"cat", "", "a/b", "a b", "a%20b", "a\x00", "k\u00f6", "A-z_0.9~:@+=,|", "cat\n", "\u0085"} {
		f.Add(seed, seed)
	}
	validator, err := protovalidate.New()
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, id, key string) {
		set := &likewisev1.SetReactionRequest{VideoId: id, Reaction: likewisev1.Reaction_LIKE}
		require.Equal(t, validID(id), validator.Validate(set) == nil, "video_id")
		vote := &likewisev1.CastVoteRequest{ContentId: id, Action: "like"}
		require.Equal(t, validID(id), validator.Validate(vote) == nil, "content_id")
		batch := &likewisev1.BatchGetCountsRequest{VideoIds: []string{"cat", id}}
		require.Equal(t, validID(id), validator.Validate(batch) == nil, "video_ids")
		named := &likewisev1.DeleteReactionRequest{VideoId: "cat", IdempotencyKey: key}
		require.Equal(t, validKey(key), validator.Validate(named) == nil, "idempotency_key")
	})
}
