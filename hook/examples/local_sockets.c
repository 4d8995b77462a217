/* local_sockets.c: connections between programs on this machine go past the kernel's TCP.
 *
 *     crossgate run --hook ./liblocal_sockets.so -- redis-server &
 *     crossgate run --hook ./liblocal_sockets.so -- redis-benchmark
 *
 * A stream socket that is bound to a port of any address or of the loopback becomes a local one in
 * place, under a name that only this hook gives; one that is connected to the loopback becomes a
 * client of that, if there is such a server, and stays with TCP otherwise. Reading, writing, polling
 * and passing on are then the kernel's business as before, and cost what they cost on local sockets.
 * What the program asks about addresses is answered as TCP would: 127.0.0.1 or ::1, and the port.
 *
 * With a port as argument, only that one. What a program registers with epoll before bind or connect
 * is lost, and so are most options set before.
 */
#include <crossgate.h>
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>

static unsigned only_port;

/* What follows the first NUL of an abstract name: the protocol's version and the port. */
static const char PREFIX[] = "crossgate-tcp";
enum { LEN = sizeof PREFIX - 1, NAME = offsetof(struct sockaddr_un, sun_path) + 1 + LEN + 3 };

struct name {
    bool six;
    uint16_t port; /* network order */
};

static long make(struct crossgate_task *task, long nr, long a, long b, long c, long d, long e) {
    struct crossgate_call call = {
        .nr = (uint64_t)nr,
        .args = {(uint64_t)a, (uint64_t)b, (uint64_t)c, (uint64_t)d, (uint64_t)e},
    };
    return crossgate_call(task, &call);
}

static long address_of(const void *memory) {
    return (long)(uintptr_t)memory;
}

static struct sockaddr_un local(struct name name) {
    struct sockaddr_un local = {.sun_family = AF_UNIX};
    char *at = local.sun_path + 1;
    for (unsigned i = 0; i < LEN; i++) *at++ = PREFIX[i];
    *at++ = name.six ? '6' : '4';
    *at++ = (char)(name.port & 0xff);
    *at = (char)(name.port >> 8);
    return local;
}

/* The port that a name of ours stands for. */
static bool is_ours(const struct sockaddr_un *local, unsigned len, struct name *name) {
    if (local->sun_family != AF_UNIX || len != NAME) return false;
    for (unsigned i = 0; i < LEN; i++)
        if (local->sun_path[1 + i] != PREFIX[i]) return false;
    const unsigned char *rest = (const unsigned char *)local->sun_path + 1 + LEN;
    *name = (struct name){rest[0] == '6', (uint16_t)(rest[1] | rest[2] << 8)};
    return true;
}

/* Whether the socket, or its other end, has a name of ours. */
static bool named(struct crossgate_task *task, long nr, long fd, struct name *name) {
    struct sockaddr_un local;
    unsigned len = sizeof local;
    return make(task, nr, fd, address_of(&local), address_of(&len), 0, 0) == 0 &&
           is_ours(&local, len, name);
}

/* The program's address at `at`: whether it is one on this machine. `any` says if the address of all
 * interfaces is, too. */
static bool on_this_machine(struct crossgate_task *task, uint64_t at, uint64_t size, bool any,
                            struct name *name) {
    union {
        struct sockaddr_in four;
        struct sockaddr_in6 six;
    } address = {0};
    if (size > sizeof address) size = sizeof address;
    if (crossgate_read(task, &address, at, size) != (long)size) return false;
    if (address.four.sin_family == AF_INET && size >= sizeof address.four) {
        uint32_t where = ntohl(address.four.sin_addr.s_addr);
        *name = (struct name){false, address.four.sin_port};
        return where >> 24 == 127 || (any && where == INADDR_ANY);
    }
    if (address.six.sin6_family != AF_INET6 || size < sizeof address.six) return false;
    const uint8_t *where = address.six.sin6_addr.s6_addr;
    for (unsigned i = 0; i < 15; i++)
        if (where[i]) return false;
    *name = (struct name){true, address.six.sin6_port};
    return where[15] == 1 || (any && where[15] == 0);
}

