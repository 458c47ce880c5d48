package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/require"
)

// selfSigned writes a certificate for 127.0.0.1 that is its own CA.
func selfSigned(t *testing.T, b *bench) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		Subject:               pkix.Name{CommonName: "likewise"},
		NotBefore:             time.Now().Add(-time.Hour),
		NotAfter:              time.Now().Add(time.Hour),
		IPAddresses:           []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA:                  true,
		BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	require.NoError(t, err)
	pkcs8, err := x509.MarshalPKCS8PrivateKey(private)
	require.NoError(t, err)
	write := func(name, kind string, raw []byte) string {
		return b.write(t, name, string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: raw})))
	}
	return write("front.pem", "CERTIFICATE", der), write("front.key", "PRIVATE KEY", pkcs8)
}

// issuer signs tokens with a key that it publishes in a file.
type issuer struct {
	file    string
	private ed25519.PrivateKey
}

func newIssuer(t *testing.T, b *bench) issuer {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	set := fmt.Sprintf(`{"keys": [{"kty": "OKP", "crv": "Ed25519", "alg": "EdDSA", "use": "sig", "kid": "one", "x": %q}]}`,
		base64.RawURLEncoding.EncodeToString(public))
	return issuer{b.write(t, "keys.json", set), private}
}

func (i issuer) token(t *testing.T, claims jwt.MapClaims) string {
	t.Helper()
	claims["exp"] = time.Now().Add(time.Hour).Unix()
	token := jwt.NewWithClaims(jwt.SigningMethodEdDSA, claims)
	token.Header["kid"] = "one"
	signed, err := token.SignedString(i.private)
	require.NoError(t, err)
	return signed
}

func TestANodeSpeaksTLSAndTrustsAKeySet(t *testing.T) {
	noDemo(t)
	b := newBench(t)
	cert, key := selfSigned(t, b)
	login := newIssuer(t, b)
	ctx, stop := context.WithTimeout(t.Context(), 5*time.Minute)
	defer stop()
	var log logBuffer
	ended := make(chan int, 1)
	database := b.database(t, "tls_alone", "")
	go func() {
		ended <- run(ctx, []string{
			"serve", "--region", "eu", "--name", "eu-1", "--listen", "127.0.0.1:0", "--database-url", database,
			"--tls-cert", cert, "--tls-key", key, "--cors-origins", "https://www.example.com",
			"--jwks-file", login.file, "--jwt-issuer", "https://login.example", "--jwt-audience", "likewise,other",
		}, streams{out: io.Discard, err: &log})
	}()
	require.Eventually(t, func() bool { return log.serving().Front != "" }, 2*time.Minute, 20*time.Millisecond, "%s", &log)
	addr := log.serving().Front
	alice := login.token(t, jwt.MapClaims{"sub": "alice", "iss": "https://login.example", "aud": "likewise"})
	foreign := login.token(t, jwt.MapClaims{"sub": "alice", "iss": "https://login.example", "aud": "shop"})
	dev, err := mintUser("alice", time.Hour)
	require.NoError(t, err)

	for name, tt := range map[string]struct {
		args   []string
		status int
		says   string
	}{
		"a like":                       {[]string{"set", "cat", "like", "--addr", "https://" + addr, "--ca", cert, "--token", alice}, statusOK, "LIKE"},
		"a count":                      {[]string{"counts", "cat", "--addr", "https://" + addr, "--ca", cert}, statusOK, "likes"},
		"a token for another service":  {[]string{"get", "cat", "--addr", "https://" + addr, "--ca", cert, "--token", foreign}, statusNo, "unauthenticated"},
		"the development secret's":     {[]string{"get", "cat", "--addr", "https://" + addr, "--ca", cert, "--token", dev}, statusNo, "unauthenticated"},
		"a CA that is not trusted":     {[]string{"counts", "cat", "--addr", "https://" + addr}, statusCannot, "--ca: "},
		"a name that is not in it":     {[]string{"counts", "cat", "--addr", "https://localhost" + addr[strings.LastIndex(addr, ":"):], "--ca", cert}, statusCannot, "--addr: "},
		"plaintext to a node with TLS": {[]string{"counts", "cat", "--addr", addr}, statusCannot, "does it speak http or https?"},
		"TLS to a port without it":     {[]string{"counts", "cat", "--addr", "https://" + plainPort(t)}, statusCannot, "does not speak TLS"},
	} {
		t.Run(name, func(t *testing.T) {
			status, stdout, stderr := invoke(t, tt.args...)
			require.Equal(t, tt.status, status, stdout+stderr)
			require.Contains(t, stdout+stderr, tt.says)
			if status != statusOK {
				requireOneLine(t, stderr)
			}
		})
	}

	stop()
	require.Equal(t, statusOK, <-ended, "%s", &log)
}

// plainPort answers everything by a word that is no TLS.
func plainPort(t *testing.T) string {
	t.Helper()
	var lc net.ListenConfig
	ln, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	done := make(chan struct{})
	t.Cleanup(func() {
		ln.Close()
		<-done
	})
	go func() {
		defer close(done)
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(conn, "HTTP/1.1 400 Bad Request\r\n\r\n")
			conn.Close()
		}
	}()
	return ln.Addr().String()
}
