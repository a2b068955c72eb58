/* A disk that remembers the order of everything done to it, preloaded into the process under test.
 *
 * What is written, truncated, created, renamed, removed and synced below $DISK_ROOT is done for real and noted in
 * $DISK_JOURNAL, in one order, so that a power cut after any note can be acted out later. $DISK_FAIL makes it fail:
 * "write 7 28" answers the seventh write to a database, "sync 2 5" its second sync, with that errno; with a fourth number,
 * that many in a row. $DISK_LIES is a disk that answers a sync at once and keeps nothing: what a test must notice.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { WRITE = 1, TRUNCATE, SYNC, CREATE, UNLINK, RENAME, SYNC_FOLDER, FAILED_WRITE, FAILED_SYNC };
#define FILES 4096

static char root[PATH_MAX];
static size_t root_length;
static int journal = -1;
static int lies;
static char *path_of[FILES];
static int appends[FILES];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct { int kind, at, error, count, seen; } failing;

static void note(uint32_t kind, const char *path, uint64_t offset, const void *data, uint32_t length) {
    struct { uint32_t kind, path, length, zero; uint64_t offset; } head = {kind, (uint32_t)strlen(path), length, 0, offset};
    char *whole = malloc(sizeof head + head.path + length);
    memcpy(whole, &head, sizeof head);
    memcpy(whole + sizeof head, path, head.path);
    if (length) memcpy(whole + sizeof head + head.path, data, length);
    size_t size = sizeof head + head.path + length, done = 0;
    while (done < size) {
        long written = syscall(SYS_write, journal, whole + done, size - done);
        if (written <= 0) abort();
        done += (size_t)written;
    }
    free(whole);
}

/* A child of a warm parent is told after the fork, as it shares its parent's environment. */
void disk_begin(const char *given, const char *where, const char *fail) {
    if (!given || !where || !realpath(given, root)) return;
    root_length = strlen(root);
    journal = (int)syscall(SYS_openat, AT_FDCWD, where, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    lies = getenv("DISK_LIES") != NULL;
    char kind[16];
    if (fail && *fail) {
        failing.count = 1;
        if (sscanf(fail, "%15s %d %d %d", kind, &failing.at, &failing.error, &failing.count) < 3) abort();
        failing.kind = strcmp(kind, "sync") ? WRITE : SYNC;
    }
}

__attribute__((constructor)) static void begin(void) {
    disk_begin(getenv("DISK_ROOT"), getenv("DISK_JOURNAL"), getenv("DISK_FAIL"));
}

/* Below the root, the rest of the path; else nothing. */
static const char *inside(const char *path, char *full) {
    char folder[PATH_MAX], *name;
    if (journal < 0 || !path) return NULL;
    if (!realpath(path, full)) {
        if (snprintf(folder, sizeof folder, "%s", path) >= (int)sizeof folder) return NULL;
        name = strrchr(folder, '/');
        if (!name) return NULL;
        *name++ = 0;
        if (!realpath(folder, full)) return NULL;
        if (strlen(full) + strlen(name) + 2 > PATH_MAX) return NULL;
        strcat(strcat(full, "/"), name);
    }
    if (strncmp(full, root, root_length)) return NULL;
    if (full[root_length] == 0) return "";
    return full[root_length] == '/' ? full + root_length + 1 : NULL;
}

/* Only the database meets a failure: the notes of what was acknowledged must not. */
static int fails(int kind, const char *path) {
    if (failing.kind != kind || !strstr(path, ".db")) return 0;
    failing.seen++;
    if (failing.seen < failing.at || failing.seen >= failing.at + failing.count) return 0;
    note(kind == WRITE ? FAILED_WRITE : FAILED_SYNC, path, 0, NULL, 0);
    errno = failing.error;
    return 1;
}

static int opened(int file, const char *path, int flags, int there) {
    char full[PATH_MAX];
    const char *name = inside(path, full);
    if (file < 0 || file >= FILES || !name) return file;
    free(path_of[file]);
    path_of[file] = strdup(name);
    appends[file] = (flags & O_APPEND) != 0;
    if (!there && (flags & O_CREAT)) note(CREATE, name, 0, NULL, 0);
    if (flags & O_TRUNC) note(TRUNCATE, name, 0, NULL, 0);
    return file;
}

static int open_as(int folder, const char *path, int flags, mode_t mode) {
    pthread_mutex_lock(&lock);
    struct stat status;
    int there = fstatat(folder, path, &status, 0) == 0;
    int file = (int)syscall(SYS_openat, folder, path, flags, mode);
    int error = errno;
    if (folder == AT_FDCWD || path[0] == '/') opened(file, path, flags, there);
    pthread_mutex_unlock(&lock);
    errno = error;
    return file;
}

#define MODE(flags) mode_t mode = 0; if (flags & (O_CREAT | O_TMPFILE)) { va_list more; va_start(more, flags); mode = va_arg(more, mode_t); va_end(more); }
int open(const char *path, int flags, ...) { MODE(flags) return open_as(AT_FDCWD, path, flags, mode); }
int open64(const char *path, int flags, ...) { MODE(flags) return open_as(AT_FDCWD, path, flags | O_LARGEFILE, mode); }
int openat(int folder, const char *path, int flags, ...) { MODE(flags) return open_as(folder, path, flags, mode); }
int openat64(int folder, const char *path, int flags, ...) { MODE(flags) return open_as(folder, path, flags, mode); }

int close(int file) {
    static int (*real)(int);
    if (!real) real = dlsym(RTLD_NEXT, "close");
    pthread_mutex_lock(&lock);
    if (file >= 0 && file < FILES && path_of[file]) { free(path_of[file]); path_of[file] = NULL; }
    pthread_mutex_unlock(&lock);
    return real(file);
}

static ssize_t write_at(int file, const void *data, size_t length, off_t offset, int positioned) {
    if (journal < 0 || file < 0 || file >= FILES || !path_of[file])
        return positioned ? syscall(SYS_pwrite64, file, data, length, offset) : syscall(SYS_write, file, data, length);
    pthread_mutex_lock(&lock);
    ssize_t written = -1;
    if (!fails(WRITE, path_of[file])) {
        if (!positioned) offset = appends[file] ? lseek(file, 0, SEEK_END) : lseek(file, 0, SEEK_CUR);
        written = positioned ? syscall(SYS_pwrite64, file, data, length, offset) : syscall(SYS_write, file, data, length);
        if (written > 0) note(WRITE, path_of[file], (uint64_t)offset, data, (uint32_t)written);
    }
    int error = errno;
    pthread_mutex_unlock(&lock);
    errno = error;
    return written;
}

ssize_t write(int file, const void *data, size_t length) { return write_at(file, data, length, 0, 0); }
ssize_t pwrite(int file, const void *data, size_t length, off_t offset) { return write_at(file, data, length, offset, 1); }
ssize_t pwrite64(int file, const void *data, size_t length, off64_t offset) { return write_at(file, data, length, offset, 1); }

static int truncate_to(int file, off_t length) {
    pthread_mutex_lock(&lock);
    int answer = (int)syscall(SYS_ftruncate, file, length), error = errno;
    if (!answer && journal >= 0 && file < FILES && path_of[file]) note(TRUNCATE, path_of[file], (uint64_t)length, NULL, 0);
    pthread_mutex_unlock(&lock);
    errno = error;
    return answer;
}

int ftruncate(int file, off_t length) { return truncate_to(file, length); }
int ftruncate64(int file, off64_t length) { return truncate_to(file, length); }

static int sync_now(int file) {
    struct stat status;
    if (journal < 0 || file < 0 || file >= FILES || !path_of[file]) return 0;
    pthread_mutex_lock(&lock);
    int answer = fails(SYNC, path_of[file]) ? -1 : 0, error = errno;
    if (!answer && !lies)
        note(!fstat(file, &status) && S_ISDIR(status.st_mode) ? SYNC_FOLDER : SYNC, path_of[file], 0, NULL, 0);
    pthread_mutex_unlock(&lock);
    errno = error;
    return answer;
}

/* Nothing is really synced: the only power that fails here is acted out from the journal. */
int fsync(int file) { return sync_now(file); }
int fdatasync(int file) { return sync_now(file); }

int unlink(const char *path) {
    char full[PATH_MAX];
    pthread_mutex_lock(&lock);
    const char *name = inside(path, full);
    int answer = (int)syscall(SYS_unlinkat, AT_FDCWD, path, 0), error = errno;
    if (!answer && name) note(UNLINK, name, 0, NULL, 0);
    pthread_mutex_unlock(&lock);
    errno = error;
    return answer;
}

int rename(const char *from, const char *to) {
    char full[PATH_MAX], there[PATH_MAX];
    pthread_mutex_lock(&lock);
    const char *old = inside(from, full);
    int answer = (int)syscall(SYS_renameat, AT_FDCWD, from, AT_FDCWD, to), error = errno;
    const char *new = answer ? NULL : inside(to, there);
    if (old && new) note(RENAME, old, 0, new, (uint32_t)strlen(new));
    pthread_mutex_unlock(&lock);
    errno = error;
    return answer;
}
