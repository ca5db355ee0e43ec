/* Shared by rewrite.c and rewrite_parse.c. */
#ifndef BELL_UOPS_REWRITE_INTERNAL_H
#define BELL_UOPS_REWRITE_INTERNAL_H

#include "uops/rewrite.h"

/* struct rw_pat.kind */
enum rw_kind {
    RW_ANY,       /* anything of the class */
    RW_ANY_OF_OP, /* a node of the op, whatever its sources */
    RW_OP,        /* a node of the op whose sources match the children */
    RW_INT,       /* the integer or bool constant i */
    RW_FLOAT,     /* the float constant f */
};

/* struct rw_pat.cls */
enum rw_class {
    RW_CLASS_ALL,
    RW_CLASS_INT,
    RW_CLASS_SINT,
    RW_CLASS_BOOL,
    RW_CLASS_FLOAT,
    RW_CLASS_CONST,
};

/* Parses the table unless it has been. Thread safe. */
void rw_set_parse(struct rw_set *set);

#endif
