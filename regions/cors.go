package regions

import (
	"net/http"

	connectcors "connectrpc.com/cors"
	"github.com/rs/cors"
)

// preflightSeconds is how long a browser may remember what it may send. Browsers
// cap it by themselves, some at two hours.
const preflightSeconds = 7200

// withCORS lets the pages of origins call next from a browser, with credentials.
// It answers preflights by itself, and adds nothing for other origins.
func withCORS(origins []string, next http.Handler) http.Handler {
	if len(origins) == 0 {
		return next // to the library, no origins are all origins
	}
	return cors.New(cors.Options{
		AllowedOrigins:   origins,
		AllowedMethods:   append(connectcors.AllowedMethods(), http.MethodPut, http.MethodDelete, http.MethodHead),
		AllowedHeaders:   append(connectcors.AllowedHeaders(), "Authorization", keyHeader, "If-Match", "If-None-Match", timeoutHeader),
		ExposedHeaders:   append(connectcors.ExposedHeaders(), "ETag", "Retry-After", "WWW-Authenticate"),
		AllowCredentials: true,
		MaxAge:           preflightSeconds,
	}).Handler(next)
}
