/* crossgate.h: write a hook for crossgate in C.
 *
 * A hook is a shared library that sees system calls of an unmodified program, inside the program,
 * before the kernel does:
 *
 *     gcc -O2 -shared -fPIC -nostdlib -mgeneral-regs-only -o libmine.so mine.c
 *     crossgate run --hook ./libmine.so[:ARGUMENT] -- PROGRAM
 *
 * It works in dynamic and static programs, in every thread and child and in what they execute. Linked
 * as above it has no libc: it may call the functions below and nothing else, makes no system calls of
 * its own, and has a stack of 16 KiB. Linked as usual it has a libc of its own, costs more, and may
 * do what docs/hooks.md says. It runs with the program's signals held back, in several threads at
 * once. The program's memory is only touched through crossgate_read and crossgate_write; its own
 * variables are the library's, one copy in each process (a fork copies them).
 *
 * Without -mgeneral-regs-only the program's vector registers are saved around each call of the
 * hook, which takes longer than most hooks.
 *
 * Licence: Apache-2.0 OR MIT.
 */
#ifndef CROSSGATE_H
#define CROSSGATE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* One system call, as the program is about to make it. */
struct crossgate_call {
    uint64_t nr;      /* its number (asm/unistd.h); a hook may change it */
    uint64_t args[6]; /* its arguments; a hook may change them, and the program's registers keep
                         what they hold */
    uint64_t site;    /* address of the call instruction in the program */
};

/* The task that calls: a thread of the program. */
struct crossgate_task;

/* What becomes of a call. */
enum crossgate_action {
    CROSSGATE_CONTINUE = 0, /* the kernel gets it as it was; the next hook sees it first */
    CROSSGATE_ANSWER = 1,   /* the program gets the result, a value or -errno; neither the kernel
                               nor later hooks see the call */
    CROSSGATE_WATCH = 2,    /* the kernel gets it as the hook has left it, and
                               crossgate_hook_exit gets the result */
    CROSSGATE_CHANGE = 3,   /* the kernel gets it as the hook has left it */
};

/* What happened to a task. */
enum crossgate_event {
    CROSSGATE_TASK_BEGINS = 1,    /* it is about to run its first instruction */
    CROSSGATE_PROCESS_BEGINS = 2, /* the same, in a process that fork made: all memory is a copy */
    CROSSGATE_TASK_ENDS = 3,      /* it makes its last call */
};

/* ---- What a hook defines --------------------------------------------------------------- */

/* Called in each program before its first instruction. `argument` is what follows the colon on
 * the command line, or empty. Subscribes to calls; gives 0, or -errno to refuse. */
int crossgate_hook_init(struct crossgate_task *task, const char *argument);

/* A call that was subscribed to begins. `*result` is what CROSSGATE_ANSWER gives the program. */
enum crossgate_action crossgate_hook_enter(struct crossgate_task *task,
                                           struct crossgate_call *call, long *result);

/* A call that is watched has ended with `result`; gives the result that the program sees. -512
 * (ERESTARTSYS): a signal came, and the call will begin again. May be left out. */
long crossgate_hook_exit(struct crossgate_task *task, const struct crossgate_call *call,
                         long result);

/* Something happened to the task. May be left out. */
void crossgate_hook_task(struct crossgate_task *task, enum crossgate_event event);

/* ---- What a hook may call -------------------------------------------------------------- */

/* Subscribes to the calls with this number; -1 for all. In crossgate_hook_init only: -EPERM
 * elsewhere, -EINVAL for a number that cannot be a call's. */
long crossgate_subscribe(long nr);

/* Copies `size` bytes from the program's address `from`. Gives how many could be read, or
 * -EFAULT when none could. */
long crossgate_read(struct crossgate_task *task, void *to, uint64_t from, size_t size);

/* Copies a string, with its NUL, into `size` bytes. Gives its length without the NUL; -EFAULT,
 * or -ENAMETOOLONG when it is longer (the first `size` bytes are then in `to`). */
long crossgate_read_string(struct crossgate_task *task, char *to, uint64_t from, size_t size);

/* Copies `size` bytes to the program's address `to`. Gives how many could be written, or -EFAULT
 * when none could. */
long crossgate_write(struct crossgate_task *task, uint64_t to, const void *from, size_t size);

/* Makes a call of the hook's own, which no hook sees and no filter of the program refuses. Gives
 * the kernel's result. Pointers may be the hook's or the program's. */
long crossgate_call(struct crossgate_task *task, const struct crossgate_call *call);

/* Process and thread id, as the program sees them. */
int crossgate_pid(struct crossgate_task *task);
int crossgate_tid(struct crossgate_task *task);

/* CROSSGATE_TASK_STATE bytes for this hook and this task, zero when the task begins. */
#define CROSSGATE_TASK_STATE 512
void *crossgate_task_state(struct crossgate_task *task);

/* Writes a line, at most 2,000 bytes, to the log of `crossgate run`: its standard error, or the
 * file that --hook-log names. */
void crossgate_log(struct crossgate_task *task, const char *text, size_t size);

/* Logs a last line and gives the hook up, as a crash does: see --on-hook-fault. */
void crossgate_fail(struct crossgate_task *task, const char *text, size_t size)
    __attribute__((noreturn));

#ifdef __cplusplus
}
#endif

#endif
