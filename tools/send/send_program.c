/* What drivers know of a program that was loaded, as numbers and bytes. */
#include <stdio.h>

#include "hcq/hcq_facts.h"
#include "tools/send/send.h"

struct definition {
    struct send *s;
    const char *name; /* the program's */
};

static bell_status
define_fact(void *user, const struct hcq_fact *fact)
{
    const struct definition *of = user;
    char full[2 * HCQ_NAME_MAX];

    snprintf(full, sizeof(full), "%s.%s", of->name, fact->name);
    if (fact->data)
        return send_define_part(of->s, full, fact->data, fact->size_bytes);
    return send_define(of->s, full, fact->value);
}

bell_status
send_define_program(struct send *s, const char *name, struct hcq_program *prog)
{
    struct definition of = {s, name};

    return hcq_program_facts(prog, define_fact, &of);
}