/* Puts a local socket in the place of `fd`, if `nr` (bind or connect) works on it. */
static bool become_local(struct crossgate_task *task, long nr, long fd, struct name name) {
    if (!name.port || (only_port && ntohs(name.port) != only_port)) return false;
    int type = 0;
    unsigned len = sizeof type;
    if (make(task, SYS_getsockopt, fd, SOL_SOCKET, SO_TYPE, address_of(&type), address_of(&len)) ||
        type != SOCK_STREAM)
        return false;
    long flags = make(task, SYS_fcntl, fd, F_GETFL, 0, 0, 0);
    long kept = make(task, SYS_fcntl, fd, F_GETFD, 0, 0, 0);
    long other = make(task, SYS_socket, AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, 0, 0);
    if (flags < 0 || kept < 0 || other < 0) return false;
    struct sockaddr_un to = local(name);
    bool done = make(task, nr, other, address_of(&to), NAME, 0, 0) == 0 &&
                make(task, SYS_fcntl, other, F_SETFL, flags, 0, 0) == 0 &&
                make(task, SYS_dup3, other, fd, kept & FD_CLOEXEC ? O_CLOEXEC : 0, 0, 0) == fd;
    make(task, SYS_close, other, 0, 0, 0, 0);
    return done;
}

/* Writes the address that TCP would have, and its length. How much room there is was seen before the
 * call: the kernel has overwritten it. */
static void tell(struct crossgate_task *task, uint64_t to, uint64_t size_at, struct name name) {
    struct sockaddr_in four = {.sin_family = AF_INET, .sin_port = name.port};
    struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_port = name.port};
    four.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    six.sin6_addr.s6_addr[15] = 1;
    unsigned len = name.six ? sizeof six : sizeof four;
    const void *from = name.six ? (const void *)&six : (const void *)&four;
    const unsigned *room = crossgate_task_state(task);
    unsigned size = *room;
    if (!to) return;
    crossgate_write(task, to, from, size < len ? size : len);
    crossgate_write(task, size_at, &len, sizeof len);
}

/* The port that a client without a name has. */
static struct name client(struct name server, long fd) {
    return (struct name){server.six, htons((uint16_t)(32768 + fd % 28232))};
}

int crossgate_hook_init(struct crossgate_task *task, const char *argument) {
    (void)task;
    for (; *argument >= '0' && *argument <= '9'; argument++)
        only_port = only_port * 10 + (unsigned)(*argument - '0');
    if (*argument || only_port > 65535) return -EINVAL;
    static const int calls[] = {SYS_bind,        SYS_connect,     SYS_accept,    SYS_accept4,
                                SYS_getsockname, SYS_getpeername, SYS_setsockopt};
    for (unsigned i = 0; i < sizeof calls / sizeof *calls; i++) crossgate_subscribe(calls[i]);
    return 0;
}

enum crossgate_action crossgate_hook_enter(struct crossgate_task *task, struct crossgate_call *call,
                                           long *result) {
    long nr = (long)call->nr, fd = (long)call->args[0];
    struct name name;
    switch (nr) {
    case SYS_bind:
    case SYS_connect:
        if (!on_this_machine(task, call->args[1], call->args[2], nr == SYS_bind, &name) ||
            !become_local(task, nr, fd, name))
            return CROSSGATE_CONTINUE;
        *result = 0;
        return CROSSGATE_ANSWER;
    case SYS_setsockopt:
        return CROSSGATE_WATCH;
    default:
        if (crossgate_read(task, crossgate_task_state(task), call->args[2], sizeof(unsigned)) !=
            sizeof(unsigned))
            return CROSSGATE_CONTINUE;
        return CROSSGATE_WATCH;
    }
}

long crossgate_hook_exit(struct crossgate_task *task, const struct crossgate_call *call,
                         long result) {
    long nr = (long)call->nr, fd = (long)call->args[0];
    struct name name;
    if (nr == SYS_setsockopt) {
        /* An option of TCP or IP, which a local socket has not and does not need. */
        bool refused = result == -EOPNOTSUPP || result == -ENOPROTOOPT;
        return refused && (named(task, SYS_getsockname, fd, &name) ||
                           named(task, SYS_getpeername, fd, &name))
                   ? 0
                   : result;
    }
    if (result < 0) return result;
    bool server = named(task, SYS_getsockname, fd, &name);
    if (!server && !named(task, SYS_getpeername, fd, &name)) return result;
    bool own = nr == SYS_getsockname;
    if (nr == SYS_accept || nr == SYS_accept4) name = client(name, result);
    else if (own != server) name = client(name, fd);
    tell(task, call->args[1], call->args[2], name);
    return result;
}
