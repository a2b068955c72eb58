/* A world of its own for one process, preloaded into it: wall clocks that jump, and a disk that is full.
 *
 * Both are read from a page of memory that a harness shares with the process through a file: `wall` nanoseconds are added
 * to the wall clock, and while `full` is not zero nothing more is written to a database. Monotonic time is left alone, as
 * it is by a real jump. How often somebody met either is counted there. The page is chosen after the fork
 * (`world_follow`), so that one warm parent serves all.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

struct world { volatile int64_t wall, full, misled, refused; };
static struct world still, *world = &still;

int world_follow(const char *path) {
    int file = open(path, O_RDWR | O_CLOEXEC);
    if (file < 0) return -1;
    void *page = mmap(NULL, sizeof(struct world), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (page == MAP_FAILED) return -1;
    world = page;
    return 0;
}

static struct timespec shifted(struct timespec now) {
    int64_t whole = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec + world->wall;
    return (struct timespec){whole / 1000000000, whole % 1000000000};
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    extern int __clock_gettime(clockid_t, struct timespec *) __attribute__((weak));
    int answer = __clock_gettime ? __clock_gettime(clock, now) : (int)syscall(SYS_clock_gettime, clock, now);
    if (!answer && world->wall && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
        *now = shifted(*now);
        __sync_fetch_and_add(&world->misled, 1);
    }
    return answer;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    struct timespec exact;
    (void)zone;
    if (clock_gettime(CLOCK_REALTIME, &exact)) return -1;
    *now = (struct timeval){exact.tv_sec, exact.tv_nsec / 1000};
    return 0;
}

time_t time(time_t *kept) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (kept) *kept = now.tv_sec;
    return now.tv_sec;
}

/* A server that is no child of ours is told by its environment where its world is; its own children share the page. */
__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("WORLD_PAGE");
    if (path) world_follow(path);
}

/* Whether a file is a database's, or the log beside one: only these meet the full disk, the harness' own notes do not. */
static int refused(int file) {
    char link[64], path[PATH_MAX];
    if (!world->full) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length <= 0) return 0;
    path[length] = 0;
    if (!strstr(path, ".db") && !strstr(path, "/pg_wal/") && !strstr(path, "/base/")) return 0;
    __sync_fetch_and_add(&world->refused, 1);
    errno = ENOSPC;
    return 1;
}

ssize_t write(int file, const void *data, size_t length) {
    return refused(file) ? -1 : syscall(SYS_write, file, data, length);
}

ssize_t pwrite(int file, const void *data, size_t length, off_t offset) {
    return refused(file) ? -1 : syscall(SYS_pwrite64, file, data, length, offset);
}

ssize_t pwrite64(int file, const void *data, size_t length, off64_t offset) {
    return refused(file) ? -1 : syscall(SYS_pwrite64, file, data, length, offset);
}

/* The kernel takes the offset of these in two halves. */
ssize_t pwritev(int file, const struct iovec *parts, int count, off_t offset) {
    return refused(file) ? -1 : syscall(SYS_pwritev, file, parts, count, (long)offset, 0L);
}

ssize_t pwritev64(int file, const struct iovec *parts, int count, off64_t offset) {
    return refused(file) ? -1 : syscall(SYS_pwritev, file, parts, count, (long)offset, 0L);
}

int posix_fallocate(int file, off_t offset, off_t length) {
    return refused(file) ? ENOSPC : syscall(SYS_fallocate, file, 0, offset, length) ? errno : 0;
}
