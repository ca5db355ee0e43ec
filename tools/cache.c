/* `doorbell cache`: what is kept on disk between processes, and its removal. */
#include <inttypes.h>
#include <string.h>
#include <time.h>

#include "base/bits.h"
#include "cache/cache.h"
#include "base/json.h"
#include "tools/tools.h"

static const char about[] =
    "cache show|clear\n\n"
    "Shows the compiled kernels that are kept for the next process: where, "
    "how many\nand for what; or removes them. BELL_CACHE names another folder, "
    "or is `off`.";

static void
put_kinds(struct json *json, const struct cache_summary *summary)
{
    uint32_t i;

    json_array(json, "targets");
    for (i = 0; i < summary->n_kinds; i++) {
        const struct cache_kind *kind = &summary->kinds[i];
        json_object(json, NULL);
        json_str(json, "target", kind->kind);
        json_uint(json, "n", kind->n);
        json_uint(json, "size_bytes", kind->n_bytes);
        json_end(json);
    }
    json_end(json);
}

static int
print_cache_json(const struct cache *cache, const struct cache_summary *summary,
                 bool cleared)
{
    bool is_on = cache->folder[0] != '\0';
    struct json json;

    json_init(&json);
    json_bool(&json, "is_on", is_on);
    if (is_on) {
        json_str(&json, "folder", cache->folder);
        json_str(&json, "file", cache->file);
        json_null(&json, "why_off");
    } else {
        json_null(&json, "folder");
        json_null(&json, "file");
        json_str(&json, "why_off", cache->why_off);
    }
    json_bool(&json, "cleared", cleared);
    json_uint(&json, "n", summary->n);
    json_uint(&json, "size_bytes", summary->n_bytes);
    json_uint(&json, "file_bytes", summary->file_bytes);
    json_uint(&json, "max_bytes", cache->max_bytes);
    if (summary->oldest_use_s)
        json_int(&json, "unused_s",
                 (int64_t)time(NULL) - summary->oldest_use_s);
    else
        json_null(&json, "unused_s");
    put_kinds(&json, summary);
    return tool_print_json(&json);
}

static void
print_cache_text(const struct cache *cache, const struct cache_summary *summary,
                 bool cleared)
{
    uint32_t i;

    if (!cache->folder[0]) {
        tool_printf("off: %s\n", cache->why_off);
        return;
    }
    tool_printf("%s%s: %" PRIu64 " values, %.2f MB of %.0f\n",
                cleared ? "cleared " : "", cache->file, summary->n,
                (double)summary->file_bytes / 1e6,
                (double)cache->max_bytes / 1e6);
    for (i = 0; i < summary->n_kinds; i++)
        tool_printf("  %-44s %6" PRIu64 "  %.2f MB\n", summary->kinds[i].kind,
                    summary->kinds[i].n,
                    (double)summary->kinds[i].n_bytes / 1e6);
}

int
verb_cache(int argc, char **argv)
{
    const char *what = NULL;
    bool json = false, clear;
    const struct tool_opt opts[] = {
        {"WHAT", NULL, TOOL_OPT_STRING, &what, 0, 0, "show, or clear"},
        TOOL_JSON_OPT(&json),
    };
    struct cache_summary summary;
    struct cache cache;
    bell_status status;
    int code;

    code = tool_parse(about, opts, ARRAY_LEN(opts), argc, argv);
    if (code != TOOL_GO_ON)
        return code;
    clear = what && strcmp(what, "clear") == 0;
    if (!what || (!clear && strcmp(what, "show") != 0))
        return tool_usage(json, "cache: what? show, or clear");
    cache_init(&cache);
    /* what is damaged is cleared without a look at it */
    status = cache_summarize(&cache, &summary);
    if (clear)
        status = cache_clear(&cache);
    if (status != BELL_OK)
        return tool_fail(json, status);
    if (json)
        return print_cache_json(&cache, &summary, clear);
    print_cache_text(&cache, &summary, clear);
    return TOOL_OK;
}
