// sleeper: a process to look at from outside.
//
//   sleeper RESULT
//
// Writes its process id to RESULT and sleeps until a signal ends it.

#include <stdio.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	if (argc != 2) {
		fprintf(stderr, "usage: sleeper RESULT\n");
		return 2;
	}
	FILE *result = fopen(argv[1], "we");
	if (!result) {
		perror(argv[1]);
		return 1;
	}
	fprintf(result, "%d\n", (int)getpid());
	if (fclose(result))
		return 1;
	for (;;)
		pause();
}
