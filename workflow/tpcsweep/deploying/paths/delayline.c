// SPDX-License-Identifier: Apache-2.0

/* tpc-delayline: join two network namespaces by a link with a rate, a delay and random loss (docs/paths.md).
 *
 * One thread moves packets between a TUN device in each namespace. With gso=1, TCP and UDP super-packets of up to
 * 64 KiB pass whole (IFF_VNET_HDR, linux/virtio_net.h), which makes it fast; with gso=0 the kernel cuts them to the
 * MTU before, so that loss is per packet. An arrival wakes the thread only if nothing is due within two ticks.
 *
 * The statistics file (of the size of struct shared, zeroed) is mapped: its owner reads counters from it, and may
 * set the delay and the queue in it at any time. The program dies with the thread that started it. */
#define _GNU_SOURCE
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <linux/virtio_net.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#ifndef TUN_F_USO4 /* Linux 6.2 */
#define TUN_F_USO4 0x20
#define TUN_F_USO6 0x40
#define VIRTIO_NET_HDR_GSO_UDP_L4 5
#endif

enum {
    PACKET_MAX = 65536 + 256, /* a GSO super-packet with its virtio header */
    ALIGNMENT = 16,
    BATCH = 64,           /* packets read before looking at what is due */
    DENSE = 2000000,      /* ns: packets are many when the last one came less than this before */
    PRIORITY = 20,
    UDP_HEADER = 8,
    TCP_OFFSET = 12, /* the byte whose upper half is the length of TCP's header in words */
};

#define NEVER UINT64_MAX

typedef _Atomic uint64_t word;

struct statistics { /* per direction, 64 bytes; delayline.py reads the same layout */
    word packets, bytes, lost, dropped, late_sum, late_max;
    word held; /* bytes in the ring, as on the wire */
    word busy; /* the bottleneck has sent all that came so far at this time, CLOCK_MONOTONIC in ns */
};

struct shared {
    word delay; /* ns, one way */
    word queue; /* bytes that may wait before the bottleneck */
    word unused[6];
    struct statistics direction[2]; /* near to far, far to near */
};

struct packet { /* in the ring, followed by its bytes */
    uint64_t due;
    uint32_t length, wire; /* bytes here, and on the wire; length 0: nothing here, go on at the ring's start */
};

struct direction {
    int in, out;
    double loss;
    uint64_t random;
    double byte;   /* ns of the rate */
    uint64_t full; /* ns of the rate in a full token bucket */
    uint8_t *ring;
    size_t size, head, tail, count; /* head: where the next packet is put; tail: the oldest of `count` */
    uint64_t *due;                  /* of the last `limit` packets: see crowded() */
    uint64_t limit, accepted;       /* packets in the delay at most, a super-packet being one; 0: what fits */
    struct shared *settings;
    struct statistics *seen;
};

static uint64_t now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* One thread writes each counter: no locked instructions are needed, only that readers see whole values. */
static uint64_t get(word *w) { return atomic_load_explicit(w, memory_order_relaxed); }
static void set(word *w, uint64_t v) { atomic_store_explicit(w, v, memory_order_relaxed); }
static void add(word *w, uint64_t v) { set(w, get(w) + v); }

static uint64_t larger(uint64_t a, uint64_t b) { return a > b ? a : b; }

static int lose(struct direction *d) { /* xorshift64: Marsaglia 2003 */
    d->random ^= d->random << 13;
    d->random ^= d->random >> 7;
    d->random ^= d->random << 17;
    return (double)(d->random >> 11) * 0x1p-53 < d->loss;
}

static size_t aligned(size_t n) { return (n + ALIGNMENT - 1) & ~(size_t)(ALIGNMENT - 1); }

/* Bytes of IP packets that n bytes as read are on the wire: each segment of a super-packet has the headers again,
 * which is how tbf counts. Its checksum is always left to the device, so csum_start is where TCP or UDP begins. */
static uint32_t on_the_wire(const uint8_t *read, uint32_t n) {
    const struct virtio_net_hdr *h = (const void *)read;
    const uint32_t length = n - sizeof *h;
    if (h->gso_type == VIRTIO_NET_HDR_GSO_NONE)
        return length;
    const uint8_t *transport = read + sizeof *h + h->csum_start;
    const int udp = h->gso_type == VIRTIO_NET_HDR_GSO_UDP_L4;
    const uint32_t headers = h->csum_start + (udp ? UDP_HEADER : 4 * (transport[TCP_OFFSET] >> 4));
    return length + (length - headers - 1) / h->gso_size * headers;
}

