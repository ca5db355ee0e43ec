/* Schedules as text: "loops; vector 1 16; upcast 0 6; grid 0 8". */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "lower/tune.h"

static const struct {
    const char *name;
    uint32_t n_args;
} words[LOWER_ACTION_COUNT] = {
    [LOWER_WITHOUT] = {"without", 1}, [LOWER_LOOPS] = {"loops", 0},
    [LOWER_PRODUCT] = {"product", 1}, [LOWER_FOLD] = {"fold", 2},
    [LOWER_VECTOR] = {"vector", 2},   [LOWER_UPCAST] = {"upcast", 2},
    [LOWER_UNROLL] = {"unroll", 2},   [LOWER_ORDER] = {"order", 2},
    [LOWER_GRID] = {"grid", 2},       [LOWER_PANELS] = {"panels", 1},
    [LOWER_PARTS] = {"parts", 1},     [LOWER_HEIGHT] = {"height", 1},
    [LOWER_MATRIX] = {"matrix", 5},   [LOWER_WGMMA] = {"wgmma", 5},
    [LOWER_TILE] = {"tile", 5},       [LOWER_TEAM] = {"team", 4},
    [LOWER_TURN] = {"turn", 2},       [LOWER_ACROSS] = {"across", 2},
    [LOWER_ROWS] = {"rows", 2},
};

void
lower_schedule_print(const struct lower_schedule *schedule, char *text)
{
    uint32_t i, j;
    size_t at = 0;

    if (!schedule->n_actions)
        snprintf(text, LOWER_SCHEDULE_TEXT, "rules");
    for (i = 0; i < schedule->n_actions && at < LOWER_SCHEDULE_TEXT; i++) {
        const struct lower_action *a = &schedule->actions[i];
        at += (size_t)snprintf(text + at, LOWER_SCHEDULE_TEXT - at, "%s%s",
                               i ? "; " : "", words[a->kind].name);
        for (j = 0; j < words[a->kind].n_args && at < LOWER_SCHEDULE_TEXT; j++)
            at += (size_t)snprintf(text + at, LOWER_SCHEDULE_TEXT - at, " %d",
                                   a->n[j]);
    }
}

static bool
parse_action(const char *text, size_t n, struct lower_action *out)
{
    size_t length = 0;
    uint32_t kind, i;

    memset(out, 0, sizeof(*out));
    while (length < n && isalpha((unsigned char)text[length]))
        length++;
    for (kind = 0; kind < LOWER_ACTION_COUNT; kind++) {
        if (strlen(words[kind].name) == length &&
            memcmp(words[kind].name, text, length) == 0)
            break;
    }
    if (kind == LOWER_ACTION_COUNT)
        return false;
    out->kind = (uint8_t)kind;
    for (i = 0; i < words[kind].n_args; i++) {
        int64_t value = 0;
        if (length >= n || text[length] != ' ' || length + 1 >= n ||
            !isdigit((unsigned char)text[length + 1]))
            return false;
        for (length++; length < n && isdigit((unsigned char)text[length]);
             length++) {
            value = value * 10 + (text[length] - '0');
            if (value > INT32_MAX)
                return false;
        }
        out->n[i] = (int32_t)value;
    }
    return length == n;
}

bell_status
lower_schedule_parse(const char *text, struct lower_schedule *out_schedule)
{
    size_t n;

    memset(out_schedule, 0, sizeof(*out_schedule));
    if (strcmp(text, "rules") == 0)
        return BELL_OK;
    for (;;) {
        uint32_t at = out_schedule->n_actions;
        n = strcspn(text, ";");
        if (at == LOWER_MAX_ACTIONS)
            return bell_fail(BELL_E_INVALID, "a schedule has %d actions",
                             LOWER_MAX_ACTIONS);
        if (!parse_action(text, n, &out_schedule->actions[at]))
            return bell_fail(BELL_E_INVALID, "no action of a schedule: '%.*s'",
                             (int)n, text);
        out_schedule->n_actions++;
        if (!text[n])
            return BELL_OK;
        text += n + 1;
        text += *text == ' ';
    }
}
