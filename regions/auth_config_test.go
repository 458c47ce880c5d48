package regions

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestAuthConfigNamesWhatToChange(t *testing.T) {
	t.Parallel()
	const address = "https://issuer.example/jwks.json"
	for name, c := range map[string]struct {
		cfg AuthConfig
		say string // empty: nothing to change
	}{
		"a secret":                      {cfg: AuthConfig{Secret: testSecret}},
		"a file":                        {cfg: AuthConfig{JWKSFile: "keys.json"}},
		"a URL":                         {cfg: AuthConfig{JWKSURL: address}},
		"a URL on this host":            {cfg: AuthConfig{JWKSURL: "http://127.0.0.1:1/"}},
		"a URL on this host, by name":   {cfg: AuthConfig{JWKSURL: "http://localhost/"}},
		"a URL on this host, version 6": {cfg: AuthConfig{JWKSURL: "http://[::1]:1/"}},
		"all of them":                   {cfg: AuthConfig{Secret: testSecret, JWKSFile: "keys.json", JWKSURL: address, Algorithms: []string{"HS256", "PS512", "ES384"}}},
		"a short refresh":               {cfg: AuthConfig{JWKSURL: address, JWKSRefresh: time.Second}},
		"nothing":                       {AuthConfig{}, "Auth.Secret: give this, or Auth.JWKSFile, or Auth.JWKSURL"},
		"a short secret":                {AuthConfig{Secret: testSecret[:31]}, "Auth.Secret: want at least 32 bytes, have 31"},
		"no URL":                        {AuthConfig{JWKSURL: "issuer.example/jwks.json"}, "Auth.JWKSURL: want a URL such as"},
		"a URL that is cut off":         {AuthConfig{JWKSURL: "https://me:sesame@%zz"}, "Auth.JWKSURL: want a URL such as"},
		"a URL that anybody can change": {AuthConfig{JWKSURL: "http://me:sesame@issuer.example/"}, "Auth.JWKSURL: want https://"},
		"a URL of a local-looking host": {AuthConfig{JWKSURL: "http://localhost.example/"}, "Auth.JWKSURL: want https://"},
		"a URL of a file":               {AuthConfig{JWKSURL: "file://localhost/keys.json"}, "Auth.JWKSURL: want https://"},
		"none":                          {AuthConfig{Secret: testSecret, Algorithms: []string{"HS256", "none"}}, `Auth.Algorithms: want some of ES256, ES384, ES512, EdDSA, HS256, PS256, PS384, PS512, RS256, RS384, RS512, have "none"`},
		"HS512":                         {AuthConfig{Secret: testSecret, Algorithms: []string{"HS256", "HS512"}}, `have "HS512"`},
		"HS256 without a secret":        {AuthConfig{JWKSURL: address, Algorithms: []string{"HS256", "RS256"}}, "Auth.Algorithms: HS256 needs Auth.Secret"},
		"RS256 without keys":            {AuthConfig{Secret: testSecret, Algorithms: []string{"HS256", "RS256"}}, "Auth.Algorithms: RS256 needs Auth.JWKSFile or Auth.JWKSURL"},
		"a secret for nothing":          {AuthConfig{Secret: testSecret, JWKSURL: address, Algorithms: []string{"RS256"}}, "Auth.Algorithms: add HS256"},
		"keys for nothing":              {AuthConfig{Secret: testSecret, JWKSURL: address, Algorithms: []string{"HS256"}}, "Auth.Algorithms: add RS256"},
		"an empty audience":             {AuthConfig{Secret: testSecret, Audience: []string{"a", ""}}, "Auth.Audience: "},
		"a refresh below the cool-down": {AuthConfig{JWKSURL: address, JWKSRefresh: time.Second, JWKSCooldown: time.Minute}, "Auth.JWKSRefresh: want at least Auth.JWKSCooldown (1m0s), have 1s"},
		"a refresh before now":          {AuthConfig{JWKSURL: address, JWKSRefresh: -1}, "Auth.JWKSRefresh: want more than 0"},
		"a cool-down before now":        {AuthConfig{JWKSURL: address, JWKSCooldown: -1}, "Auth.JWKSCooldown: want more than 0"},
		"a timeout before now":          {AuthConfig{JWKSURL: address, JWKSTimeout: -1}, "Auth.JWKSTimeout: want more than 0"},
		"a leeway before now":           {AuthConfig{Secret: testSecret, Leeway: -1}, "Auth.Leeway: want 0 or more"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := c.cfg.withDefaults().validate()
			if c.say == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, c.say)
			require.NotContains(t, err.Error(), "sesame")
		})
	}
}

func TestTheUsualAlgorithms(t *testing.T) {
	t.Parallel()
	require.Equal(t, []string{"HS256"}, AuthConfig{Secret: testSecret}.withDefaults().Algorithms)
	require.Equal(t, []string{"RS256", "ES256", "EdDSA"}, AuthConfig{JWKSFile: "k"}.withDefaults().Algorithms)
	require.Equal(t, []string{"HS256", "RS256", "ES256", "EdDSA"}, AuthConfig{Secret: testSecret, JWKSURL: "u"}.withDefaults().Algorithms)
}
