/* Distances between names. */
#include "base/nearest.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>

#define NAME_MAX_LEN 63

static bool
same_letter(char a, char b)
{
    return tolower((unsigned char)a) == tolower((unsigned char)b);
}

static unsigned
edit_distance(const char *a, const char *b)
{
    unsigned rows[3][NAME_MAX_LEN + 1];
    size_t n_a = strlen(a), n_b = strlen(b), i, j;

    if (n_a > NAME_MAX_LEN || n_b > NAME_MAX_LEN)
        return NAME_MAX_LEN;
    for (j = 0; j <= n_b; j++)
        rows[0][j] = (unsigned)j;
    for (i = 1; i <= n_a; i++) {
        unsigned *row = rows[i % 3], *last = rows[(i + 2) % 3];
        row[0] = (unsigned)i;
        for (j = 1; j <= n_b; j++) {
            unsigned best = last[j - 1] + !same_letter(a[i - 1], b[j - 1]);
            if (last[j] + 1 < best)
                best = last[j] + 1;
            if (row[j - 1] + 1 < best)
                best = row[j - 1] + 1;
            if (i > 1 && j > 1 && same_letter(a[i - 1], b[j - 2]) &&
                same_letter(a[i - 2], b[j - 1]) &&
                rows[(i + 1) % 3][j - 2] + 1 < best)
                best = rows[(i + 1) % 3][j - 2] + 1;
            row[j] = best;
        }
    }
    return rows[n_a % 3][n_b];
}

void
nearest_try(struct nearest *search, const char *candidate, const char *means)
{
    unsigned distance = edit_distance(search->name, candidate);

    if (distance < strlen(search->name) / 3 + 2 &&
        (!search->best || distance < search->distance)) {
        search->distance = distance;
        search->best = means;
    }
}
