// goroutines.go: many goroutines at calls, and calls deep in a goroutine whose stack just grew.
//
// Hazard: a goroutine's stack is small and moves; Go leaves a few hundred bytes at a call, has
// no libc, checks that signal handlers run on its own alternate stacks and preempts by SIGURG.
package main

import (
	"fmt"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

func deep(level int) int {
	var frame [64]byte
	frame[level%64] = byte(level)
	if level == 0 {
		return syscall.Getpid()
	}
	if level%10 == 0 && syscall.Getppid() != os.Getppid() {
		return -1
	}
	return deep(level-1) + int(frame[level%64]) - int(byte(level))
}

func main() {
	timer := time.AfterFunc(40*time.Second, func() {
		fmt.Println("goroutines: expected to end within 40 s")
		os.Exit(1)
	})
	pid := os.Getpid()
	var group sync.WaitGroup
	var wrong, calls atomic.Int64
	for i := 0; i < 2000; i++ {
		group.Add(1)
		go func(index int) {
			defer group.Done()
			if deep(index%500) != pid {
				wrong.Add(1)
			}
			for n := 0; n < 20; n++ {
				if syscall.Getpid() == pid {
					calls.Add(1)
				}
				if n%5 == 0 {
					runtime.Gosched()
				}
			}
		}(i)
	}
	group.Wait()
	if deep(20000) != pid {
		wrong.Add(1)
	}
	pipes := 50
	for i := 0; i < pipes; i++ {
		reader, writer, err := os.Pipe()
		if err != nil {
			fmt.Println("goroutines: pipe:", err)
			os.Exit(1)
		}
		group.Add(1)
		go func() {
			defer group.Done()
			buffer := make([]byte, 1)
			for n := 0; n < 20; n++ {
				if _, err := reader.Read(buffer); err != nil || buffer[0] != byte(n) {
					wrong.Add(1)
				}
			}
			reader.Close()
		}()
		go func() {
			for n := 0; n < 20; n++ {
				writer.Write([]byte{byte(n)})
			}
			writer.Close()
		}()
	}
	group.Wait()
	runtime.GC()
	spin := make(chan bool)
	go func() {
		end := time.Now().Add(50 * time.Millisecond)
		for time.Now().Before(end) {
		}
		spin <- true
	}()
	<-spin
	if wrong.Load() != 0 || calls.Load() != 40000 {
		fmt.Printf("goroutines: expected 0 wrong and 40000 calls, got %d and %d\n",
			wrong.Load(), calls.Load())
		os.Exit(1)
	}
	timer.Stop()
	fmt.Println("ok goroutines")
}
