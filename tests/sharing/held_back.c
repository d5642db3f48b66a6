/* Holds the first write lock back: makes the file $HELD_BACK, and goes on once that is gone. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>
static int held = 0;
static int hold(int fd, int cmd, void *arg, const char *name) {
    int (*next)(int, int, void *) = dlsym(RTLD_NEXT, name);
    if (cmd == F_SETLK && arg && ((struct flock *)arg)->l_type == F_WRLCK && !held) {
        held = 1;
        close(open(getenv("HELD_BACK"), O_CREAT | O_WRONLY, 0600));
        for (int wait = 0; wait < 6000 && access(getenv("HELD_BACK"), F_OK) == 0; wait++) usleep(10000);
    }
    return next(fd, cmd, arg);
}
int fcntl(int fd, int cmd, ...) {
    va_list rest; va_start(rest, cmd); void *arg = va_arg(rest, void *); va_end(rest);
    return hold(fd, cmd, arg, "fcntl");
}
int fcntl64(int fd, int cmd, ...) {
    va_list rest; va_start(rest, cmd); void *arg = va_arg(rest, void *); va_end(rest);
    return hold(fd, cmd, arg, "fcntl64");
}
