package wan_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"likewise/deploy/local/certs"
)

// A node's peer client goes through the proxy with HTTP/2 under mutual TLS:
// the proxy sees addresses alone.
func TestPeersTalkThroughTheProxy(t *testing.T) {
	t.Parallel()
	f := setup(t)
	authority, err := certs.NewAuthority()
	require.NoError(t, err)
	cert, cas := peerIdentity(t, authority)

	node := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.Proto+" from "+r.TLS.PeerCertificates[0].Subject.CommonName)
	}))
	node.EnableHTTP2 = true
	node.TLS = &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{cert}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: cas}
	node.StartTLS()
	t.Cleanup(node.Close)
	f.network.Place(strings.TrimPrefix(node.URL, "https://"), "b")

	errNotReached := errors.New("the peer was not reached")
	transport := &http.Transport{
		Proxy:             http.ProxyURL(&url.URL{Scheme: "http", Host: f.proxy}),
		TLSClientConfig:   &tls.Config{MinVersion: tls.VersionTLS13, ServerName: certs.PeerName, RootCAs: cas, Certificates: []tls.Certificate{cert}},
		ForceAttemptHTTP2: true,
		OnProxyConnectResponse: func(_ context.Context, _ *url.URL, _ *http.Request, resp *http.Response) error {
			if resp.StatusCode != http.StatusOK {
				return errNotReached
			}
			return nil
		},
	}
	t.Cleanup(transport.CloseIdleConnections)
	client := &http.Client{Transport: transport, Timeout: 10 * time.Second}

	require.Equal(t, "HTTP/2.0 from eu-1", get(t, client, node.URL))
	took := best(func() time.Duration {
		start := time.Now()
		get(t, client, node.URL)
		return time.Since(start)
	})
	require.GreaterOrEqual(t, took, rtt, "an open connection pays one round trip")
	require.Less(t, took, 2*rtt)

	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+closedPort(t, f.network), nil)
	require.NoError(t, err)
	resp, err := client.Do(req)
	if err == nil {
		require.NoError(t, resp.Body.Close())
	}
	require.ErrorIs(t, err, errNotReached, "a refused connection is told from a lost answer")
}

func peerIdentity(t *testing.T, a *certs.Authority) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	certPEM, keyPEM, err := a.Issue("eu-1")
	require.NoError(t, err)
	cert, err := tls.X509KeyPair(certPEM, keyPEM)
	require.NoError(t, err)
	cas := x509.NewCertPool()
	require.True(t, cas.AppendCertsFromPEM(a.CA()))
	return cert, cas
}

func get(t *testing.T, client *http.Client, target string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, target, nil)
	require.NoError(t, err)
	resp, err := client.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return string(body)
}
