package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"likewise/cmd/likewise/internal/demo"
	"likewise/regions"
)

// devSecret signs the tokens of demos and of nodes that run with --dev-secret.
// It is public: whoever reads this can act as any user of such a node.
const devSecret = "likewise-development-secret-known-to-everybody"

// mint signs a token with the development secret. flag is where the user came
// from.
func mint(flag string, claims regions.Claims, ttl time.Duration) (string, error) {
	token, err := regions.MintToken([]byte(devSecret), claims, ttl)
	if err != nil {
		return "", usage(wrongf(flag, "%w", err))
	}
	return token, nil
}

// mintUser signs a token that names a user and ends after ttl.
func mintUser(user string, ttl time.Duration) (string, error) {
	return mint("user", regions.Claims{Subject: user}, ttl)
}

type tokenCmd struct {
	User      string        `placeholder:"U" help:"Who the token speaks for. Needed without --scope."`
	Scope     []string      `placeholder:"S" help:"What else its bearer may do: likewise:admin, likewise:service."`
	Issuer    string        `name:"jwt-issuer" placeholder:"ISS" help:"The claim iss, where the server asks for one."`
	Audience  []string      `name:"jwt-audience" placeholder:"AUD" help:"The claim aud, where the server asks for one."`
	TTL       time.Duration `default:"24h" help:"How long it is valid, as a duration such as 30m. Default ${default}."`
	JWTSecret string        `name:"jwt-secret" env:"-" hidden:"" help:"Refused: see below."`
	DevSecret bool          `help:"The server runs with --dev-secret. Not needed while a demo runs."`
	JSON      bool          `name:"json" help:"Print JSON: the token, what it says, and when it ends."`
}

func (*tokenCmd) Help() string {
	return `Works only where the development secret is in use: for a running demo, or for a server that was started with --dev-secret. Everywhere else tokens come from whoever knows the secret and knows who the caller is; this command cannot know that.

Examples:
  TOKEN=$(likewise token --user alice)
  LIKEWISE_TOKEN=$(likewise token --scope likewise:admin --dev-secret) likewise video cat disabled --addr 127.0.0.1:8080`
}

var errNoDevSecret = errors.New("tokens are minted only where the development secret is in use: start a demo, or give --dev-secret for a server that runs with it")

// check implements checker. Minting once says what no server would take.
func (c *tokenCmd) check() error {
	if c.JWTSecret != "" {
		return wrongf("jwt-secret", "this command mints tokens of the development secret only: leave it out, and sign others where your users log in")
	}
	var errs []error
	if c.TTL < time.Second {
		errs = append(errs, wrongf("ttl", "want at least 1s, have %s", c.TTL))
	}
	if c.User == "" && len(c.Scope) == 0 {
		errs = append(errs, disagreef([]string{"user", "scope"}, "is missing: say who the token speaks for, or what its bearer may do by --scope"))
	}
	if len(errs) == 0 {
		errs = append(errs, c.checkClaims())
	}
	return gather(errs...)
}

func (c *tokenCmd) checkClaims() error {
	var errs []error
	if c.User != "" {
		_, err := regions.MintToken([]byte(devSecret), regions.Claims{Subject: c.User}, c.TTL)
		errs = append(errs, refused("user", err))
	}
	for _, scope := range c.Scope {
		if scope != regions.ScopeAdmin && scope != regions.ScopeService {
			errs = append(errs, wrongf("scope", "no node knows %q: want %s or %s", scope, regions.ScopeAdmin, regions.ScopeService))
			continue
		}
		_, err := regions.MintToken([]byte(devSecret), regions.Claims{Scopes: []string{scope}}, c.TTL)
		errs = append(errs, refused("scope", err))
	}
	return gather(errs...)
}

func refused(flag string, err error) error {
	if err == nil {
		return nil
	}
	return wrongf(flag, "%w", err)
}

func (c *tokenCmd) Run(_ context.Context, std streams) error {
	if !c.DevSecret && !demoRuns() {
		return &statusError{statusNo, errNoDevSecret}
	}
	claims := regions.Claims{Subject: c.User, Scopes: c.Scope, Issuer: c.Issuer, Audience: c.Audience}
	token, err := mint("scope", claims, c.TTL)
	if err != nil {
		return err
	}
	if c.JSON {
		return printJSON(std.out, map[string]any{
			"token": token, "user": c.User, "scopes": append([]string{}, c.Scope...), "ends": time.Now().Add(c.TTL).UTC().Format(time.RFC3339),
		})
	}
	fmt.Fprintln(std.out, token)
	return nil
}

func demoRuns() bool {
	_, err := demo.ReadState()
	return err == nil
}
