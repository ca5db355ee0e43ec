/* The name that a mistyped one most likely means. */
#ifndef BELL_BASE_NEAREST_H
#define BELL_BASE_NEAREST_H

/* A search over candidates, begun with {.name = name}. */
struct nearest {
    const char *name;
    const char *best;  /* so far; NULL: none is near */
    unsigned distance; /* of best */
};

/* `means` becomes the best if `candidate` is nearer than those before: by
 * insertions, deletions, replacements and swaps of neighbours, whatever the
 * case of letters, and less of them than a third of the name and two. */
void nearest_try(struct nearest *search, const char *candidate,
                 const char *means);

#endif
