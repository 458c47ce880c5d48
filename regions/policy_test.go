package regions

import (
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"google.golang.org/protobuf/reflect/protoreflect"

	likewisev1 "likewise/proto/likewise/v1"
	"likewise/proto/likewise/v1/likewisev1connect"
)

// proceduresOf lists what the protocol offers to callers.
func proceduresOf(files ...protoreflect.FileDescriptor) []string {
	var procedures []string
	for _, file := range files {
		for i := range file.Services().Len() {
			service := file.Services().Get(i)
			for j := range service.Methods().Len() {
				procedures = append(procedures, fmt.Sprintf("/%s/%s", service.FullName(), service.Methods().Get(j).Name()))
			}
		}
	}
	return procedures
}

func TestEveryProcedureHasAnAccess(t *testing.T) {
	t.Parallel()
	procedures := proceduresOf(likewisev1.File_likewise_v1_reaction_proto, likewisev1.File_likewise_v1_admin_proto)
	for _, private := range []bool{false, true} {
		table := Config{PrivateCounts: private}.accessTable()
		require.ElementsMatch(t, procedures, slices.Collect(maps.Keys(table)))
		for procedure, rule := range table {
			require.NotEqual(t, accessNobody, rule, procedure)
			require.False(t, private && rule == accessPublic, procedure)
		}
	}
}

// door serves procedures that do nothing but fail, behind the authenticator.
func door(t *testing.T, table map[string]access) *httptest.Server {
	t.Helper()
	auth := newTestAuth(t, AuthConfig{Secret: testSecret})
	chain := connect.WithInterceptors(mapErrors(zap.NewNop()), authenticate(auth, table))
	mux := http.NewServeMux()
	mux.Handle(likewisev1connect.NewReactionServiceHandler(likewisev1connect.UnimplementedReactionServiceHandler{}, chain))
	mux.Handle(likewisev1connect.NewAdminServiceHandler(likewisev1connect.UnimplementedAdminServiceHandler{}, chain))
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server
}

func TestWhoMayCallWhat(t *testing.T) {
	t.Parallel()
	token := func(payload string) string {
		return hs256Token(t, fmt.Sprintf(`{"exp":%d,%s}`, inSeconds(time.Hour), payload))
	}
	callers := map[string]string{
		"no token":          "",
		"rubbish":           "rubbish",
		"user":              token(`"sub":"alice"`),
		"nobody":            token(`"sub":"a/b","scope":"x"`),
		"service":           token(`"sub":"a/b","scp":["likewise:service"]`),
		"admin":             token(`"scope":"likewise:admin"`),
		"user and admin":    token(`"sub":"alice","scope":"x likewise:admin"`),
		"user and service":  token(`"sub":"alice","scope":"likewise:service"`),
		"almost an admin":   token(`"sub":"alice","scope":"likewise:admin2 likewise:","scp":["likewise:admin x"]`),
		"admin who expired": hs256Token(t, `{"exp":1,"scope":"likewise:admin"}`),
	}
	let := map[access]map[string]int{
		accessPublic: {"no token": 0, "rubbish": 0, "user": 0, "nobody": 0, "service": 0, "admin": 0, "user and admin": 0, "user and service": 0, "almost an admin": 0, "admin who expired": 0},
		accessCaller: {"no token": 401, "rubbish": 401, "user": 0, "nobody": 403, "service": 0, "admin": 0, "user and admin": 0, "user and service": 0, "almost an admin": 0, "admin who expired": 401},
		accessUser:   {"no token": 401, "rubbish": 401, "user": 0, "nobody": 401, "service": 401, "admin": 401, "user and admin": 0, "user and service": 0, "almost an admin": 0, "admin who expired": 401},
		accessAdmin:  {"no token": 401, "rubbish": 401, "user": 403, "nobody": 403, "service": 403, "admin": 0, "user and admin": 0, "user and service": 403, "almost an admin": 403, "admin who expired": 401},
		accessNobody: {"no token": 403, "rubbish": 403, "user": 403, "nobody": 403, "service": 403, "admin": 403, "user and admin": 403, "user and service": 403, "almost an admin": 403, "admin who expired": 403},
	}
	for _, private := range []bool{false, true} {
		table := Config{PrivateCounts: private}.accessTable()
		server := door(t, table)
		for procedure, rule := range table {
			for who, want := range let[rule] {
				requireLetIn(t, want, server.URL+procedure, callers[who], "%s calls %s", who, procedure)
			}
		}
	}
	closed := door(t, map[string]access{})
	for procedure := range (Config{}).accessTable() {
		for who, want := range let[accessNobody] {
			requireLetIn(t, want, closed.URL+procedure, callers[who], "%s calls %s, which has no rule", who, procedure)
		}
	}
}

func requireLetIn(t *testing.T, refusal int, address, token, format string, args ...any) {
	t.Helper()
	headers := map[string]string{}
	if token != "" {
		headers["Authorization"] = "Bearer " + token
	}
	code, _ := curl(t, address, `{}`, headers)
	if refusal == 0 {
		refusal = http.StatusInternalServerError // the empty service's, through mapErrors
	}
	require.Equalf(t, refusal, code, format, args...)
}

func TestRefusalsNameTheScope(t *testing.T) {
	t.Parallel()
	server := door(t, Config{PrivateCounts: true}.accessTable())
	_, said := curl(t, server.URL+likewisev1connect.AdminServiceSetVideoStateProcedure, `{}`, map[string]string{"Authorization": "Bearer " + mint(t, "alice")})
	require.Contains(t, said["message"], ScopeAdmin)
	nobody := hs256Token(t, fmt.Sprintf(`{"exp":%d}`, inSeconds(time.Hour)))
	_, said = curl(t, server.URL+likewisev1connect.ReactionServiceGetCountsProcedure, `{}`, map[string]string{"Authorization": "Bearer " + nobody})
	require.Contains(t, said["message"], ScopeService)
}
