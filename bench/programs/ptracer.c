// ptracer: the least that a ptrace-based tracer can do.
//
//   ptracer COMMAND [ARGUMENT]...
//
// Stops every system call of the command and of its children at entry and at exit, reads
// the registers at both stops and does nothing with them. Anything that is built on these
// stops costs at least this much.

#include <signal.h>
#include <stdio.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	if (argc < 2) {
		fprintf(stderr, "usage: ptracer COMMAND [ARGUMENT]...\n");
		return 2;
	}
	pid_t child = fork();
	if (child == 0) {
		if (ptrace(PTRACE_TRACEME, 0, 0, 0)) {
			perror("ptracer: PTRACE_TRACEME");
			_exit(126);
		}
		raise(SIGSTOP);
		execvp(argv[1], argv + 1);
		_exit(127);
	}
	int status;
	if (child < 0 || waitpid(child, &status, 0) != child || !WIFSTOPPED(status)) {
		fprintf(stderr, "ptracer: the command did not start\n");
		return 2;
	}
	long options = PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL | PTRACE_O_TRACEEXEC |
		       PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK | PTRACE_O_TRACECLONE;
	if (ptrace(PTRACE_SETOPTIONS, child, 0, options) ||
	    ptrace(PTRACE_SYSCALL, child, 0, 0)) {
		perror("ptracer");
		return 2;
	}

	int exit_status = 0;
	pid_t pid;
	while ((pid = waitpid(-1, &status, __WALL)) > 0) {
		if (!WIFSTOPPED(status)) {
			if (pid == child)
				exit_status = WIFSIGNALED(status) ? 128 + WTERMSIG(status)
								  : WEXITSTATUS(status);
			continue;
		}
		long deliver = 0;
		if (WSTOPSIG(status) == (SIGTRAP | 0x80)) {
			struct user_regs_struct regs;
			ptrace(PTRACE_GETREGS, pid, 0, &regs);
		} else if (status >> 16 == 0 && WSTOPSIG(status) != SIGSTOP) {
			// Not an event, and not the stop with which a new task begins.
			deliver = WSTOPSIG(status);
		}
		ptrace(PTRACE_SYSCALL, pid, 0, deliver);
	}
	return exit_status;
}
