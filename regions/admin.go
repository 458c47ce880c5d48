package regions

import (
	"context"

	"go.uber.org/zap"

	likewisev1 "likewise/proto/likewise/v1"
	"likewise/storage"
)

// videoStates brings videos to a state, in force at every node when it returns.
type videoStates interface {
	SetVideoState(context.Context, storage.VideoID, storage.VideoState) (storage.VideoChange, error)
}

// adminService is likewise.v1.AdminService. Who may call it is decided before.
type adminService struct {
	store  videoStates
	counts *countCache
	log    *zap.Logger
}

// SetVideoState brings a video to a state, within the call's deadline. The log
// keeps who did so, also where it is not sure that it was done.
func (s *adminService) SetVideoState(ctx context.Context, req *likewisev1.SetVideoStateRequest) (*likewisev1.SetVideoStateResponse, error) {
	state, err := videoStateOf(req.GetState())
	if err == nil {
		err = unconditional(ctx)
	}
	if err != nil {
		return nil, err
	}
	video := storage.VideoID(req.GetVideoId())
	change, err := s.store.SetVideoState(ctx, video, state)
	who, _ := callerFrom(ctx)
	log := s.log.With(
		zap.String("video_id", string(video)),
		zap.String("subject", who.subject),
		zap.Stringer("state", req.GetState()))
	if err != nil {
		log.Info("video state is unsettled")
		return nil, err
	}
	s.counts.renew(ctx, video)
	log.Info("video state was set", zap.Bool("changed", change.Changed), zap.Int64("generation", change.Generation))
	return videoChangeToProto(change), nil
}
