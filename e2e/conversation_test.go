package e2e

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go/buf/validate"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"likewise/deploy/local/cluster"
	likewisev1 "likewise/proto/likewise/v1"
)

// The same conversation in every protocol, and in all of them by turns over
// nodes of different regions, leads through the same states: R2, R3, R6 to R12.
func (d *deployment) testConversations(t *testing.T) {
	all := speakers(t)
	talks := map[string]func(turn int) (speaker, *cluster.Node){
		"all by turns, over all regions": func(turn int) (speaker, *cluster.Node) {
			return all[turn%len(all)], d.Nodes()[turn%len(d.Nodes())]
		},
	}
	for i, s := range all {
		talks[s.name] = func(int) (speaker, *cluster.Node) { return s, d.Nodes()[i%len(d.Nodes())] }
	}
	steps := conversationSteps()
	expected := ""
	for _, s := range steps {
		expected += s.says + " → " + s.told + "\n"
	}
	for name, turn := range talks {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			talk := newConversation(t, name)
			transcript := ""
			for i, s := range steps {
				talk.by, talk.at = turn(i)
				transcript += s.says + " → " + talk.say(t.Context(), s) + "\n"
			}
			require.Equal(t, expected, transcript)
			require.Greater(t, talk.counted, 5, "changes are answered with counts that include them")
			d.requireCounts(t, talk.video, 0, 0)
		})
	}
}

type (
	// conversation is what a user and an administrator say about two videos that
	// are theirs alone.
	conversation struct {
		by           speaker
		at           *cluster.Node
		bearer       map[who]string
		video, other string

		first   map[string]int64 // the version that a video's reaction had first
		now     int64            // the version that the first video's reaction has
		token   string           // of the latest write
		counted int              // writes whose reply had counts with the change
	}

	// who speaks.
	who int

	// step is one thing to say, and what the answer must be.
	step struct {
		says    string
		by      who
		request func(*conversation) proto.Message
		header  func(*conversation) http.Header // nil: none
		told    string
		// soon marks what a node may learn after a while only.
		soon bool
	}
)

const (
	user who = iota
	admin
	stranger // who has no token
)

func newConversation(t *testing.T, name string) *conversation {
	t.Helper()
	me := identifier(name)
	return &conversation{
		bearer: map[who]string{user: userToken(t, "talker-"+me), admin: adminToken(t)},
		video:  "talk-" + me, other: "talk-other-" + me,
		first: map[string]int64{},
	}
}

// sooner bounds one step: a cache of counts hears of a video's end, for example.
const sooner = 10 * time.Second

// say says one thing and returns what was told, in words that hold for every
// conversation.
func (c *conversation) say(ctx context.Context, s step) string {
	ctx, cancel := context.WithTimeout(ctx, sooner)
	defer cancel()
	said := call{request: s.request(c), bearer: c.bearer[s.by]}
	if s.header != nil {
		said.header = s.header(c)
	}
	for {
		r := c.by.say(ctx, c.at, said)
		told := c.words(ctx, said, r)
		if r.status != 0 && r.status != statusOf(r) {
			told += fmt.Sprintf(" (with status %d)", r.status)
		}
		if told == s.told || !s.soon || !pauseFor(ctx, 50*time.Millisecond) {
			return told
		}
	}
}

