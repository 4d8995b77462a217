/* eintr.c: nanosleep, poll, epoll_wait and a receive with a time limit end with EINTR after a
 * handler, SA_RESTART or not, and nanosleep tells what is left.
 *
 * Hazard: a trampoline that restarts by itself, or hides the handler's return, never gives the
 * program its EINTR.
 */
#include <sys/epoll.h>
#include <sys/socket.h>
#include "check.h"

static volatile int calls;
static void count(int signo, siginfo_t *info, void *context) {
    (void)signo, (void)info, (void)context;
    calls++;
}

static long blocked_call(int kind, int fd, int epoll) {
    struct timespec time = {20, 0}, left = {0, 0};
    struct pollfd poll_fd = {fd, POLLIN, 0};
    struct epoll_event event;
    char byte;
    switch (kind) {
    case 0:
        if (nanosleep(&time, &left) == -1 && errno == EINTR)
            return left.tv_sec >= 10 && left.tv_sec < 20 ? -EINTR : -1000;
        return -1001;
    case 1: return poll(&poll_fd, 1, 20000) == -1 ? -errno : 0;
    case 2: return epoll_wait(epoll, &event, 1, 20000) == -1 ? -errno : 0;
    default: return recv(fd, &byte, 1, 0) == -1 ? -errno : 0;
    }
}

int main(void) {
    begin("eintr");
    int pair[2], epoll = CALL(epoll_create1(0));
    CALL(socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
    struct timeval limit = {20, 0};
    CALL(setsockopt(pair[0], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit));
    struct epoll_event event = {EPOLLIN, {0}};
    CALL(epoll_ctl(epoll, EPOLL_CTL_ADD, pair[0], &event));
    for (int restart = 0; restart < 2; restart++) {
        handle(SIGUSR1, count, restart ? SA_RESTART : 0);
        for (int kind = 0; kind < 4; kind++) {
            pid_t parent = getpid(), child = CALL(fork());
            if (child == 0) {
                wait_blocked(parent);
                _exit(kill(parent, SIGUSR1) ? 1 : 0);
            }
            calls = 0;
            EXPECT_EQ(blocked_call(kind, pair[0], epoll), -EINTR,
                      kind == 0 ? "nanosleep" : kind == 1 ? "poll" : kind == 2 ? "epoll_wait"
                                                                              : "recv");
            EXPECT_EQ(calls, 1, "handler runs");
            expect_exit(child, 0, "child");
        }
    }
    return ok();
}
