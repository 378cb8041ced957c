// SPDX-License-Identifier: Apache-2.0

/* Preloaded library for user-mode-linux 6.1 on a CPU with AMX.
 *
 * User-mode-linux saves and restores the registers of its processes by ptrace(2), in a buffer that is large enough for
 * AVX-512 only. With AMX the registers are four times as large, and the host sets all of them or none, so that the
 * first process dies. Therefore this library appends the current values of the other registers, which are unused: the
 * processes may not use AMX. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <elf.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/types.h>
#include <sys/uio.h>

enum { LARGEST = 1 << 14 };

long ptrace(enum __ptrace_request request, ...) {
    va_list rest;
    va_start(rest, request);
    const pid_t pid = va_arg(rest, pid_t);
    void *const address = va_arg(rest, void *), *data = va_arg(rest, void *);
    va_end(rest);
    static long (*original)(enum __ptrace_request, ...);
    if (!original)
        original = (long (*)(enum __ptrace_request, ...))dlsym(RTLD_NEXT, "ptrace");

    /* Static, because the calling kernel's stacks are smaller; it has one CPU, so calls do not overlap. */
    static char registers[LARGEST];
    struct iovec whole = {registers, sizeof registers};
    if (request == PTRACE_SETREGSET && address == (void *)NT_X86_XSTATE &&
        !original(PTRACE_GETREGSET, pid, address, &whole)) {
        const struct iovec *given = data;
        if (given->iov_len < whole.iov_len) {
            memcpy(registers, given->iov_base, given->iov_len);
            data = &whole;
        }
    }
    return original(request, pid, address, data);
}
