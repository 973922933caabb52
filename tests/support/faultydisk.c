/* A disk that fails on request. Preload this library and name a folder in FAULTY_DISK: while it holds a file "sync", syncs
   fail with EIO; while it holds a file "full", writes to regular files fail with ENOSPC. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
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
        return REAL(name) arguments; \
    }

SYNC(fsync)
SYNC(fdatasync)
WRITE(write, (int file, const void *bytes, size_t size), (file, bytes, size))
WRITE(pwrite, (int file, const void *bytes, size_t size, off_t at), (file, bytes, size, at))
WRITE(pwrite64, (int file, const void *bytes, size_t size, off64_t at), (file, bytes, size, at))
