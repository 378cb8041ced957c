/* tpc-delayline: join two network namespaces by a link with a delay and random loss.
 *
 * For kernels without sch_netem. It makes a TUN device of the given name in each namespace, and one thread per
 * direction moves packets from one to the other: read, put into a ring with the time they are due, write when
 * due. The rate is not made here but by a tbf on the devices. With gso=1, TCP and UDP super-packets of up to
 * 64 KiB pass whole (IFF_VNET_HDR, linux/virtio_net.h), which is what makes it fast; with gso=0 the kernel cuts
 * them to the MTU before, so that loss is per packet.
 *
 * The statistics file (of the size of struct shared, zeroed) is mapped: whoever started this reads counters from
 * it at no cost, and may set the delay in it at any time. Memory is bounded by the two rings. Dies with the
 * thread that started it. */
#define _GNU_SOURCE
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <linux/virtio_net.h>
#include <net/if.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#ifndef TUN_F_USO4 /* Linux 6.2 */
#define TUN_F_USO4 0x20
#define TUN_F_USO6 0x40
#endif

enum {
    PACKET_MAX = 65536 + 256, /* a GSO super-packet with its virtio header */
    ALIGNMENT = 16,
    BATCH = 32,          /* packets read before looking at what is due */
    DEVICE_QUEUE = 20000, /* packets between tbf and the thread: a scheduling delay must not lose any */
    PRIORITY = 20,
};

typedef _Atomic uint64_t counter;

struct statistics { /* per direction, 64 bytes; delayline.py reads the same layout */
    counter packets, bytes, lost, dropped, late_sum, late_max, queued_bytes, queued_packets;
};

struct shared {
    counter delay; /* ns, one way */
    counter unused[7];
    struct statistics direction[2]; /* near to far, far to near */
};

struct packet { /* in the ring, followed by its bytes */
    uint64_t due;
    uint32_t length, skip; /* skip: nothing here, go on at the ring's start */
};

struct direction {
    int in, out;
    double loss;
    uint64_t random;
    uint8_t *ring;
    size_t size, head, tail; /* head: where the next packet is put; tail: the oldest one */
    uint64_t limit;          /* packets in the ring at most, a super-packet being one; 0: what fits */
    counter *delay;
    struct statistics *seen;
};

static uint64_t now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* One thread writes each counter: no locked instructions are needed, only that readers see whole values. */
static uint64_t get(counter *c) { return atomic_load_explicit(c, memory_order_relaxed); }
static void set(counter *c, uint64_t v) { atomic_store_explicit(c, v, memory_order_relaxed); }
static void add(counter *c, uint64_t v) { set(c, get(c) + v); }

static int lose(struct direction *d) { /* xorshift64: Marsaglia 2003 */
    d->random ^= d->random << 13;
    d->random ^= d->random >> 7;
    d->random ^= d->random << 17;
    return (double)(d->random >> 11) * 0x1p-53 < d->loss;
}

static size_t aligned(size_t n) { return (n + ALIGNMENT - 1) & ~(size_t)(ALIGNMENT - 1); }

/* Where the next packet fits in one piece, or NULL when the ring is full or has as many as it may. */
static struct packet *room(struct direction *d) {
    const size_t need = sizeof(struct packet) + PACKET_MAX;
    const uint64_t queued = get(&d->seen->queued_packets);
    if (d->limit && queued >= d->limit)
        return NULL;
    if (!queued)
        d->head = d->tail = 0; /* empty: start again where the cache is warm */
    if (d->head >= d->tail && d->size - d->head < need + sizeof(struct packet)) {
        if (d->tail <= need)
            return NULL;
        ((struct packet *)(d->ring + d->head))->skip = 1;
        d->head = 0;
    }
    if (d->head < d->tail && d->tail - d->head <= need)
        return NULL;
    return (struct packet *)(d->ring + d->head);
}

static void receive(struct direction *d) {
    static _Thread_local uint8_t nowhere[sizeof(struct packet) + PACKET_MAX];
    for (int i = 0; i < BATCH; i++) {
        struct packet *p = room(d);
        const int full = p == NULL;
        if (full)
            p = (struct packet *)nowhere;
        const ssize_t n = read(d->in, p + 1, PACKET_MAX);
        if (n < 0 && errno != EAGAIN && errno != EINTR)
            err(1, "read"); /* the device was deleted */
        if (n <= 0)
            return;
        if (full) {
            add(&d->seen->dropped, 1);
        } else if (d->loss > 0 && lose(d)) {
            add(&d->seen->lost, 1);
        } else {
            *p = (struct packet){.due = now() + get(d->delay), .length = (uint32_t)n, .skip = 0};
            d->head += aligned(sizeof *p + (size_t)n);
            add(&d->seen->queued_bytes, (uint64_t)n);
            add(&d->seen->queued_packets, 1);
        }
    }
}

