/* A disk whose syncs take longer: LD_PRELOAD this, and say in SLOW_SYNC_US by how many microseconds. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <time.h>

typedef int (*sync_call)(int);

static int slowly(const char *name, int file)
{
    const char *said = getenv("SLOW_SYNC_US");
    long more = said ? atol(said) : 0;
    struct timespec rest = {more / 1000000, more % 1000000 * 1000};
    sync_call real = (sync_call)dlsym(RTLD_NEXT, name);

    while (more > 0 && nanosleep(&rest, &rest) != 0)
        continue;
    return real(file);
}

int fsync(int file) { return slowly("fsync", file); }
int fdatasync(int file) { return slowly("fdatasync", file); }
