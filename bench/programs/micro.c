// micro: the cost of one system call, timed from inside the program that makes it.
//
//   micro OP RESULT CPU CALLS BURSTS PAUSE_US BUDGET_MS none|sud-range|sud-allow|sud-sigsys
//
// Makes BURSTS bursts of CALLS calls through libc and writes the nanoseconds per call of
// each burst to RESULT, one line a burst. Start-up and the first calls of a site are not
// in the figures. Between bursts it sleeps, so that a tracer that buffers can empty its
// buffers: what is measured is what the program pays, not how fast the reader reads.
// CPU is the processor to stay on, or -1. BUDGET_MS ends a run that is slow (ptrace) early.
// Every call's result is checked: a hook that answers wrongly is a failure, not a figure.
//
// The last argument makes the program its own peer: Syscall User Dispatch armed with all
// of memory in the allowed range (what any use of it costs at least), armed with a selector
// that allows, or armed and every call re-executed from the SIGSYS handler.

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#ifndef PR_SET_SYSCALL_USER_DISPATCH
#define PR_SET_SYSCALL_USER_DISPATCH 59
#define PR_SYS_DISPATCH_ON 1
#endif
#define SELECTOR_ALLOW 0
#define SELECTOR_BLOCK 1

static void die(const char *what)
{
	fprintf(stderr, "micro: %s: %s\n", what, strerror(errno));
	exit(1);
}

// The two system call instructions that dispatch lets through: the one that makes the
// intercepted call and the one that returns from the handler. They sit between two labels
// so that the allowed range holds nothing else. The kernel compares the address after the
// instruction, hence something must follow the last one inside the range.
extern char sud_begin[], sud_end[];
long sud_call(long nr, long a, long b, long c, long d, long e, long f);
void sud_restorer(void);
__asm__(".pushsection .text\n"
	".globl sud_begin, sud_end, sud_call, sud_restorer\n"
	"sud_begin:\n"
	".type sud_call, @function\n"
	"sud_call:\n"
	"	mov %rdi, %rax\n"
	"	mov %rsi, %rdi\n"
	"	mov %rdx, %rsi\n"
	"	mov %rcx, %rdx\n"
	"	mov %r8, %r10\n"
	"	mov %r9, %r8\n"
	"	mov 8(%rsp), %r9\n"
	"	syscall\n"
	"	ret\n"
	".size sud_call, . - sud_call\n"
	".type sud_restorer, @function\n"
	"sud_restorer:\n"
	"	mov $15, %eax\n"
	"	syscall\n"
	"	ud2\n"
	".size sud_restorer, . - sud_restorer\n"
	"sud_end:\n"
	".popsection\n");

static volatile char selector = SELECTOR_ALLOW;

static void on_sigsys(int signo, siginfo_t *info, void *context)
{
	(void)signo;
	(void)info;
	greg_t *r = ((ucontext_t *)context)->uc_mcontext.gregs;
	r[REG_RAX] = sud_call(r[REG_RAX], r[REG_RDI], r[REG_RSI], r[REG_RDX], r[REG_R10],
			      r[REG_R8], r[REG_R9]);
}

// libc would install its own restorer, whose system call instruction is outside the
// allowed range: the handler's return would trap into the handler.
static void install_handler(void)
{
	struct {
		void (*handler)(int, siginfo_t *, void *);
		unsigned long flags;
		void (*restorer)(void);
		uint64_t mask;
	} action = { on_sigsys, SA_SIGINFO | 0x04000000 /* SA_RESTORER */, sud_restorer, 0 };

	if (syscall(SYS_rt_sigaction, SIGSYS, &action, NULL, sizeof action.mask))
		die("sigaction");
}

