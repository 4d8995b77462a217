// cputime: processor time of one command and all that it starts.
//
//   cputime RESULT CPU TIMES COMMAND [ARGUMENT]...
//
// Runs the command TIMES times in a row, writes "USER_US SYSTEM_US WALL_NS" of all of them to
// RESULT and exits as the last one did (128 + N for signal N). Run outside a tracer it measures the tracer and the traced together; run
// inside it measures the traced alone. CPU is the processor for the command, or -1 for any.

#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static long long microseconds(struct timeval t)
{
	return t.tv_sec * 1000000LL + t.tv_usec;
}

int main(int argc, char **argv)
{
	if (argc < 5) {
		fprintf(stderr, "usage: cputime RESULT CPU TIMES COMMAND [ARGUMENT]...\n");
		return 2;
	}
	int cpu = atoi(argv[2]);
	int times = atoi(argv[3]);
	if (cpu >= 0) {
		cpu_set_t set;
		CPU_ZERO(&set);
		CPU_SET(cpu, &set);
		if (sched_setaffinity(0, sizeof set, &set)) {
			perror("cputime: sched_setaffinity");
			return 2;
		}
	}
	// What the command leaves behind becomes ours to wait for, and so is counted.
	prctl(PR_SET_CHILD_SUBREAPER, 1);

	struct timespec begin, end;
	clock_gettime(CLOCK_MONOTONIC, &begin);
	long long user = 0, system = 0;
	int exit_status = 0;
	for (int i = 0; i < times && exit_status == 0; i++) {
		pid_t child = vfork();
		if (child == 0) {
			execvp(argv[4], argv + 4);
			_exit(127);
		}
		if (child < 0) {
			perror("cputime: vfork");
			return 2;
		}
		for (;;) {
			int status;
			struct rusage usage;
			pid_t pid = wait4(-1, &status, __WALL, &usage);
			if (pid < 0 && errno == EINTR)
				continue;
			if (pid < 0)
				break;
			user += microseconds(usage.ru_utime);
			system += microseconds(usage.ru_stime);
			if (pid == child)
				exit_status = WIFSIGNALED(status) ? 128 + WTERMSIG(status)
								  : WEXITSTATUS(status);
		}
	}
	clock_gettime(CLOCK_MONOTONIC, &end);
	if (exit_status == 127)
		fprintf(stderr, "cputime: %s did not start\n", argv[4]);

	FILE *result = fopen(argv[1], "we");
	if (!result) {
		perror(argv[1]);
		return 2;
	}
	fprintf(result, "%lld %lld %lld\n", user, system,
		(end.tv_sec - begin.tv_sec) * 1000000000LL + end.tv_nsec - begin.tv_nsec);
	return fclose(result) ? 2 : exit_status;
}
