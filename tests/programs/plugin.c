/* plugin.c: the shared object that dlopen.c and mdwe.c load.
 *
 * Hazard: none of its own: it makes calls from its constructor, from a function and from its
 * destructor, at sites that did not exist when the program started.
 */
#include <sys/syscall.h>
#include <unistd.h>

int plugin_constructed, plugin_calls;

static long call(long number) {
    long result;
    __asm__ volatile("syscall" : "=a"(result) : "a"(number) : "rcx", "r11", "memory");
    return result;
}

__attribute__((constructor)) static void construct(void) {
    plugin_constructed = call(SYS_getppid) == getppid();
}

int plugin_work(void) {
    plugin_calls++;
    return call(SYS_getpid) == getpid() && call(SYS_gettid) == syscall(SYS_gettid);
}

__attribute__((destructor)) static void destruct(void) { call(SYS_getppid); }
