// go_exec.go: os/exec: children with pipes, many at once, failures and signals.
//
// Hazard: Go forks with raw clone(CLONE_VFORK|CLONE_VM), blocks all signals around it, makes raw
// calls in the child on the parent's stack and passes descriptors by dup3.
package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

func fail(format string, arguments ...any) {
	fmt.Printf("go_exec: "+format+"\n", arguments...)
	os.Exit(1)
}

func main() {
	if len(os.Args) > 1 {
		fmt.Print("child ", os.Args[1], " ", os.Getenv("MARK"))
		os.Exit(5)
	}
	time.AfterFunc(40*time.Second, func() { fail("expected to end within 40 s") })
	self, err := os.Executable()
	if err != nil {
		fail("%v", err)
	}
	var group sync.WaitGroup
	for i := 0; i < 12; i++ {
		group.Add(1)
		go func(index int) {
			defer group.Done()
			command := exec.Command(self, fmt.Sprint(index))
			command.Env = append(os.Environ(), "MARK=m")
			output, err := command.Output()
			var exit *exec.ExitError
			if !errors.As(err, &exit) || exit.ExitCode() != 5 {
				fail("expected exit code 5, got %v", err)
			}
			if want := fmt.Sprintf("child %d m", index); string(output) != want {
				fail("expected %q, got %q", want, output)
			}
		}(i)
	}
	group.Wait()
	cat := exec.Command("cat")
	cat.Stdin = strings.NewReader("through cat")
	output, err := cat.Output()
	if err != nil || string(output) != "through cat" {
		fail("expected %q, got %q and %v", "through cat", output, err)
	}
	if err := exec.Command("/nonexistent/program").Run(); !errors.Is(err, fs.ErrNotExist) {
		fail("expected 'no such file', got %v", err)
	}
	sleeper := exec.Command("sleep", "30")
	sleeper.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := sleeper.Start(); err != nil {
		fail("%v", err)
	}
	if err := sleeper.Process.Kill(); err != nil {
		fail("%v", err)
	}
	var exit *exec.ExitError
	if err := sleeper.Wait(); !errors.As(err, &exit) ||
		exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		fail("expected death by SIGKILL, got %v", err)
	}
	fmt.Println("ok go_exec")
}
