package main

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"strings"

	"likewise/regions"
)

// maxKeyFile bounds a file of keys or certificates, in bytes.
const maxKeyFile = 1 << 20

// keyFiles is what serve's flags name files for, as PEM. What was not named is
// empty.
type keyFiles struct {
	tlsCert, tlsKey           []byte
	peerCA, peerCert, peerKey []byte
}

// readFiles reads all files of keys, and says of each what keeps it from working.
func (c *serveCmd) readFiles() (files keyFiles, err error) {
	var tlsErr, peerErr error
	if c.TLSCert != "" {
		files.tlsCert, files.tlsKey, tlsErr = readPair(given{"tls-cert", c.TLSCert}, given{"tls-key", c.TLSKey})
	}
	if !c.alone() {
		peerErr = c.readPeerFiles(&files)
	}
	return files, gather(tlsErr, peerErr, c.checkKeySetFile())
}

func (c *serveCmd) readPeerFiles(files *keyFiles) error {
	var caErr, pairErr error
	files.peerCert, files.peerKey, pairErr = readPair(given{"peer-cert", c.PeerCert}, given{"peer-key", c.PeerKey})
	files.peerCA, caErr = readPEM(given{"peer-ca", c.PeerCA}, "CERTIFICATE")
	if err := gather(caErr, pairErr); err != nil {
		return err
	}
	return checkPeerCert(files.peerCert, files.peerCA)
}

// checkPeerCert refuses a certificate that no other node would accept.
func checkPeerCert(certificate, authority []byte) error {
	pool, between := x509.NewCertPool(), x509.NewCertPool()
	pool.AppendCertsFromPEM(authority)
	between.AppendCertsFromPEM(certificate)
	leaf, err := firstCertificate(certificate)
	if err != nil {
		return wrongf("peer-cert", "%w", err)
	}
	for _, use := range []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth} {
		_, err := leaf.Verify(x509.VerifyOptions{DNSName: regions.PeerName, Roots: pool, Intermediates: between, KeyUsages: []x509.ExtKeyUsage{use}})
		if err != nil {
			return disagreef([]string{"peer-cert", "peer-ca"}, "other nodes would refuse it; want one that a CA in --peer-ca signed for the DNS name %s and for client and server use: %w", regions.PeerName, err)
		}
	}
	return nil
}

func firstCertificate(certificate []byte) (*x509.Certificate, error) {
	for block, rest := pem.Decode(certificate); block != nil; block, rest = pem.Decode(rest) {
		if block.Type == "CERTIFICATE" {
			return x509.ParseCertificate(block.Bytes)
		}
	}
	return nil, errors.New("want a PEM certificate")
}

// readPair reads a certificate and its private key.
func readPair(cert, key given) (certificate, private []byte, err error) {
	certificate, certErr := readPEM(cert, "CERTIFICATE")
	private, keyErr := readPEM(key, "PRIVATE KEY")
	if err := gather(certErr, keyErr); err != nil {
		return nil, nil, err
	}
	if _, err := firstCertificate(certificate); err != nil {
		return nil, nil, wrongf(cert.flag, "%s: want a certificate that can be read: %w", cert.value, err)
	}
	if _, err := tls.X509KeyPair(certificate, private); err != nil {
		return nil, nil, disagreef([]string{key.flag, cert.flag}, "%s is not the private key of the certificate in %s: name the two that belong together", key.value, cert.value)
	}
	return certificate, private, nil
}

// readPEM reads a file with at least one block of a kind, such as "EC PRIVATE
// KEY" for "PRIVATE KEY".
func readPEM(file given, kind string) ([]byte, error) {
	raw, err := readSome(file.value, maxKeyFile)
	if err != nil {
		return nil, wrongf(file.flag, "%w: name a file that this user can read", err)
	}
	for block, rest := pem.Decode(raw); block != nil; block, rest = pem.Decode(rest) {
		if strings.HasSuffix(block.Type, kind) {
			return raw, nil
		}
	}
	return nil, wrongf(file.flag, "%s holds no PEM block %q", file.value, kind)
}

// checkKeySetFile refuses a file with which no token could be verified. It is
// read again while the node runs.
func (c *serveCmd) checkKeySetFile() error {
	if c.JWKSFile == "" {
		return nil
	}
	raw, err := readSome(c.JWKSFile, maxKeyFile)
	if err != nil {
		return wrongf("jwks-file", "%w: name a file that this user can read", err)
	}
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if json.Unmarshal(bytes.TrimSpace(raw), &set) != nil || len(set.Keys) == 0 {
		return wrongf("jwks-file", "%s: want a JSON Web Key Set with at least one key: {\"keys\": [{\"kty\": …}]}", c.JWKSFile)
	}
	return nil
}

// readAuthority reads the certificates of a CA, for a client. Empty: those that
// the machine trusts.
func readAuthority(path string) (*x509.CertPool, error) {
	if path == "" {
		return nil, nil
	}
	raw, err := readPEM(given{"ca", path}, "CERTIFICATE")
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(raw) {
		return nil, wrongf("ca", "%s: want a certificate that can be read", path)
	}
	return pool, nil
}
