package e2e

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"likewise/deploy/local/certs"
	peerv1 "likewise/proto/likewise/peer/v1"
	"likewise/proto/likewise/peer/v1/peerv1connect"
)

// testStrangers calls the peers' listener as nodes do, with and without what
// makes a node: only a certificate of the cluster's own authority opens it.
func (d *deployment) testStrangers(t *testing.T) {
	stranger, err := certs.NewAuthority()
	require.NoError(t, err)
	files, err := stranger.Write(t.TempDir(), "eu-1")
	require.NoError(t, err)
	own := certs.Files{
		CA:   filepath.Join(d.Dir(), "certs", "ca.pem"),
		Cert: filepath.Join(d.Dir(), "certs", "eu-1.pem"),
		Key:  filepath.Join(d.Dir(), "certs", "eu-1-key.pem"),
	}

	require.NoError(t, d.probe(t, "https", d.peerTLS(t, own, own)), "a node is let in, so that a refusal proves something")
	require.Error(t, d.probe(t, "https", d.peerTLS(t, own, certs.Files{})), "no certificate")
	require.Error(t, d.probe(t, "https", d.peerTLS(t, own, files)), "a certificate of another authority")
	require.Error(t, d.probe(t, "http", nil), "plaintext")
}

// peerTLS trusts the authority of one set of files and shows the certificate of
// another.
func (d *deployment) peerTLS(t *testing.T, trusted, shown certs.Files) *tls.Config {
	t.Helper()
	ca, err := os.ReadFile(trusted.CA)
	require.NoError(t, err)
	config := &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: x509.NewCertPool(), ServerName: certs.PeerName}
	require.True(t, config.RootCAs.AppendCertsFromPEM(ca))
	if shown.Cert == "" {
		return config
	}
	cert, err := tls.LoadX509KeyPair(shown.Cert, shown.Key)
	require.NoError(t, err)
	// Shown whether the server asks for this authority or not.
	config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &cert, nil }
	return config
}

func (d *deployment) probe(t *testing.T, scheme string, config *tls.Config) error {
	t.Helper()
	transport := &http.Transport{TLSClientConfig: config, Protocols: new(http.Protocols)}
	transport.Protocols.SetHTTP2(true)
	transport.Protocols.SetUnencryptedHTTP2(true)
	defer transport.CloseIdleConnections()
	client := peerv1connect.NewPeerServiceClient(&http.Client{Transport: transport}, scheme+"://"+d.node("us-1").PeerAddr())
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	_, err := client.Probe(ctx, &peerv1.ProbeRequest{})
	require.NoError(t, ctx.Err(), "a refusal comes at once")
	return err
}
