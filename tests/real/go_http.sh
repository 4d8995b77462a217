# go_http.sh: a Go HTTP server and its client, built by the go tool in the same run.
# needs: go
# seconds: 240
set -eu
export GOCACHE="$PWD/cache" GOFLAGS=-mod=mod CGO_ENABLED=0 GOTOOLCHAIN=local GOPATH="$PWD/path"
cat > main.go <<'END'
package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
)

func main() {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	http.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "path %s", r.URL.Path)
	})
	go http.Serve(listener, nil)
	var group sync.WaitGroup
	var lock sync.Mutex
	right := 0
	for client := 0; client < 8; client++ {
		group.Add(1)
		go func() {
			defer group.Done()
			for i := 0; i < 50; i++ {
				response, err := http.Get(fmt.Sprintf("http://%s/%d", listener.Addr(), i))
				if err != nil {
					fmt.Println(err)
					return
				}
				body, _ := io.ReadAll(response.Body)
				response.Body.Close()
				if string(body) == fmt.Sprintf("path /%d", i) {
					lock.Lock()
					right++
					lock.Unlock()
				}
			}
		}()
	}
	group.Wait()
	fmt.Println("right answers", right)
}
END
go run main.go
chmod -R u+w cache path 2> /dev/null || true
rm -rf cache path .config
