/* Counts in /proc/self. */
#include "tests/unit/usage.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

struct usage
usage_now(void)
{
    struct usage now = {0, 0};
    DIR *dir = opendir("/proc/self/fd");
    FILE *maps;
    int c;

    while (dir && readdir(dir))
        now.n_fds++;
    if (dir) {
        closedir(dir);
        now.n_fds -= 3; /* ".", ".." and the folder itself */
    }
    maps = fopen("/proc/self/maps", "r");
    while (maps && (c = getc(maps)) != EOF)
        now.n_maps += c == '\n';
    if (maps)
        fclose(maps);
    return now;
}

void
usage_expect(struct usage before, unsigned slack, const char *what)
{
    struct usage now = usage_now();

#if !defined(__SANITIZE_ADDRESS__) /* whose own mappings grow */
    if (now.n_maps > before.n_maps + slack)
        fail_msg("%s: %u mappings, %u before", what, now.n_maps, before.n_maps);
#endif
    if (now.n_fds > before.n_fds + slack)
        fail_msg("%s: %u open files, %u before", what, now.n_fds, before.n_fds);
}
