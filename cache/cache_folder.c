/* Where the cache is, and whether it may be trusted: what is found there will
 * be executed, so nobody but the user may have written it.
 */
#include "cache/cache_internal.h"

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/env.h"
#include "base/log.h"

static _Atomic uint32_t cache_told; /* bits of enum cache_said */

void
cache_say(enum cache_said what, const char *fmt, ...)
{
    char line[1600];
    va_list args;

    if ((atomic_fetch_or(&cache_told, what) & what) && !LOG_ON(LOG_CACHE))
        return;
    va_start(args, fmt);
    vsnprintf(line, sizeof(line), fmt, args);
    va_end(args);
    log_print(LOG_CACHE, "%s", line);
}

/* ---- where ---- */

/* False: nobody says where, or it is to be off. */
static bool
name_folder(char *out, size_t size_bytes, const char **out_why)
{
    const char *named = env_get("BELL_CACHE"), *base, *below = "/doorbell";
    int n;

    *out_why = NULL;
    if (getauxval(AT_SECURE)) {
        *out_why = "a program with privileges keeps none";
        return false;
    }
    if (named && strcmp(named, "off") == 0) {
        *out_why = "BELL_CACHE is off";
        return false;
    }
    if (named && named[0]) {
        base = named;
        below = "";
    } else if ((base = env_get("XDG_CACHE_HOME")) == NULL || base[0] != '/') {
        base = env_get("HOME");
        below = "/.cache/doorbell";
        if (!base || base[0] != '/') {
            *out_why = "there is no $HOME to have it in";
            return false;
        }
    }
    n = snprintf(out, size_bytes, "%s%s", base, below);
    if (n >= 0 && (size_t)n < size_bytes)
        return true;
    *out_why = "the name of its folder is too long";
    return false;
}

/* Makes the folder and those above it that are missing. */
static int
make_folders(char *path)
{
    char *at;

    for (at = strchr(path + 1, '/'); at; at = strchr(at + 1, '/')) {
        *at = '\0';
        (void)mkdir(path, 0700); /* the last one says what is wrong */
        *at = '/';
    }
    return mkdir(path, 0700) == 0 || errno == EEXIST ? 0 : -1;
}

/* ---- whose ---- */

/* Where a file's pages are not shared between machines, or locks are not. src:
 * Linux 6.12, include/uapi/linux/magic.h, and the file systems' own headers. */
static bool
is_remote(const char *folder)
{
    static const uint32_t kinds[] = {
        0x6969,     /* NFS */
        0x517b,     /* SMB */
        0xff534d42, /* CIFS */
        0xfe534d42, /* SMB2 */
        0x00c36400, /* Ceph */
        0x0bd00bd0, /* Lustre */
        0x47504653, /* GPFS */
        0x5346414f, /* AFS */
    };
    struct statfs fs;
    size_t i;

    if (statfs(folder, &fs) != 0)
        return false;
    for (i = 0; i < ARRAY_LEN(kinds); i++) {
        if ((uint32_t)fs.f_type == kinds[i])
            return true;
    }
    return false;
}

/* Nobody but the user and root may put another folder in this one's place. */
static bool
check_above(char *path, char *why, size_t why_bytes)
{
    char *at = path + strlen(path);
    struct stat st;

    while ((at = memrchr(path, '/', (size_t)(at - path))) != NULL) {
        char kept = at[at == path];
        const char *shown = path;
        int failed;
        at[at == path] = '\0';
        failed = lstat(path, &st);
        if (failed || (st.st_uid != 0 && st.st_uid != geteuid()))
            snprintf(why, why_bytes, "%.200s, above it, is another user's",
                     shown);
        else if ((st.st_mode & 022) && !(st.st_mode & S_ISVTX))
            snprintf(why, why_bytes,
                     "%.200s, above it, can be written by others: chmod go-w",
                     shown);
        at[at == path] = kept;
        if (why[0])
            return false;
    }
    return true;
}

static bool
check_folder(char *path, char *why, size_t why_bytes)
{
    struct stat st;

    if (lstat(path, &st) != 0)
        snprintf(why, why_bytes, "%s", strerror(errno));
    else if (S_ISLNK(st.st_mode))
        snprintf(why, why_bytes, "it is a symbolic link");
    else if (!S_ISDIR(st.st_mode))
        snprintf(why, why_bytes, "it is not a folder");
    else if (st.st_uid != geteuid())
        snprintf(why, why_bytes, "it belongs to user %u, not %u",
                 (unsigned)st.st_uid, (unsigned)geteuid());
    else if (st.st_mode & 077)
        snprintf(why, why_bytes, "others are let in (mode %o): chmod 700",
                 (unsigned)(st.st_mode & 07777));
    else if (is_remote(path))
        snprintf(why, why_bytes,
                 "it is on a network file system: name a local folder in "
                 "BELL_CACHE");
    return why[0] == '\0';
}

bool
cache_file_is_own(const char *path)
{
    struct stat st;

    return lstat(path, &st) == 0 && S_ISREG(st.st_mode) &&
           st.st_uid == geteuid() && st.st_nlink == 1 && !(st.st_mode & 022);
}

void
cache_find_folder(struct cache *cache)
{
    char named[CACHE_PATH_MAX], real[PATH_MAX], why[256] = "";
    const char *none;

    if (!name_folder(named, sizeof(named), &none)) {
        snprintf(cache->why_off, sizeof(cache->why_off), "%s", none);
        return;
    }
    while (named[1] && named[strlen(named) - 1] == '/')
        named[strlen(named) - 1] = '\0'; /* lstat would follow a link */
    if (make_folders(named) != 0)
        snprintf(why, sizeof(why), "%s", strerror(errno));
    else if (check_folder(named, why, sizeof(why)) && !realpath(named, real))
        snprintf(why, sizeof(why), "%s", strerror(errno));
    else if (!why[0] && strlen(real) + 32 > sizeof(cache->folder))
        snprintf(why, sizeof(why), "its name is too long");
    else if (!why[0] && check_above(real, why, sizeof(why)))
        memcpy(cache->folder, real, strlen(real) + 1);
    if (!why[0])
        return;
    snprintf(cache->why_off, sizeof(cache->why_off), "%.100s: %s", named, why);
    cache_say(CACHE_SAID_FOLDER, "%s is not used: %s", named, why);
}
