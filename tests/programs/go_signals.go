// go_signals.go: signal.Notify, signal.Ignore and signals under load, SIGSYS included.
//
// Hazard: the Go runtime installs handlers for every signal, SIGSYS too, with flags of its own,
// and asks for them back; a SIGSYS that is the agent's must never reach it.
package main

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func fail(format string, arguments ...any) {
	fmt.Printf("go_signals: "+format+"\n", arguments...)
	os.Exit(1)
}

func main() {
	time.AfterFunc(40*time.Second, func() { fail("expected to end within 40 s") })
	pid := os.Getpid()
	for _, number := range []syscall.Signal{syscall.SIGUSR1, syscall.SIGHUP, syscall.SIGSYS} {
		channel := make(chan os.Signal, 64)
		signal.Notify(channel, number)
		for i := 0; i < 20; i++ {
			if err := syscall.Kill(pid, number); err != nil {
				fail("kill: %v", err)
			}
			select {
			case got := <-channel:
				if got != number {
					fail("expected %v, got %v", number, got)
				}
			case <-time.After(10 * time.Second):
				fail("expected %v within 10 s, got nothing", number)
			}
		}
		signal.Stop(channel)
		signal.Ignore(number)
		if err := syscall.Kill(pid, number); err != nil {
			fail("kill: %v", err)
		}
		time.Sleep(5 * time.Millisecond)
		select {
		case got := <-channel:
			fail("expected nothing once it is ignored, got %v", got)
		default:
		}
		signal.Reset(number)
	}
	func() {
		defer func() {
			if recover() == nil {
				fail("expected a panic from a nil pointer")
			}
		}()
		var pointer *int
		fmt.Println(*pointer)
	}()
	fmt.Println("ok go_signals")
}
