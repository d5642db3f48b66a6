/* Fails a call on a file of a folder: the n-th of all that write, make, move or remove files, or all from it on. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

static char folder[4096];
static long failing = 0, count = 0;
static int goes_on = 0, code = ENOSPC;
static char last[256];

void fault_set(const char *under, long number, int and_all_after, int error) {
    strncpy(folder, under, sizeof folder - 1);
    failing = number;
    goes_on = and_all_after;
    code = error;
    __atomic_store_n(&count, 0, __ATOMIC_SEQ_CST);
}
long fault_count(void) { return __atomic_load_n(&count, __ATOMIC_SEQ_CST); }
const char *fault_last(void) { return last; }

static int is_within(const char *path) {
    return folder[0] && path && strncmp(path, folder, strlen(folder)) == 0;
}
static int of_file(int fd) {
    char link[64], path[4096];
    if (!folder[0]) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0) return 0;
    path[length] = 0;
    return is_within(path);
}
static int fails(int is_concerned, const char *what) {
    if (!is_concerned) return 0;
    long number = __atomic_add_fetch(&count, 1, __ATOMIC_SEQ_CST);
    if (!failing || number < failing || (number > failing && !goes_on)) return 0;
    if (number == failing) snprintf(last, sizeof last, "%s", what);
    errno = code;
    return 1;
}
#define NEXT(type, name, ...) ((type (*)(__VA_ARGS__))dlsym(RTLD_NEXT, name))

ssize_t write(int fd, const void *data, size_t size) {
    if (fails(of_file(fd), "write")) return -1;
    return NEXT(ssize_t, "write", int, const void *, size_t)(fd, data, size);
}
ssize_t pwrite(int fd, const void *data, size_t size, off_t at) {
    if (fails(of_file(fd), "pwrite")) return -1;
    return NEXT(ssize_t, "pwrite", int, const void *, size_t, off_t)(fd, data, size, at);
}
ssize_t pwrite64(int fd, const void *data, size_t size, off64_t at) {
    if (fails(of_file(fd), "pwrite")) return -1;
    return NEXT(ssize_t, "pwrite64", int, const void *, size_t, off64_t)(fd, data, size, at);
}
int fsync(int fd) {
    if (fails(of_file(fd), "fsync")) return -1;
    return NEXT(int, "fsync", int)(fd);
}
int fdatasync(int fd) {
    if (fails(of_file(fd), "fdatasync")) return -1;
    return NEXT(int, "fdatasync", int)(fd);
}
int ftruncate(int fd, off_t size) {
    if (fails(of_file(fd), "ftruncate")) return -1;
    return NEXT(int, "ftruncate", int, off_t)(fd, size);
}
int ftruncate64(int fd, off64_t size) {
    if (fails(of_file(fd), "ftruncate")) return -1;
    return NEXT(int, "ftruncate64", int, off64_t)(fd, size);
}
int rename(const char *from, const char *to) {
    if (fails(is_within(to), "rename")) return -1;
    return NEXT(int, "rename", const char *, const char *)(from, to);
}
int renameat(int from_folder, const char *from, int to_folder, const char *to) {
    if (fails(is_within(to), "rename")) return -1;
    return NEXT(int, "renameat", int, const char *, int, const char *)(from_folder, from, to_folder, to);
}
int link(const char *from, const char *to) {
    if (fails(is_within(to), "link")) return -1;
    return NEXT(int, "link", const char *, const char *)(from, to);
}
int linkat(int from_folder, const char *from, int to_folder, const char *to, int flags) {
    if (fails(is_within(to), "link")) return -1;
    return NEXT(int, "linkat", int, const char *, int, const char *, int)(from_folder, from, to_folder, to, flags);
}
int mkdir(const char *path, mode_t mode) {
    if (fails(is_within(path), "mkdir")) return -1;
    return NEXT(int, "mkdir", const char *, mode_t)(path, mode);
}
#define OPENS(name)                                                                           \
    int name(const char *path, int flags, ...) {                                              \
        mode_t mode = 0;                                                                      \
        if (flags & (O_CREAT | O_TMPFILE)) {                                                  \
            va_list rest;                                                                     \
            va_start(rest, flags);                                                            \
            mode = va_arg(rest, mode_t);                                                      \
            va_end(rest);                                                                     \
        }                                                                                     \
        if (fails((flags & O_ACCMODE) != O_RDONLY && is_within(path), "open")) return -1;     \
        return NEXT(int, #name, const char *, int, ...)(path, flags, mode);                   \
    }
OPENS(open)
OPENS(open64)
