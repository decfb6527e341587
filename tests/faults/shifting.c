/* Shifts the wall clock that a program sees; the clocks since boot stay as they are.

   For LD_PRELOAD. SHIFT_CONTROL names a file that `tests.faults.clocks` maps as well: by how many ms, in 8 bytes. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile int64_t *shift_ms;

__attribute__((constructor)) static void begin(void) {
    const char *name = getenv("SHIFT_CONTROL");
    int fd = name == NULL ? -1 : open(name, O_RDONLY);
    if (fd < 0) return;
    void *mapped = mmap(NULL, sizeof *shift_ms, PROT_READ, MAP_SHARED, fd, 0);
    close(fd);
    if (mapped != MAP_FAILED) shift_ms = mapped;
}

static int shifted(clockid_t clock, struct timespec *now) {
    static int (*next)(clockid_t, struct timespec *);
    if (next == NULL) next = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int result = next(clock, now);
    if (result != 0 || shift_ms == NULL || (clock != CLOCK_REALTIME && clock != CLOCK_REALTIME_COARSE)) return result;
    int64_t ns = now->tv_nsec + *shift_ms % 1000 * 1000000;
    int64_t carried = ns < 0 ? -1 : ns >= 1000000000;
    now->tv_nsec = ns - carried * 1000000000;
    now->tv_sec += *shift_ms / 1000 + carried;
    return 0;
}

int clock_gettime(clockid_t clock, struct timespec *now) { return shifted(clock, now); }

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    (void)zone;
    struct timespec found;
    int result = shifted(CLOCK_REALTIME, &found);
    now->tv_sec = found.tv_sec;
    now->tv_usec = found.tv_nsec / 1000;
    return result;
}

time_t time(time_t *to) {
    struct timespec found;
    shifted(CLOCK_REALTIME, &found);
    if (to != NULL) *to = found.tv_sec;
    return found.tv_sec;
}