static void arm(const char *how)
{
	uintptr_t begin = 0, length = 0;

	if (!strcmp(how, "none"))
		return;
	if (!strcmp(how, "sud-range")) {
		begin = 1;
		length = (uintptr_t)1 << 56;
	}
	if (!strcmp(how, "sud-sigsys")) {
		install_handler();
		begin = (uintptr_t)sud_begin;
		length = sud_end - sud_begin;
	}
	if (prctl(PR_SET_SYSCALL_USER_DISPATCH, PR_SYS_DISPATCH_ON, begin, length, &selector))
		die("Syscall User Dispatch");
	if (!strcmp(how, "sud-sigsys"))
		selector = SELECTOR_BLOCK;
}

static double now(void)
{
	struct timespec t;

	// The vDSO answers this one: no call, so nothing that a hook would see.
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1e9 + t.tv_nsec;
}

static int zero, pipes[2];
static pid_t parent;

// Each returns the number of calls whose result was not the expected one.
static long burst_getppid(long n)
{
	long wrong = 0;

	for (long i = 0; i < n; i++)
		wrong += getppid() != parent;
	return wrong;
}

static long burst_close(long n)
{
	long wrong = 0;

	for (long i = 0; i < n; i++)
		wrong += close(-1) != -1;
	return wrong + (errno != EBADF);
}

static long burst_zero(long n)
{
	long wrong = 0;
	char byte;

	for (long i = 0; i < n; i++)
		wrong += read(zero, &byte, 1) != 1;
	return wrong;
}

static long burst_pipe(long n)
{
	long wrong = 0;
	char byte = 0;

	for (long i = 0; i < n; i += 2) {
		wrong += write(pipes[1], &byte, 1) != 1;
		wrong += read(pipes[0], &byte, 1) != 1;
	}
	return wrong;
}

int main(int argc, char **argv)
{
	if (argc != 9) {
		fprintf(stderr, "usage: micro OP RESULT CPU CALLS BURSTS PAUSE_US BUDGET_MS "
				"none|sud-range|sud-allow|sud-sigsys\n");
		return 2;
	}
	int cpu = atoi(argv[3]);
	long calls = atol(argv[4]), bursts = atol(argv[5]), pause_us = atol(argv[6]);
	double budget = atof(argv[7]) * 1e6;
	long (*burst)(long) = !strcmp(argv[1], "getppid") ? burst_getppid
			      : !strcmp(argv[1], "close") ? burst_close
			      : !strcmp(argv[1], "zero")  ? burst_zero
			      : !strcmp(argv[1], "pipe")  ? burst_pipe
							  : NULL;
	if (!burst || calls < 1 || bursts < 1) {
		fprintf(stderr, "micro: bad arguments\n");
		return 2;
	}
	if (cpu >= 0) {
		cpu_set_t set;
		CPU_ZERO(&set);
		CPU_SET(cpu, &set);
		if (sched_setaffinity(0, sizeof set, &set))
			die("sched_setaffinity");
	}
	FILE *result = fopen(argv[2], "we");
	if (!result)
		die(argv[2]);
	parent = getppid();
	zero = open("/dev/zero", O_RDONLY | O_CLOEXEC);
	if (zero < 0 || pipe(pipes))
		die("open");
	double *ns = calloc(bursts, sizeof *ns);
	if (!ns)
		die("calloc");

	arm(argv[8]);
	struct timespec nap = { pause_us / 1000000, pause_us % 1000000 * 1000 };
	double begin = now();
	long done = 0;
	long wrong = burst(calls);
	while (done < bursts && (done < 3 || now() - begin < budget)) {
		nanosleep(&nap, NULL);
		// The sleep let the processor cool down; these calls bring its caches and
		// its clock back, and are too few to matter to anybody's buffer.
		wrong += burst(64);
		double start = now();
		wrong += burst(calls);
		ns[done++] = (now() - start) / calls;
	}
	if (wrong) {
		fprintf(stderr, "micro: %ld calls did not return what they must\n", wrong);
		return 1;
	}
	for (long i = 0; i < done; i++)
		fprintf(result, "%.3f\n", ns[i]);
	return fclose(result) ? 1 : 0;
}
