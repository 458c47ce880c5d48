package regions

import (
	"crypto/tls"
	"net/http"
	"testing"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/require"

	peerv1 "likewise/proto/likewise/peer/v1"
	"likewise/proto/likewise/peer/v1/peerv1connect"
	likewisev1 "likewise/proto/likewise/v1"
	"likewise/routing"
	"likewise/storage"
)

func peerSet() *peerv1.SetRequest {
	return &peerv1.SetRequest{TopologyEpoch: 1, UserId: "alice", VideoId: "cat", Reaction: likewisev1.Reaction_LIKE}
}

// R57: only nodes get in where calls carry the user they act for.
func TestWhoMayCallAsANode(t *testing.T) {
	t.Parallel()
	ca := newTestCA(t)
	n := startNode(t, "n1", func(cfg *Config, _ *Deps) { cfg.Peers = ca.peersConfig(t) })
	trust, err := ca.peersConfig(t).authority()
	require.NoError(t, err)
	withCert := func(ca testCA, name string) *tls.Config {
		cert, key := ca.issue(t, name)
		pair, err := tls.X509KeyPair(cert, key)
		require.NoError(t, err)
		return &tls.Config{
			MinVersion: tls.VersionTLS12,
			RootCAs:    trust,
			ServerName: PeerName,
			// Sent whether or not the server asks for its CA.
			GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil },
		}
	}
	oldTLS := withCert(ca, PeerName)
	oldTLS.MaxVersion = tls.VersionTLS12
	for name, c := range map[string]struct {
		scheme string
		config *tls.Config
		let    bool
	}{
		"a node":                           {scheme: "https://", config: withCert(ca, PeerName), let: true},
		"nobody, in plaintext":             {scheme: "http://"},
		"nobody, without a certificate":    {scheme: "https://", config: &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: trust, ServerName: PeerName}},
		"a node of another CA":             {scheme: "https://", config: withCert(newTestCA(t), PeerName)},
		"another service of the same CA":   {scheme: "https://", config: withCert(ca, "billing.example.internal")},
		"a node that speaks an old TLS":    {scheme: "https://", config: oldTLS},
		"a node that expects another name": {scheme: "https://", config: func() *tls.Config { c := withCert(ca, PeerName); c.ServerName = "else.internal"; return c }()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			transport := &http.Transport{TLSClientConfig: c.config, ForceAttemptHTTP2: true, Protocols: new(http.Protocols)}
			transport.Protocols.SetHTTP2(true)
			transport.Protocols.SetUnencryptedHTTP2(true)
			t.Cleanup(transport.CloseIdleConnections)
			client := peerv1connect.NewPeerServiceClient(&http.Client{Transport: transport}, c.scheme+n.PeerAddr())
			_, err := client.Probe(t.Context(), &peerv1.ProbeRequest{})
			if c.let {
				require.NoError(t, err)
				return
			}
			require.Error(t, err)
			require.False(t, connect.IsWireError(err), "no handler was reached")
		})
	}

	t.Run("nobody, over HTTP/1.1 in plaintext", func(t *testing.T) {
		t.Parallel()
		transport := &http.Transport{}
		t.Cleanup(transport.CloseIdleConnections)
		client := peerv1connect.NewPeerServiceClient(&http.Client{Transport: transport}, "http://"+n.PeerAddr())
		_, err := client.Set(t.Context(), peerSet())
		require.Error(t, err)
	})

	t.Run("nobody, at the front door", func(t *testing.T) {
		t.Parallel()
		require.Equal(t, http.StatusNotFound, status(t, n.url(peerv1connect.PeerServiceProbeProcedure)))
	})
	t.Cleanup(func() { require.Zero(t, n.store.sets.Load()) })
}

func TestASingleNodeListensForNobody(t *testing.T) {
	t.Parallel()
	require.Empty(t, startNode(t, "n1").PeerAddr())
}

// Nodes that gossip across two databases may take each other for homes.
func TestANodeWithAnotherDatabaseIsRefused(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	for _, n := range []*node{c.home, c.second} {
		m := n.routes.Map()
		n.routes.m.Store(routing.NewMap(m.Topology().From("another database"), m.Nodes()))
	}
	_, err := c.set(t, like("cat"))
	require.NoError(t, err)
	c.requireSets(t, 0, 0, 1)
	_, err = c.front.as(t, c.user).GetReaction(t.Context(), &likewisev1.GetReactionRequest{VideoId: "cat"})
	require.NoError(t, err)
	require.Zero(t, c.home.store.gets.Load()+c.second.store.gets.Load())
}

func TestWhatANodeSendsIsCheckedAgain(t *testing.T) {
	t.Parallel()
	ca := newTestCA(t)
	n := startNode(t, "n1", func(cfg *Config, _ *Deps) { cfg.Peers = ca.peersConfig(t) })
	t.Cleanup(n.peers.close) // before it stops: a server gives an idle connection a second to go
	client := n.peers.to(n.routingNode())
	for name, spoil := range map[string]func(*peerv1.SetRequest){
		"no reaction": func(r *peerv1.SetRequest) { r.Reaction = 0 },
		"no user":     func(r *peerv1.SetRequest) { r.UserId = "" },
		"a bad user":  func(r *peerv1.SetRequest) { r.UserId = "a/b" },
		"a bad video": func(r *peerv1.SetRequest) { r.VideoId = "a\x00" },
	} {
		t.Run(name, func(t *testing.T) {
			req := peerSet()
			spoil(req)
			_, err := client.Set(t.Context(), req)
			requireOnlyCode(t, connect.CodeInvalidArgument, err)
		})
	}
	require.Zero(t, n.store.sets.Load())
}

func TestConversionsBetweenNodes(t *testing.T) {
	t.Parallel()
	version := int64(0)
	set := storage.Set{Slot: slotOf("cat", "alice"), Video: "cat", User: "alice", Desired: storage.None, ExpectedVersion: &version, IdempotencyKey: "k1"}
	got, err := setFromPeer(setToPeer(topology(t, 1), set))
	require.NoError(t, err)
	require.Equal(t, set, got)

	result := storage.Result{
		Previous: storage.Like, Reaction: storage.Dislike, Version: 7, Changed: true, CommittedAt: databaseTime(),
		Shard: &storage.CounterShard{Slot: 200, Likes: 1, Dislikes: 2, Rev: 3},
	}
	back, err := resultFromPeer(resultToPeer(result))
	require.NoError(t, err)
	require.Equal(t, result, back)
	result.Shard = nil
	back, err = resultFromPeer(resultToPeer(result))
	require.NoError(t, err)
	require.Equal(t, result, back)
}
