package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"likewise/cmd/likewise/internal/demo"
)

// devSecret signs the tokens of demos and of nodes that run with --dev-secret.
// It is public: whoever reads this can act as any user of such a node.
const devSecret = "likewise-development-secret-known-to-everybody"

// mintToken signs a token that names user and ends after ttl.
func mintToken(user string, ttl time.Duration) (string, error) {
	now := time.Now()
	token, err := jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.RegisteredClaims{
		Subject:   user,
		IssuedAt:  jwt.NewNumericDate(now),
		ExpiresAt: jwt.NewNumericDate(now.Add(ttl)),
	}).SignedString([]byte(devSecret))
	if err != nil {
		return "", fmt.Errorf("signing a token for %q: %w", user, err)
	}
	return token, nil
}

type tokenCmd struct {
	User      string        `required:"" placeholder:"U" help:"Who the token speaks for."`
	TTL       time.Duration `default:"24h" help:"How long it is valid, as a duration such as 30m."`
	JWTSecret string        `hidden:"" help:"Refused: see below."`
	DevSecret bool          `help:"The server runs with --dev-secret. Not needed while a demo runs."`
}

func (*tokenCmd) Help() string {
	return `Works only where the development secret is in use: for a running demo, or for a server that was started with --dev-secret. Everywhere else tokens come from whoever knows the secret and knows who the caller is; this command cannot know that.

Example:
  TOKEN=$(likewise token --user alice)`
}

var errNoDevSecret = errors.New("tokens are minted only where the development secret is in use: start a demo, or give --dev-secret for a server that runs with it")

// Validate is called by kong.
func (c *tokenCmd) Validate() error {
	if c.TTL <= 0 {
		return fmt.Errorf("--ttl: want more than 0, have %s", c.TTL)
	}
	if c.JWTSecret != "" {
		return errors.New("--jwt-secret: this command mints tokens of the development secret only; sign others where your users log in")
	}
	return nil
}

func (c *tokenCmd) Run(_ context.Context, std streams) error {
	if !c.DevSecret && !demoRuns() {
		return &statusError{statusNo, errNoDevSecret}
	}
	token, err := mintToken(c.User, c.TTL)
	if err != nil {
		return err
	}
	fmt.Fprintln(std.out, token)
	return nil
}

func demoRuns() bool {
	_, err := demo.ReadState()
	return err == nil
}
