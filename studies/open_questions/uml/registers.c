// SPDX-License-Identifier: Apache-2.0

/* Preloaded into user-mode-linux 6.1 on a CPU with AMX.
 *
 * It saves and restores the registers of the processes inside by ptrace(2), in a buffer that holds AVX-512 and no
 * more. With AMX the registers are four times as large, and the host sets all of them or none: the first process dies.
 * So what is set is completed here with what the process has of the rest, which is nothing: it may not use AMX. */
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

    /* The kernel inside has one CPU, so one caller at a time, and stacks that are smaller than this. */
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
