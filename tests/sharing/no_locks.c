/* Locks of files that a folder has: each is granted, or, with ETQ_LOCKS=none, none. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

static int locks(int fd, int command, void *argument, const char *name) {
    if (command == F_SETLK || command == F_SETLKW || command == F_OFD_SETLK || command == F_OFD_SETLKW) {
        const char *kind = getenv("ETQ_LOCKS");
        if (!kind || strcmp(kind, "none") != 0) return 0;
        errno = ENOLCK;
        return -1;
    }
    return ((int (*)(int, int, void *))dlsym(RTLD_NEXT, name))(fd, command, argument);
}
#define REPLACED(name)                                                                                                  \
    int name(int fd, int command, ...) {                                                                                \
        va_list rest;                                                                                                   \
        va_start(rest, command);                                                                                        \
        void *argument = va_arg(rest, void *);                                                                          \
        va_end(rest);                                                                                                   \
        return locks(fd, command, argument, #name);                                                                     \
    }
REPLACED(fcntl)
REPLACED(fcntl64)