/* Write every packet that is due; when the next one is due, or 0 for none. */
static uint64_t deliver(struct direction *d) {
    while (get(&d->seen->queued_packets)) {
        struct packet *p = (struct packet *)(d->ring + d->tail);
        if (p->skip) {
            d->tail = 0;
            continue;
        }
        const uint64_t t = now();
        if (p->due > t)
            return p->due;
        if (write(d->out, p + 1, p->length) < 0) {
            add(&d->seen->dropped, 1);
        } else {
            const uint64_t late = t - p->due;
            add(&d->seen->packets, 1);
            add(&d->seen->bytes, p->length - sizeof(struct virtio_net_hdr));
            add(&d->seen->late_sum, late);
            if (late > get(&d->seen->late_max))
                set(&d->seen->late_max, late);
        }
        add(&d->seen->queued_bytes, -(uint64_t)p->length);
        add(&d->seen->queued_packets, -(uint64_t)1);
        d->tail += aligned(sizeof *p + p->length);
    }
    return 0;
}

static void *move(void *argument) {
    struct direction *d = argument;
    prctl(PR_SET_TIMERSLACK, 1);
    for (;;) {
        receive(d);
        const uint64_t due = deliver(d), t = now(), wait = due > t ? due - t : 0;
        struct timespec timeout = {(time_t)(wait / 1000000000u), (long)(wait % 1000000000u)};
        struct pollfd readable = {.fd = d->in, .events = POLLIN};
        ppoll(&readable, 1, due ? &timeout : NULL, NULL);
    }
    return NULL;
}

static int device(const char *namespace, const char *name, int gso) {
    char file[256];
    snprintf(file, sizeof file, "/run/netns/%s", namespace);
    const int ns = open(file, O_RDONLY | O_CLOEXEC);
    if (ns < 0 || setns(ns, CLONE_NEWNET))
        err(1, "%s", file);
    close(ns);
    const int fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        err(1, "/dev/net/tun");
    struct ifreq r = {.ifr_flags = IFF_TUN | IFF_NO_PI | IFF_VNET_HDR};
    snprintf(r.ifr_name, sizeof r.ifr_name, "%s", name);
    if (ioctl(fd, TUNSETIFF, &r))
        err(1, "TUNSETIFF");
    const int header = sizeof(struct virtio_net_hdr);
    if (ioctl(fd, TUNSETVNETHDRSZ, &header))
        err(1, "TUNSETVNETHDRSZ");
    const unsigned long tcp = TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO6 | TUN_F_TSO_ECN;
    const unsigned long udp = tcp | TUN_F_USO4 | TUN_F_USO6;
    if (!gso ? ioctl(fd, TUNSETOFFLOAD, TUN_F_CSUM)
             : ioctl(fd, TUNSETOFFLOAD, udp) && ioctl(fd, TUNSETOFFLOAD, tcp))
        err(1, "TUNSETOFFLOAD");
    const int any = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    r.ifr_qlen = DEVICE_QUEUE;
    if (any < 0 || ioctl(any, SIOCSIFTXQLEN, &r))
        err(1, "SIOCSIFTXQLEN");
    close(any);
    return fd;
}

static struct shared *map(const char *file, uint64_t delay) {
    const int fd = open(file, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        err(1, "%s", file);
    struct shared *s = mmap(NULL, sizeof *s, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (s == MAP_FAILED)
        err(1, "%s", file);
    close(fd);
    set(&s->delay, delay);
    return s;
}

int main(int count, char **argument) {
    if (count != 11)
        errx(2, "usage: near far interface statistics delay_ns loss memory gso limit parent");
    char **a = argument + 1;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != atoi(a[9])) /* it died before prctl, or a prefix forked instead of exec */
        errx(1, "the parent is %d, not %s", getppid(), a[9]);
    struct shared *shared = map(a[3], strtoull(a[4], NULL, 10));
    const size_t memory = strtoull(a[6], NULL, 10);
    const int end[2] = {device(a[0], a[2], atoi(a[7])), device(a[1], a[2], atoi(a[7]))};
    static struct direction d[2];
    pthread_t thread[2];
    int refused = 0;
    for (int i = 0; i < 2; i++) {
        d[i] = (struct direction){.in = end[i], .out = end[!i], .loss = atof(a[5]), .size = memory,
                                  .limit = strtoull(a[8], NULL, 10),
                                  .delay = &shared->delay, .seen = &shared->direction[i]};
        const int populated = MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE; /* a page fault is a delay too */
        d[i].ring = mmap(NULL, memory, PROT_READ | PROT_WRITE, populated, -1, 0);
        if (d[i].ring == MAP_FAILED)
            err(1, "memory for the ring");
        if (getrandom(&d[i].random, sizeof d[i].random, 0) < 0)
            err(1, "getrandom");
        d[i].random |= 1; /* xorshift stays at 0 */
        if (pthread_create(&thread[i], NULL, move, &d[i]))
            err(1, "pthread_create");
        refused |= pthread_setschedparam(thread[i], SCHED_FIFO, &(struct sched_param){PRIORITY});
    }
    printf("ready %d %s\n", getpid(), refused ? "SCHED_OTHER" : "SCHED_FIFO");
    fflush(stdout);
    for (;;)
        pause(); /* SIGTERM ends it: the devices go with their descriptors */
}
