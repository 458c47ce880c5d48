package cluster

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"likewise/deploy/local/certs"
)

// plan draws addresses and writes certificates: one set of nodes that know
// each other.
func (c *Cluster) plan(ctx context.Context) ([]*Node, error) {
	authority, err := certs.NewAuthority()
	if err != nil {
		return nil, err
	}
	drawn := make(ports)
	var nodes []*Node
	for _, region := range c.config.Regions {
		for i := range c.config.NodesPerRegion {
			n := &Node{
				name:    fmt.Sprintf("%s-%d", region, i+1),
				region:  region,
				binary:  c.config.Binary,
				startIn: c.config.StartTimeout,
				stopIn:  c.config.StopTimeout,
				health:  newHealthClient(),
			}
			n.logFile = filepath.Join(c.dir, n.name+".log")
			if n.front, err = c.frontAddr(ctx, drawn, len(nodes)); err != nil {
				return nil, err
			}
			for _, addr := range []*string{&n.peer, &n.gossip} {
				if *addr, err = drawn.draw(ctx); err != nil {
					return nil, err
				}
			}
			nodes = append(nodes, n)
		}
	}
	return nodes, c.introduce(nodes, authority)
}

// frontAddr returns where the i-th node's front door listens.
func (c *Cluster) frontAddr(ctx context.Context, drawn ports, i int) (string, error) {
	if c.config.FrontPort == 0 {
		return drawn.draw(ctx)
	}
	return drawn.claim(ctx, c.config.FrontPort+i)
}

// introduce gives every node its arguments, and its place on the network.
func (c *Cluster) introduce(nodes []*Node, authority *certs.Authority) error {
	key := make([]byte, 32)
	_, _ = rand.Read(key) // never fails
	gossipKey := "LIKEWISE_GOSSIP_KEY=" + base64.StdEncoding.EncodeToString(key)
	for _, n := range nodes {
		n.args = []string{"serve", "--region", n.region, "--name", n.name, "--listen", n.front}
		n.env = c.environment(c.config.DatabaseURLOf(n.name))
		if len(nodes) > 1 {
			files, err := authority.Write(filepath.Join(c.dir, "certs"), n.name)
			if err != nil {
				return err
			}
			n.args = append(n.args, c.peerArgs(n, nodes, files)...)
			n.env = append(n.env, gossipKey)
			c.network.Place(n.peer, n.region)
		}
		if c.config.JWTSecret == "" {
			n.args = append(n.args, "--dev-secret")
		}
		n.args = append(n.args, c.config.Args...)
	}
	return nil
}

func (c *Cluster) peerArgs(n *Node, nodes []*Node, files certs.Files) []string {
	var seeds []string
	for _, other := range nodes {
		if other != n {
			seeds = append(seeds, other.gossip)
		}
	}
	return []string{
		"--join", strings.Join(seeds, ","),
		"--gossip-listen", n.gossip, "--gossip-advertise", n.gossip,
		"--peer-listen", n.peer, "--peer-advertise", n.peer,
		"--peer-ca", files.CA, "--peer-cert", files.Cert, "--peer-key", files.Key,
		"--peer-proxy", c.proxies[n.region],
	}
}

// environment is the caller's without LIKEWISE_ variables, which are meant for
// the caller, and with the secrets, which the command line would show.
func (c *Cluster) environment(databaseURL string) []string {
	var env []string
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "LIKEWISE_") {
			env = append(env, v)
		}
	}
	env = append(env, "LIKEWISE_DATABASE_URL="+databaseURL)
	if c.config.JWTSecret != "" {
		env = append(env, "LIKEWISE_JWT_SECRET="+c.config.JWTSecret)
	}
	return append(env, c.config.Env...)
}
