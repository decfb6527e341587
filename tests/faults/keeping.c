/* Copies each file that is synced, as it was at that moment: what is there after a loss of power at the least.

   For LD_PRELOAD. KEEP_WORD is a part of the paths that it is about, KEEP_IN the directory of the copies. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Ends the program where a copy fails: a test is not to go on with an older one. */
static void require(int is_true) {
    if (is_true) return;
    perror("keeping.c");
    abort();
}

static void keep(int fd) {
    const char *word = getenv("KEEP_WORD"), *directory = getenv("KEEP_IN");
    char link[64], path[4096], made[8192], kept[8192];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (word == NULL || directory == NULL || length <= 0) return;
    path[length] = 0;
    struct stat facts;
    if (strstr(path, word) == NULL || fstat(fd, &facts) != 0 || !S_ISREG(facts.st_mode)) return;
    const char *name = strrchr(path, '/') + 1;
    snprintf(made, sizeof made, "%s/.%s.%d", directory, name, gettid());
    snprintf(kept, sizeof kept, "%s/%s", directory, name);
    int from = open(link, O_RDONLY | O_CLOEXEC), to = open(made, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    require(from >= 0 && to >= 0);
    char bytes[65536];
    ssize_t size;
    while ((size = read(from, bytes, sizeof bytes)) > 0) require(write(to, bytes, size) == size);
    require(size == 0 && rename(made, kept) == 0);
    close(from);
    close(to);
}

#define WRAP(name) \
    int name(int fd) { \
        static int (*next)(int); \
        if (next == NULL) next = (int (*)(int))dlsym(RTLD_NEXT, #name); \
        keep(fd); \
        return next(fd); \
    }

WRAP(fsync)
WRAP(fdatasync)
