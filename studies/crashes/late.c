// SPDX-License-Identifier: Apache-2.0
// Preloaded library that delays some calls of a server's threads, as if they lost the CPU there. Correct programs stay
// correct with these delays. Each value of LATE adds one:
//   1  epoll_wait returns 5 ms late if there are events
//   2  every other eventfd_write returns 8 to 16 ms late, after writing
//   3  every fourth epoll_ctl(EPOLL_CTL_MOD) begins 8 to 24 ms late
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define NEXT(name)                                  \
    static __typeof__(&name) next;                  \
    if (!next) next = dlsym(RTLD_NEXT, #name)

static unsigned chance(void) {
    static __thread unsigned seed;
    if (!seed) seed = (unsigned)gettid();
    return (unsigned)rand_r(&seed);
}

int epoll_wait(int epoll, struct epoll_event *events, int room, int timeout) {
    NEXT(epoll_wait);
    int count = next(epoll, events, room, timeout);
    if (count > 0) usleep(5000);
    return count;
}

#if LATE >= 2
int eventfd_write(int fd, eventfd_t value) {
    NEXT(eventfd_write);
    int status = next(fd, value);
    if (chance() % 2 == 0) usleep(8000 + chance() % 8000);
    return status;
}
#endif

#if LATE >= 3
int epoll_ctl(int epoll, int operation, int fd, struct epoll_event *event) {
    NEXT(epoll_ctl);
    if (operation == EPOLL_CTL_MOD && chance() % 4 == 0) usleep(8000 + chance() % 16000);
    return next(epoll, operation, fd, event);
}
#endif