/* When a packet that came at t leaves the bottleneck, or 0 if the queue before it is full. A token bucket: of the
 * rate before t, at most a full bucket is still to be had. */
static uint64_t depart(struct direction *d, uint64_t t, uint32_t wire) {
    const uint64_t busy = get(&d->seen->busy);
    const double waiting = busy > t ? (double)(busy - t) / d->byte : 0;
    if (waiting + wire > (double)get(&d->settings->queue))
        return 0;
    const uint64_t sent = larger(busy, t - d->full) + (uint64_t)(wire * d->byte + 0.5);
    set(&d->seen->busy, sent);
    return larger(sent, t);
}

/* Whether as many packets as may be are still in the delay at a time: whether the one `limit` before is. */
static int crowded(struct direction *d, uint64_t departure) {
    return d->limit && d->accepted >= d->limit && d->due[d->accepted % d->limit] > departure;
}

/* Where the next packet fits in one piece, or NULL when the ring is full. */
static struct packet *room(struct direction *d) {
    const size_t need = sizeof(struct packet) + PACKET_MAX;
    if (!d->count)
        d->head = d->tail = 0; /* empty: start again where the cache is warm */
    if (d->head >= d->tail && d->size - d->head < need + sizeof(struct packet)) {
        if (d->tail <= need)
            return NULL;
        ((struct packet *)(d->ring + d->head))->length = 0;
        d->head = 0;
    }
    if (d->head < d->tail && d->tail - d->head <= need)
        return NULL;
    return (struct packet *)(d->ring + d->head);
}

/* Read what has come; how many packets. */
static int receive(struct direction *d) {
    static uint8_t nowhere[sizeof(struct packet) + PACKET_MAX];
    for (int i = 0; i < BATCH; i++) {
        struct packet *p = room(d);
        const int full = p == NULL;
        if (full)
            p = (struct packet *)nowhere;
        const ssize_t n = read(d->in, p + 1, PACKET_MAX);
        if (n < 0 && errno != EAGAIN && errno != EINTR)
            err(1, "read"); /* the device was deleted */
        if (n <= 0)
            return i;
        const uint32_t wire = on_the_wire((uint8_t *)(p + 1), (uint32_t)n);
        const uint64_t departure = full ? 0 : depart(d, now(), wire);
        if (!departure || crowded(d, departure)) {
            add(&d->seen->dropped, 1);
        } else if (d->loss > 0 && lose(d)) {
            add(&d->seen->lost, 1);
        } else {
            *p = (struct packet){.due = departure + get(&d->settings->delay), .length = (uint32_t)n, .wire = wire};
            if (d->limit)
                d->due[d->accepted++ % d->limit] = p->due;
            d->head += aligned(sizeof *p + (size_t)n);
            d->count++;
            add(&d->seen->held, wire);
        }
    }
    return BATCH;
}

/* The oldest packet in the ring. */
static struct packet *oldest(struct direction *d) {
    if (!((struct packet *)(d->ring + d->tail))->length)
        d->tail = 0;
    return (struct packet *)(d->ring + d->tail);
}

/* When the next packet is due. */
static uint64_t next(struct direction *d) { return d->count ? oldest(d)->due : NEVER; }

/* Write every packet that is due, or will be within `early` ns. */
static void deliver(struct direction *d, uint64_t early) {
    for (uint64_t t = now(); next(d) <= t + early; t = now()) {
        struct packet *p = oldest(d);
        if (write(d->out, p + 1, p->length) < 0) {
            add(&d->seen->dropped, 1);
        } else {
            const uint64_t late = t > p->due ? t - p->due : 0;
            add(&d->seen->packets, 1);
            add(&d->seen->bytes, p->length - sizeof(struct virtio_net_hdr));
            add(&d->seen->late_sum, late);
            set(&d->seen->late_max, larger(late, get(&d->seen->late_max)));
        }
        add(&d->seen->held, -(uint64_t)p->wire);
        d->tail += aligned(sizeof *p + p->length);
        d->count--;
    }
}

