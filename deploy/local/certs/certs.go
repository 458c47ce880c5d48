// Package certs makes throw-away certificates for the mutually authenticated
// listener between nodes. They are for demos and tests: the authority's key is
// forgotten as soon as the certificates are made, so nothing can be renewed.
package certs

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"time"
)

// PeerName is the name in every node's certificate. Peers verify it and not
// the address, so a node may come back at another one.
const PeerName = "peer.likewise.internal"

// validity is longer than any demo and short enough not to be mistaken for
// something to keep.
const validity = 30 * 24 * time.Hour

// Files are the paths that a node is started with.
type Files struct {
	CA, Cert, Key string
}

// Authority signs the certificates of one cluster.
type Authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

// NewAuthority makes an authority that exists in memory only.
func NewAuthority() (*Authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("making the authority's key: %w", err)
	}
	template, err := newTemplate("Likewise local authority")
	if err != nil {
		return nil, err
	}
	template.IsCA = true
	template.BasicConstraintsValid = true
	template.MaxPathLenZero = true
	template.KeyUsage = x509.KeyUsageCertSign
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("signing the authority: %w", err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("reading the authority back: %w", err)
	}
	return &Authority{cert: cert, key: key, pem: encode("CERTIFICATE", der)}, nil
}

// CA returns the authority's own certificate as PEM.
func (a *Authority) CA() []byte { return a.pem }

// Issue makes a certificate for one node, as PEM. It is good for both ends of
// a connection between peers.
func (a *Authority) Issue(node string) (cert, key []byte, err error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("making a key for node %q: %w", node, err)
	}
	template, err := newTemplate(node)
	if err != nil {
		return nil, nil, err
	}
	template.DNSNames = []string{PeerName}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, private.Public(), a.key)
	if err != nil {
		return nil, nil, fmt.Errorf("signing node %q: %w", node, err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return nil, nil, fmt.Errorf("encoding the key of node %q: %w", node, err)
	}
	return encode("CERTIFICATE", der), encode("PRIVATE KEY", pkcs8), nil
}

// Write issues a certificate for a node and writes what the node needs into
// dir, readable by the caller alone: ca.pem, NODE.pem and NODE-key.pem.
func (a *Authority) Write(dir, node string) (Files, error) {
	cert, key, err := a.Issue(node)
	if err != nil {
		return Files{}, err
	}
	files := Files{
		CA:   filepath.Join(dir, "ca.pem"),
		Cert: filepath.Join(dir, node+".pem"),
		Key:  filepath.Join(dir, node+"-key.pem"),
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return Files{}, fmt.Errorf("making the folder of certificates: %w", err)
	}
	for path, content := range map[string][]byte{files.CA: a.pem, files.Cert: cert, files.Key: key} {
		if err := os.WriteFile(path, content, 0o600); err != nil {
			return Files{}, fmt.Errorf("writing a certificate: %w", err)
		}
	}
	return files, nil
}

func newTemplate(name string) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, fmt.Errorf("drawing a serial number: %w", err)
	}
	now := time.Now()
	return &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: name},
		// An hour of room: clocks of containers on one machine may differ.
		NotBefore: now.Add(-time.Hour),
		NotAfter:  now.Add(validity),
	}, nil
}

func encode(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}
