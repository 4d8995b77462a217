// hook.c: a hook library that does nothing with every call; with -DWATCH it sees results, too.

#include "crossgate.h"

int crossgate_hook_init(struct crossgate_task *task, const char *argument)
{
	(void)task, (void)argument;
	return (int)crossgate_subscribe(-1);
}

enum crossgate_action crossgate_hook_enter(struct crossgate_task *task,
					   struct crossgate_call *call, long *result)
{
	(void)task, (void)call, (void)result;
#ifdef WATCH
	return CROSSGATE_WATCH;
#else
	return CROSSGATE_CONTINUE;
#endif
}

long crossgate_hook_exit(struct crossgate_task *task, const struct crossgate_call *call,
			 long result)
{
	(void)task, (void)call;
	return result;
}