/* Sleep until a time or, where arrivals count, until a packet comes. */
static void sleep_until(uint64_t due, int arrivals, const struct direction d[2]) {
    struct pollfd readable[2] = {{.fd = d[0].in, .events = POLLIN}, {.fd = d[1].in, .events = POLLIN}};
    const uint64_t t = now(), left = due > t ? due - t : 0;
    const struct timespec timeout = {(time_t)(left / 1000000000u), (long)(left % 1000000000u)};
    ppoll(readable, arrivals ? 2 : 0, due == NEVER ? NULL : &timeout, NULL);
}

/* Packet by packet while these are few, tick by tick while they are many. */
static void move(struct direction d[2], uint64_t tick) {
    for (uint64_t last = 0;;) { /* when packets came */
        const int many = now() - last < DENSE;
        uint64_t due = NEVER;
        int came = 0;
        for (int i = 0; i < 2; i++)
            deliver(&d[i], many ? tick : 0);
        for (int i = 0; i < 2; i++) { /* after that, for what the written packets caused */
            const int n = receive(&d[i]);
            came = n > came ? n : came;
            due = next(&d[i]) < due ? next(&d[i]) : due;
        }
        const uint64_t t = now();
        if (came)
            last = t;
        if (came < BATCH) /* else there may be more */
            sleep_until(due, !many || due > t + 2 * tick, d);
    }
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
    return fd;
}

static struct shared *map(const char *file) {
    const int fd = open(file, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        err(1, "%s", file);
    struct shared *s = mmap(NULL, sizeof *s, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (s == MAP_FAILED)
        err(1, "%s", file);
    close(fd);
    return s;
}

static void *memory(size_t bytes) {
    void *m = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (m == MAP_FAILED)
        err(1, "memory for the rings");
    return m;
}

/* All of it there before it is used, as a page fault is a delay too; in large pages where the kernel has them. */
static void *populated(size_t bytes) {
    void *m = memory(bytes);
    madvise(m, bytes, MADV_HUGEPAGE);
    if (madvise(m, bytes, MADV_POPULATE_WRITE)) /* Linux 5.14 */
        memset(m, 0, bytes);
    return m;
}

int main(int count, char **argument) {
    if (count != 15)
        errx(2, "usage: near far interface statistics delay_ns tick_ns rate_bit burst queue limit loss gso memory "
                "parent");
    char **a = argument + 1;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != atoi(a[13])) /* it died before prctl, or a prefix forked instead of exec */
        errx(1, "the parent is %d, not %s", getppid(), a[13]);
    struct shared *shared = map(a[3]);
    set(&shared->delay, strtoull(a[4], NULL, 10));
    set(&shared->queue, strtoull(a[8], NULL, 10));
    const uint64_t tick = strtoull(a[5], NULL, 10);
    const double byte = 8e9 / atof(a[6]);
    const int gso = atoi(a[11]), end[2] = {device(a[0], a[2], gso), device(a[1], a[2], gso)};
    const size_t size = strtoull(a[12], NULL, 10), most = size / sizeof(struct packet);
    const uint64_t asked = strtoull(a[9], NULL, 10), limit = asked <= most ? asked : 0;
    static struct direction d[2];
    for (int i = 0; i < 2; i++) {
        d[i] = (struct direction){.in = end[i], .out = end[!i], .loss = atof(a[10]), .byte = byte,
                                  .full = (uint64_t)(atof(a[7]) * byte), .size = size, .limit = limit,
                                  .settings = shared, .seen = &shared->direction[i]};
        d[i].ring = populated(size);
        if (limit)
            d[i].due = memory(limit * sizeof *d[i].due);
        if (getrandom(&d[i].random, sizeof d[i].random, 0) < 0)
            err(1, "getrandom");
        d[i].random |= 1; /* xorshift stays at 0 */
    }
    prctl(PR_SET_TIMERSLACK, 1);
    const int refused = sched_setscheduler(0, SCHED_FIFO, &(struct sched_param){PRIORITY});
    printf("ready %d %s\n", getpid(), refused ? "SCHED_OTHER" : "SCHED_FIFO");
    fflush(stdout);
    move(d, tick); /* until SIGTERM: the devices go with their descriptors */
}
