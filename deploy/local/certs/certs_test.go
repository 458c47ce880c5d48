package certs_test

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"likewise/deploy/local/certs"
)

// R57
func TestNodesTrustEachOtherAndNobodyElse(t *testing.T) {
	t.Parallel()
	authority, stranger := newAuthority(t), newAuthority(t)
	server := serverConfig(t, authority)

	t.Run("a node of the same cluster", func(t *testing.T) {
		t.Parallel()
		require.NoError(t, handshake(t, server, clientConfig(t, authority, authority)))
	})
	t.Run("not a client without a certificate", func(t *testing.T) {
		t.Parallel()
		cfg := clientConfig(t, authority, authority)
		cfg.Certificates = nil
		require.Error(t, handshake(t, server, cfg))
	})
	t.Run("not a node of another cluster", func(t *testing.T) {
		t.Parallel()
		require.Error(t, handshake(t, server, clientConfig(t, authority, stranger)))
	})
	t.Run("not a server of another cluster", func(t *testing.T) {
		t.Parallel()
		require.Error(t, handshake(t, server, clientConfig(t, stranger, authority)))
	})
	t.Run("not under another name", func(t *testing.T) {
		t.Parallel()
		cfg := clientConfig(t, authority, authority)
		cfg.ServerName = "127.0.0.1"
		require.Error(t, handshake(t, server, cfg))
	})
}

func TestFilesAreForTheCallerAlone(t *testing.T) {
	t.Parallel()
	files, err := newAuthority(t).Write(t.TempDir(), "eu-1")
	require.NoError(t, err)
	_, err = tls.LoadX509KeyPair(files.Cert, files.Key)
	require.NoError(t, err)
	for _, path := range []string{files.CA, files.Cert, files.Key} {
		info, err := os.Stat(path)
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), info.Mode().Perm(), path)
	}
}

func newAuthority(t *testing.T) *certs.Authority {
	t.Helper()
	a, err := certs.NewAuthority()
	require.NoError(t, err)
	return a
}

func pool(t *testing.T, a *certs.Authority) *x509.CertPool {
	t.Helper()
	p := x509.NewCertPool()
	require.True(t, p.AppendCertsFromPEM(a.CA()))
	return p
}

func pair(t *testing.T, a *certs.Authority) tls.Certificate {
	t.Helper()
	cert, key, err := a.Issue("eu-1")
	require.NoError(t, err)
	p, err := tls.X509KeyPair(cert, key)
	require.NoError(t, err)
	return p
}

func serverConfig(t *testing.T, a *certs.Authority) *tls.Config {
	t.Helper()
	return &tls.Config{
		MinVersion:   tls.VersionTLS13,
		Certificates: []tls.Certificate{pair(t, a)},
		ClientAuth:   tls.RequireAndVerifyClientCert,
		ClientCAs:    pool(t, a),
	}
}

func clientConfig(t *testing.T, trusts, signedBy *certs.Authority) *tls.Config {
	t.Helper()
	return &tls.Config{
		MinVersion:   tls.VersionTLS13,
		ServerName:   certs.PeerName,
		RootCAs:      pool(t, trusts),
		Certificates: []tls.Certificate{pair(t, signedBy)},
	}
}

// handshake returns the first error of either end.
func handshake(t *testing.T, server, client *tls.Config) error {
	t.Helper()
	near, far := net.Pipe()
	result := make(chan error, 1)
	go func() {
		defer far.Close()
		result <- tls.Server(far, server).HandshakeContext(t.Context())
	}()
	err := tls.Client(near, client).HandshakeContext(t.Context())
	near.Close()
	if serverErr := <-result; err == nil {
		err = serverErr
	}
	return err
}
