/* Lets calls fail on files whose path has a given word in it, as a disk does that cannot read or write for a moment,
   or that is full.

   For LD_PRELOAD. FAIL_CONTROL names a file that `tests.faults.failing` maps as well and writes to while a program
   runs. The path of a descriptor is asked for at each call: no call that opens or closes one has to be followed. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/statvfs.h>
#include <sys/uio.h>
#include <unistd.h>

struct control {
    int64_t at;     /* which call fails first, counted from 1; 0: none */
    int64_t times;  /* how many fail from there on */
    int64_t calls;  /* how many there were */
    int64_t failed; /* how many have failed */
    int64_t error;  /* what errno is then */
    int64_t left;   /* what file systems say that they have left, and one more; 0: what they have */
    char kind[16];  /* read, write or sync */
    char word[256]; /* a part of the paths that it is about */
};

static struct control *control;

__attribute__((constructor)) static void begin(void) {
    const char *name = getenv("FAIL_CONTROL");
    int fd = name == NULL ? -1 : open(name, O_RDWR);
    if (fd < 0) return;
    void *mapped = mmap(NULL, sizeof *control, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (mapped != MAP_FAILED) control = mapped;
}

static int fails(const char *kind, int fd) {
    if (control == NULL || control->at == 0 || strcmp(control->kind, kind) != 0) return 0;
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length <= 0) return 0;
    path[length] = 0;
    if (strstr(path, control->word) == NULL) return 0;
    int64_t number = __atomic_add_fetch(&control->calls, 1, __ATOMIC_SEQ_CST);
    if (number < control->at || number >= control->at + control->times) return 0;
    __atomic_add_fetch(&control->failed, 1, __ATOMIC_SEQ_CST);
    errno = control->error;
    return 1;
}

#define WRAP(kind, result, name, parameters, arguments) \
    result name parameters { \
        static result (*next) parameters; \
        if (next == NULL) next = (result (*) parameters)dlsym(RTLD_NEXT, #name); \
        return fails(kind, fd) ? -1 : next arguments; \
    }

WRAP("read", ssize_t, read, (int fd, void *to, size_t size), (fd, to, size))
WRAP("read", ssize_t, pread, (int fd, void *to, size_t size, off_t at), (fd, to, size, at))
WRAP("read", ssize_t, pread64, (int fd, void *to, size_t size, off64_t at), (fd, to, size, at))
/* What a program calls that was built to look after the sizes of its buffers. */
WRAP("read", ssize_t, __read_chk, (int fd, void *to, size_t size, size_t room), (fd, to, size, room))
WRAP("read", ssize_t, __pread_chk, (int fd, void *to, size_t size, off_t at, size_t room), (fd, to, size, at, room))
WRAP("read", ssize_t, __pread64_chk, (int fd, void *to, size_t size, off64_t at, size_t room), (fd, to, size, at, room))
WRAP("write", ssize_t, write, (int fd, const void *from, size_t size), (fd, from, size))
WRAP("write", ssize_t, writev, (int fd, const struct iovec *from, int count), (fd, from, count))
WRAP("write", ssize_t, pwrite, (int fd, const void *from, size_t size, off_t at), (fd, from, size, at))
WRAP("write", ssize_t, pwrite64, (int fd, const void *from, size_t size, off64_t at), (fd, from, size, at))
WRAP("sync", int, fsync, (int fd), (fd))
WRAP("sync", int, fdatasync, (int fd), (fd))
/* Room that is asked for before it is written to. */
WRAP("write", int, fallocate, (int fd, int mode, off_t at, off_t size), (fd, mode, at, size))
WRAP("write", int, fallocate64, (int fd, int mode, off64_t at, off64_t size), (fd, mode, at, size))

#define WRAP_ROOM(name, type) \
    int name(const char *path, struct type *facts) { \
        static int (*next)(const char *, struct type *); \
        if (next == NULL) next = (int (*)(const char *, struct type *))dlsym(RTLD_NEXT, #name); \
        int result = next(path, facts); \
        if (control != NULL && control->left != 0) \
            facts->f_bfree = facts->f_bavail = (control->left - 1) / facts->f_frsize; \
        return result; \
    }

WRAP_ROOM(statvfs, statvfs)
WRAP_ROOM(statvfs64, statvfs64)
