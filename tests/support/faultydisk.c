/* A disk that fails on request. Preload this library and name a folder in FAULTY_DISK: while it holds a file "sync", syncs
   fail with EIO; while it holds a file "full", writes to regular files fail with ENOSPC; while it holds a file "read-only",
   opening a database or its log for writing fails with EROFS, and so do writes to them. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

static int fails(const char *fault)
{
    char path[PATH_MAX];
    const char *folder = getenv("FAULTY_DISK");
    int before = errno;

    if (folder == NULL || snprintf(path, sizeof path, "%s/%s", folder, fault) >= (int)sizeof path)
        return 0;
    int found = access(path, F_OK) == 0;
    errno = before;
    return found;
}

static int full(int file)
{
    struct stat about;

    return fstat(file, &about) == 0 && S_ISREG(about.st_mode) && fails("full");
}

/* Whether the path is that of a SQLite database, its log or the log's index. */
static int database(const char *path)
{
    static const char *const ends[] = {".db", ".db-wal", ".db-shm"};
    size_t length = strlen(path);

    for (size_t number = 0; number < sizeof ends / sizeof *ends; number++) {
        size_t size = strlen(ends[number]);
        if (length > size && strcmp(path + length - size, ends[number]) == 0)
            return 1;
    }
    return 0;
}

static int writable(const char *path, int flags)
{
    return (flags & O_ACCMODE) == O_RDONLY || !database(path) || !fails("read-only");
}

/* Whether the file is one that cannot be written now, whoever has opened it. */
static int read_only(int file)
{
    char name[64], path[PATH_MAX];

    if (!fails("read-only"))
        return 0;
    snprintf(name, sizeof name, "/proc/self/fd/%d", file);
    int before = errno;
    ssize_t length = readlink(name, path, sizeof path - 1);
    errno = before;
    if (length < 0)
        return 0;
    path[length] = '\0';
    return database(path);
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
#define SYNC(name) \
    int name(int file) \
    { \
        if (fails("sync")) { \
            errno = EIO; \
            return -1; \
        } \
        return REAL(name)(file); \
    }
#define WRITE(name, parameters, arguments) \
    ssize_t name parameters \
    { \
        if (full(file)) { \
            errno = ENOSPC; \
            return -1; \
        } \
        if (read_only(file)) { \
            errno = EROFS; \
            return -1; \
        } \
        return REAL(name) arguments; \
    }

SYNC(fsync)
SYNC(fdatasync)
WRITE(write, (int file, const void *bytes, size_t size), (file, bytes, size))
WRITE(pwrite, (int file, const void *bytes, size_t size, off_t at), (file, bytes, size, at))
WRITE(pwrite64, (int file, const void *bytes, size_t size, off64_t at), (file, bytes, size, at))

#define OPEN(name) \
    int name(const char *path, int flags, ...) \
    { \
        mode_t mode = 0; \
        if (flags & (O_CREAT | O_TMPFILE)) { \
            va_list more; \
            va_start(more, flags); \
            mode = va_arg(more, mode_t); \
            va_end(more); \
        } \
        if (!writable(path, flags)) { \
            errno = EROFS; \
            return -1; \
        } \
        return REAL(name)(path, flags, mode); \
    }
#define TRUNCATE(name, type) \
    int name(int file, type size) \
    { \
        if (read_only(file)) { \
            errno = EROFS; \
            return -1; \
        } \
        return REAL(name)(file, size); \
    }

int access(const char *path, int mode)
{
    if ((mode & W_OK) && database(path) && fails("read-only")) {
        errno = EROFS;
        return -1;
    }
    return REAL(access)(path, mode);
}

OPEN(open)
OPEN(open64)
TRUNCATE(ftruncate, off_t)
TRUNCATE(ftruncate64, off64_t)