// pauseFor waits, and reports whether there is time left.
func pauseFor(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// write is what the answers to all writes of reactions have in common.
type write interface {
	GetReaction() likewisev1.Reaction
	GetVersion() int64
	GetPreviousReaction() likewisev1.Reaction
	GetChanged() bool
	GetConsistencyToken() string
	GetCounts() *likewisev1.Counts
	GetCountsIncludeChange() bool
}

// words puts an answer into words.
func (c *conversation) words(ctx context.Context, said call, r reply) string {
	switch m := r.message.(type) {
	case nil:
		return c.refusal(r)
	case write:
		return c.written(ctx, said, r, m)
	case *likewisev1.GetReactionResponse:
		return fmt.Sprintf("%s at %s%s", m.GetReaction(), c.version(c.video, m.GetVersion()), wrongTag(r, m.GetVersion()))
	case *likewisev1.GetCountsResponse:
		return tally(m.GetCounts())
	case *likewisev1.BatchGetReactionsResponse:
		return c.reactions(m)
	case *likewisev1.BatchGetCountsResponse:
		return c.counts(m)
	case *likewisev1.SetVideoStateResponse:
		return fmt.Sprintf("%s, was %s, %s, generation %d", m.GetState(), m.GetPreviousState(), changedOrNot(m), m.GetGeneration())
	default:
		return fmt.Sprintf("an answer of type %T", m)
	}
}

func (c *conversation) written(ctx context.Context, said call, r reply, m write) string {
	video := videoOf(said.request)
	c.token = m.GetConsistencyToken()
	told := fmt.Sprintf("%s, was %s, at %s, %s%s; ", m.GetReaction(), m.GetPreviousReaction(),
		c.version(video, m.GetVersion()), changedOrNot(m), wrongTag(r, m.GetVersion()))
	if video == c.video {
		c.now = m.GetVersion()
	}
	if m.GetCountsIncludeChange() {
		c.counted++
		return told + tally(m.GetCounts())
	}
	counts := call{request: &likewisev1.GetCountsRequest{VideoId: video, ConsistencyToken: c.token}}
	return told + c.words(ctx, counts, c.by.say(ctx, c.at, counts))
}

func videoOf(request proto.Message) string {
	switch r := request.(type) {
	case interface{ GetVideoId() string }:
		return r.GetVideoId()
	case interface{ GetContentId() string }:
		return r.GetContentId()
	default:
		return ""
	}
}

// version says how far a version is from the first that a video's reaction had:
// that one is any number.
func (c *conversation) version(video string, version int64) string {
	if version == 0 {
		return "0"
	}
	first, ok := c.first[video]
	if !ok {
		first = version
		c.first[video] = first
	}
	return fmt.Sprintf("first%+d", version-first)
}

func tally(counts *likewisev1.Counts) string {
	if !counts.GetAsOf().IsValid() || counts.GetAsOf().AsTime().Year() < 2000 {
		return "counts without an age"
	}
	return fmt.Sprintf("%d:%d", counts.GetLikes(), counts.GetDislikes())
}

func changedOrNot(m interface{ GetChanged() bool }) string {
	if m.GetChanged() {
		return "changed"
	}
	return "unchanged"
}

// wrongTag says if the entity tag of an answer is not the version.
func wrongTag(r reply, version int64) string {
	if tag := r.header.Get("ETag"); tag != strconv.Quote(strconv.FormatInt(version, 10)) {
		return fmt.Sprintf(" (with the tag %q for version %d)", tag, version)
	}
	return ""
}

func (c *conversation) reactions(m *likewisev1.BatchGetReactionsResponse) string {
	var told []string
	for _, o := range m.GetOutcomes() {
		if o.GetError() != nil {
			told = append(told, c.name(o.GetVideoId())+" "+c.itemError(o.GetError()))
			continue
		}
		told = append(told, fmt.Sprintf("%s %s at %s", c.name(o.GetVideoId()), o.GetState().GetReaction(), c.version(o.GetVideoId(), o.GetState().GetVersion())))
	}
	return strings.Join(told, ", ")
}

func (c *conversation) counts(m *likewisev1.BatchGetCountsResponse) string {
	var told []string
	for _, o := range m.GetOutcomes() {
		if o.GetError() != nil {
			told = append(told, c.name(o.GetVideoId())+" "+c.itemError(o.GetError()))
			continue
		}
		told = append(told, c.name(o.GetVideoId())+" "+tally(o.GetCounts()))
	}
	return strings.Join(told, ", ")
}

func (c *conversation) name(video string) string {
	switch video {
	case c.video:
		return "video"
	case c.other:
		return "other"
	default:
		return "nobody's"
	}
}

func (c *conversation) itemError(e *likewisev1.ItemError) string {
	r := reply{code: e.GetCode(), text: e.GetMessage()}
	for _, d := range e.GetDetails() {
		message, err := d.UnmarshalNew()
		if err != nil {
			return err.Error()
		}
		r.details = append(r.details, message)
	}
	return c.refusal(r)
}

// refusal puts an error into words: its code, and what its details say.
func (c *conversation) refusal(r reply) string {
	told := []string{r.code}
	for _, d := range r.details {
		switch d := d.(type) {
		case *likewisev1.VersionMismatch:
			told = append(told, fmt.Sprintf("it is %s at %s", d.GetReaction(), c.version(c.video, d.GetVersion())))
			if r.status != 0 {
				told[len(told)-1] += wrongTag(r, d.GetVersion())
			}
		case *likewisev1.VideoNotActive:
			told = append(told, "the video is "+d.GetState().String())
		case *likewisev1.IdempotencyKeyReused:
			told = append(told, "the key was used")
		case *validate.Violations:
			told = append(told, violationsOf(r)...)
		default:
			told = append(told, "and "+string(d.ProtoReflect().Descriptor().Name()))
		}
	}
	switch r.code {
	case "failed_precondition", "already_exists", "not_found", "invalid_argument":
	default: // the sentence is what helps
		told = append(told, r.text)
	}
	for _, part := range []string{"likewise:admin", "Authorization: Bearer"} {
		if strings.Contains(r.text, part) {
			told = []string{r.code, part}
		}
	}
	return strings.Join(told, ": ")
}
