package regions

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"

	"buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go/buf/validate"
	"buf.build/go/protovalidate"
	"connectrpc.com/connect"

	likewisev1 "likewise/proto/likewise/v1"
)

// problemTypes is the prefix of the type of every problem.
const problemTypes = "urn:likewise:problem:"

// problemKind is a type of RFC 9457 problem.
type problemKind int

const (
	kindInvalid problemKind = iota
	kindNoToken
	kindForbidden
	kindNotFound
	kindMethod
	kindNotActive
	kindDeleted
	kindMismatch
	kindTooLarge
	kindMediaType
	kindKeyReused
	kindOverloaded
	kindCanceled
	kindInternal
	kindNotServed
	kindUnavailable
	kindUnknown
	kindDeadline
)

// describe returns what is fixed of a kind: the end of its type, its title, and
// its status.
func (k problemKind) describe() (slug, title string, status int) {
	switch k {
	case kindInvalid:
		return "invalid-request", "The request is not valid", http.StatusBadRequest
	case kindNoToken:
		return "unauthenticated", "The caller is not known", http.StatusUnauthorized
	case kindForbidden:
		return "permission-denied", "The caller may not do this", http.StatusForbidden
	case kindNotFound:
		return "not-found", "There is nothing here", http.StatusNotFound
	case kindMethod:
		return "method-not-allowed", "The path does not take this method", http.StatusMethodNotAllowed
	case kindNotActive:
		return "video-not-active", "The video takes no reactions", http.StatusConflict
	case kindDeleted:
		return "video-not-active", "The video takes no reactions", http.StatusGone
	case kindMismatch:
		return "version-mismatch", "The reaction has another version", http.StatusPreconditionFailed
	case kindTooLarge:
		return "too-large", "The request is too large", http.StatusRequestEntityTooLarge
	case kindMediaType:
		return "unsupported-media-type", "The body is of a kind that is not read here", http.StatusUnsupportedMediaType
	case kindKeyReused:
		return "idempotency-key-reused", "The idempotency key was used for another request", http.StatusUnprocessableEntity
	case kindOverloaded:
		return "overloaded", "There is too much to do at present", http.StatusTooManyRequests
	case kindCanceled:
		return "canceled", "The caller went away", 499
	case kindNotServed:
		return "not-served", "This is not served", http.StatusNotImplemented
	case kindUnavailable:
		return "unavailable", "This cannot be done at present", http.StatusServiceUnavailable
	case kindUnknown:
		return "outcome-unknown", "The outcome is not known", http.StatusServiceUnavailable
	case kindDeadline:
		return "deadline-exceeded", "There was not enough time", http.StatusGatewayTimeout
	default: // kindInternal
		return "internal", "Something went wrong here", http.StatusInternalServerError
	}
}

// refusal is an error and the problem as which REST's callers hear of it.
type refusal struct {
	Kind problemKind
	Err  *connect.Error
}

func notFound() *refusal {
	return &refusal{Kind: kindNotFound, Err: public(connect.CodeNotFound, nothingHere)}
}

func invalid(say string) *refusal {
	return &refusal{Kind: kindInvalid, Err: public(connect.CodeInvalidArgument, say)}
}

// problem is the body of a refusal over REST.
type problem struct {
	Type       string             `json:"type"`
	Title      string             `json:"title"`
	Status     int                `json:"status"`
	Detail     string             `json:"detail"`
	Code       string             `json:"code"`
	Reaction   string             `json:"reaction,omitempty"`
	Version    string             `json:"version,omitempty"`
	State      string             `json:"state,omitempty"`
	Violations []problemViolation `json:"violations,omitempty"`
}

type problemViolation struct {
	Field   string `json:"field"`
	Message string `json:"message"`
}

// refusalOf finds the problem for an error by its code and its details.
func refusalOf(err *connect.Error) *refusal {
	kind := kindOfCode(err.Code())
	for _, detail := range err.Details() {
		message, detailErr := detail.Value()
		if detailErr != nil {
			continue
		}
		switch said := message.(type) {
		case *likewisev1.VersionMismatch:
			kind = kindMismatch
		case *likewisev1.VideoNotActive:
			kind = kindNotActive
			if said.GetState() == likewisev1.VideoState_DELETED {
				kind = kindDeleted
			}
		case *likewisev1.IdempotencyKeyReused:
			kind = kindKeyReused
		case *likewisev1.OutcomeUnknown:
			kind = kindUnknown
		}
	}
	return &refusal{Kind: kind, Err: err}
}

