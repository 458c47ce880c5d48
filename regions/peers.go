package regions

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"sync/atomic"

	peerv1 "likewise/proto/likewise/peer/v1"
	"likewise/storage"
)

// peerService is likewise.peer.v1.PeerService. What arrives here is served here.
type peerService struct {
	node    string
	routes  routes
	store   reactions
	counts  *countCache
	leaving *atomic.Bool
}

// Set commits for another node's caller, at this node.
func (s *peerService) Set(ctx context.Context, req *peerv1.SetRequest) (*peerv1.SetResponse, error) {
	if err := s.admit(req); err != nil {
		return nil, err
	}
	set, err := setFromPeer(req)
	if err != nil {
		return nil, err
	}
	result, err := s.store.Set(ctx, set)
	if err != nil {
		return nil, s.passOn(err)
	}
	s.counts.learn(set.Video, result)
	return resultToPeer(result), nil
}

// Get reads for another node's caller, on the writer's database.
func (s *peerService) Get(ctx context.Context, req *peerv1.GetRequest) (*peerv1.GetResponse, error) {
	if err := s.admit(req); err != nil {
		return nil, err
	}
	video, user, err := idsFromPeer(req)
	if err != nil {
		return nil, err
	}
	state, err := s.store.Get(ctx, slotOf(video, user), video, user)
	if err != nil {
		return nil, err
	}
	return &peerv1.GetResponse{Reaction: reactionToProto(state.Reaction), Version: state.Version}, nil
}

// BatchGet reads for another node's caller, on the writer's database.
func (s *peerService) BatchGet(ctx context.Context, req *peerv1.BatchGetRequest) (*peerv1.BatchGetResponse, error) {
	if err := s.admit(req); err != nil {
		return nil, err
	}
	user, places, err := batchFromPeer(req)
	if err != nil {
		return nil, err
	}
	readings, err := s.store.GetMany(ctx, user, places)
	if err != nil {
		return nil, err
	}
	return readingsToPeer(readings), nil
}

// Probe answers.
func (s *peerService) Probe(context.Context, *peerv1.ProbeRequest) (*peerv1.ProbeResponse, error) {
	return &peerv1.ProbeResponse{Node: s.node, Leaving: s.leaving.Load()}, nil
}

// admit refuses, before anything was done, calls that another node should get.
// A node that goes by another topology of the same epoch has another database.
func (s *peerService) admit(caller interface {
	GetTopologyEpoch() int64
	GetTopologyHash() uint64
},
) error {
	if s.leaving.Load() {
		return errLeaving
	}
	own, epoch, hash := s.routes.Map().Topology(), caller.GetTopologyEpoch(), caller.GetTopologyHash()
	stranger := epoch == own.Epoch && hash != 0 && hash != own.Hash()
	if own.Epoch > epoch || stranger {
		return &staleMapError{Epoch: own.Epoch}
	}
	return nil
}

// passOn says of an error that surely changed nothing, and that only concerns
// this node, what makes the caller try another.
func (s *peerService) passOn(err error) error {
	switch {
	case errors.Is(err, storage.ErrClosing):
		return errLeaving
	case errors.Is(err, storage.ErrStaleMap):
		return &staleMapError{Epoch: s.routes.Map().Topology().Epoch}
	case errors.Is(err, storage.ErrOutcomeUnknown):
		return err
	default:
		return &nothingAppliedError{err}
	}
}

// peerTLS lets in only nodes: holders of a certificate of the nodes' CA that is
// valid for PeerName. The name matters where the CA serves others too.
func peerTLS(cfg *PeersConfig) (*tls.Config, error) {
	cert, err := cfg.certificate()
	if err != nil {
		return nil, err
	}
	authority, err := cfg.authority()
	if err != nil {
		return nil, err
	}
	return &tls.Config{
		MinVersion:   tls.VersionTLS13,
		Certificates: []tls.Certificate{cert},
		ClientCAs:    authority,
		ClientAuth:   tls.RequireAndVerifyClientCert,
		NextProtos:   []string{"h2"},
		VerifyConnection: func(state tls.ConnectionState) error {
			if err := state.PeerCertificates[0].VerifyHostname(PeerName); err != nil {
				return fmt.Errorf("the caller is not a node: %w", err)
			}
			return nil
		},
	}, nil
}
