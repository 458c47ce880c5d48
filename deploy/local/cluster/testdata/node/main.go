// Command node stands in for likewise where the cluster's own work is tested:
// it takes the same arguments, listens where it is told, and calls another
// node as likewise does.
package main

import (
	"crypto/tls"
	"crypto/x509"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

func main() {
	log.SetFlags(0)
	if len(os.Args) < 2 {
		log.Fatal("no command")
	}
	switch os.Args[1] {
	case "migrate":
		log.Print(strings.Join(os.Args[1:], " "), " on ", os.Getenv("LIKEWISE_DATABASE_URL"))
		if os.Getenv("FAKE_MIGRATE") == "fail" {
			log.Fatal("this database cannot be migrated")
		}
	case "serve":
		serve()
	}
}

type flags struct {
	region, name, listen, join     string
	gossip, peer, ca, cert, key    string
	gossipAdvertise, peerAdvertise string
	proxy                          string
	dev                            bool
}

func parse() flags {
	var f flags
	fs := flag.NewFlagSet("serve", flag.ExitOnError)
	for name, value := range map[string]*string{
		"region": &f.region, "name": &f.name, "listen": &f.listen, "join": &f.join,
		"gossip-listen": &f.gossip, "gossip-advertise": &f.gossipAdvertise,
		"peer-listen": &f.peer, "peer-advertise": &f.peerAdvertise,
		"peer-ca": &f.ca, "peer-cert": &f.cert, "peer-key": &f.key, "peer-proxy": &f.proxy,
	} {
		fs.StringVar(value, name, "", "")
	}
	fs.BoolVar(&f.dev, "dev-secret", false, "")
	must(fs.Parse(os.Args[2:]))
	return f
}

func serve() {
	f := parse()
	log.Printf("node %s starts", f.name)
	if os.Getenv("FAKE_FAIL") == f.name {
		log.Fatal("this node was told to fail")
	}
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, os.Interrupt)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("GET /arguments", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, strings.Join(os.Args[1:], "\n"))
	})
	mux.HandleFunc("GET /environment", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, strings.Join(os.Environ(), "\n"))
	})
	if f.peer != "" {
		client := servePeers(f)
		mux.HandleFunc("GET /call", func(w http.ResponseWriter, r *http.Request) {
			call(w, client, r.FormValue("peer"))
		})
	}
	ln, err := net.Listen("tcp", f.listen)
	must(err)
	go func() { must(http.Serve(ln, mux)) }()
	for sig := range stop {
		if os.Getenv("FAKE_STOP") == "hang" {
			continue
		}
		log.Printf("node %s drained after %v", f.name, sig)
		return
	}
}

func servePeers(f flags) *http.Client {
	pem, err := os.ReadFile(f.ca)
	must(err)
	cas := x509.NewCertPool()
	cas.AppendCertsFromPEM(pem)
	cert, err := tls.LoadX509KeyPair(f.cert, f.key)
	must(err)
	both := tls.Config{
		Certificates: []tls.Certificate{cert}, RootCAs: cas, ClientCAs: cas,
		ClientAuth: tls.RequireAndVerifyClientCert, ServerName: "peer.likewise.internal",
	}
	ln, err := tls.Listen("tcp", f.peer, both.Clone())
	must(err)
	_, err = net.Listen("tcp", f.gossip)
	must(err)
	go func() {
		must(http.Serve(ln, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, f.name)
		})))
	}()
	proxy, err := url.Parse(f.proxy)
	must(err)
	return &http.Client{
		Timeout:   5 * time.Second,
		Transport: &http.Transport{Proxy: http.ProxyURL(proxy), TLSClientConfig: both.Clone()},
	}
}

func call(w http.ResponseWriter, client *http.Client, peer string) {
	resp, err := client.Get("https://" + peer)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	defer resp.Body.Close()
	_, _ = io.Copy(w, resp.Body)
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