func kindOfCode(code connect.Code) problemKind {
	switch code {
	case connect.CodeInvalidArgument, connect.CodeOutOfRange:
		return kindInvalid
	case connect.CodeUnauthenticated:
		return kindNoToken
	case connect.CodePermissionDenied:
		return kindForbidden
	case connect.CodeNotFound:
		return kindNotFound
	case connect.CodeResourceExhausted:
		return kindOverloaded
	case connect.CodeUnavailable:
		return kindUnavailable
	case connect.CodeDeadlineExceeded:
		return kindDeadline
	case connect.CodeCanceled:
		return kindCanceled
	case connect.CodeUnimplemented:
		return kindNotServed
	default:
		return kindInternal
	}
}

func (r *refusal) problem() problem {
	slug, title, status := r.Kind.describe()
	p := problem{
		Type:   problemTypes + slug,
		Title:  title,
		Status: status,
		Detail: r.Err.Message(),
		Code:   r.Err.Code().String(),
	}
	for _, detail := range r.Err.Details() {
		message, err := detail.Value()
		if err != nil {
			continue
		}
		switch said := message.(type) {
		case *likewisev1.VersionMismatch:
			p.Reaction, p.Version = said.GetReaction().String(), strconv.FormatInt(said.GetVersion(), 10)
		case *likewisev1.VideoNotActive:
			p.State = said.GetState().String()
		case *validate.Violations:
			p.Violations = violationsOf(said)
			if p.Detail == ruleSentence(said, protovalidate.FieldPathString) {
				p.Detail = ruleSentence(said, jsonPath)
			}
		}
	}
	return p
}

func violationsOf(said *validate.Violations) []problemViolation {
	list := make([]problemViolation, len(said.GetViolations()))
	for i, one := range said.GetViolations() {
		list[i] = problemViolation{Field: jsonPath(one.GetField()), Message: one.GetMessage()}
	}
	return list
}

// jsonPath spells a path as REST's callers spell its fields.
func jsonPath(path *validate.FieldPath) string {
	var b strings.Builder
	for i, element := range path.GetElements() {
		if i > 0 {
			b.WriteByte('.')
		}
		b.WriteString(jsonName(element.GetFieldName()))
		if at, ok := element.GetSubscript().(*validate.FieldPathElement_Index); ok {
			b.WriteString("[" + strconv.FormatUint(at.Index, 10) + "]")
		}
	}
	return b.String()
}

// jsonName is how protobuf spells a field in JSON.
func jsonName(field string) string {
	first, rest, found := strings.Cut(field, "_")
	for found {
		var part string
		part, rest, found = strings.Cut(rest, "_")
		if part != "" {
			first += strings.ToUpper(part[:1]) + part[1:]
		}
	}
	return first
}

// writeProblem writes a refusal, with the headers that belong to it.
func writeProblem(w http.ResponseWriter, r *refusal) {
	p := r.problem()
	var body bytes.Buffer
	enc := json.NewEncoder(&body)
	enc.SetEscapeHTML(false) // people read it
	_ = enc.Encode(p)        // of strings and numbers: it cannot fail
	header := w.Header()
	for name, values := range r.Err.Meta() {
		header[http.CanonicalHeaderKey(name)] = values
	}
	if p.Version != "" {
		header.Set("ETag", strconv.Quote(p.Version))
	}
	if p.Status == http.StatusUnauthorized && header.Get("WWW-Authenticate") == "" {
		header.Set("WWW-Authenticate", "Bearer")
	}
	header.Del("Content-Encoding")
	header.Del("Accept-Encoding") // it is Connect's
	header.Set("Content-Type", "application/problem+json")
	header.Set("Content-Length", strconv.Itoa(body.Len()))
	w.WriteHeader(p.Status)
	_, _ = w.Write(body.Bytes()) // whoever asked has gone
}

// errNoStatus means that the transcoder failed in a way that is not known.
var errNoStatus = errors.New("the transcoder wrote no status")

// refusalFrom makes a refusal of any error of the edge.
func refusalFrom(err error) *refusal {
	own, ok := errors.AsType[*connect.Error](err)
	if !ok {
		return &refusal{Kind: kindInternal, Err: toConnect(err)}
	}
	if errors.Is(err, errTooLarge) {
		return &refusal{Kind: kindTooLarge, Err: own}
	}
	return refusalOf(own)
}
