package regions

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"time"
)

// maxKeySet bounds what is read of a key set, in bytes.
const maxKeySet = 256 << 10

func readKeyFile(path string) func(context.Context) ([]byte, error) {
	return func(context.Context) ([]byte, error) {
		file, err := os.Open(path)
		if err != nil {
			return nil, fmt.Errorf("read the key set: %w", err)
		}
		defer file.Close()
		return readKeySet(file)
	}
}

func readKeySet(r io.Reader) ([]byte, error) {
	document, err := io.ReadAll(io.LimitReader(r, maxKeySet+1))
	if err != nil {
		return nil, fmt.Errorf("read the key set: %w", err)
	}
	if len(document) > maxKeySet {
		return nil, fmt.Errorf("the key set is larger than %d bytes", maxKeySet)
	}
	return document, nil
}

// fetchKeys asks an address and no other: whoever can send the request elsewhere
// can sign tokens. Each fetch has a connection of its own, which is closed.
func fetchKeys(address string, timeout time.Duration) func(context.Context) ([]byte, error) {
	client := &http.Client{
		Transport: &http.Transport{
			DisableKeepAlives:      true,
			MaxResponseHeaderBytes: maxHeader,
			TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12},
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	tooSlow := fmt.Errorf("it took longer than %s", timeout)
	return func(ctx context.Context) ([]byte, error) {
		ctx, cancel := context.WithTimeoutCause(ctx, timeout, tooSlow)
		defer cancel()
		document, err := fetch(ctx, client, address)
		if err != nil && ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return document, err
	}
}

func fetch(ctx context.Context, client *http.Client, address string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return nil, errors.New("the URL cannot be read")
	}
	req.Header.Set("Accept", "application/jwk-set+json, application/json")
	resp, err := client.Do(req)
	if err != nil {
		// Its text without the URL, in which there may be a secret.
		if inner, ok := errors.AsType[*url.Error](err); ok {
			err = inner.Err
		}
		return nil, fmt.Errorf("fetch the key set: %w", err)
	}
	defer resp.Body.Close()
	switch {
	case resp.StatusCode >= 300 && resp.StatusCode < 400:
		return nil, fmt.Errorf("it redirects (status %d), which is not followed: give the address at which the keys are", resp.StatusCode)
	case resp.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("it answers with status %d: give the address at which the keys are, or see to it that it answers", resp.StatusCode)
	}
	return readKeySet(resp.Body)
}

// withoutSecrets is what may be said of a URL.
func withoutSecrets(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return "a URL that cannot be read"
	}
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
}
