/* The file, by sqlite3 in WAL mode.
 *
 * Beside it lies a file for flock: shared for a call that uses the database,
 * exclusive to make, replace or remove it. So a database is never taken from
 * under somebody who has it open, which sqlite3 could not bear, and a process
 * that is killed leaves no lock.
 *
 * Nothing is synchronised to the disk: what a killed process wrote is the
 * kernel's, and after a loss of power checksums and sqlite3 itself tell what is
 * damaged.
 *
 * Columns: id (of the key), sum (of the row), used (seconds), size (of key and
 * value), kind, key, value. The columns that are looked through come before the
 * bytes.
 */
#include "cache/cache_internal.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <sqlite3.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "base/log.h"
#include "base/map.h"
#include "base/process.h"
#include "base/thread.h"

/* Another number, another file: versions live beside each other. */
#define FORMAT         1
#define FILE_START     "kernels-"
#define FILE_NAME      FILE_START "1.db"
#define MAX_BYTES      (256ull << 20)
#define LOCK_WAIT_NS   300000000u
#define CHANGE_WAIT_NS 3000000000u
#define BUSY_WAIT_MS   300
#define USED_STEP_S    3600 /* how exactly the last use is known */

/* The process's state: one call at a time, and the data that a child must not
 * go on with. */
static struct {
    pthread_mutex_t lock;
    int fd; /* of the call under way: the file for flock; else -1 */
    bool is_under_way, is_lost;
} cache_call = {PTHREAD_MUTEX_INITIALIZER, -1, false, false};

/* sqlite3 may be in the middle of anything: such a child has no cache. */
static void
leave_call(void)
{
    cache_call.is_lost |= cache_call.is_under_way;
    if (cache_call.fd >= 0)
        close(cache_call.fd); /* or the child would hold the lock */
    cache_call.fd = -1;
    pthread_mutex_init(&cache_call.lock, NULL);
}

__attribute__((constructor)) static void
watch_forks(void)
{
    process_in_child(leave_call);
}

void
cache_init(struct cache *out_cache)
{
    memset(out_cache, 0, sizeof(*out_cache));
    out_cache->max_bytes = MAX_BYTES;
    cache_find_folder(out_cache);
    if (out_cache->folder[0])
        snprintf(out_cache->file, sizeof(out_cache->file), "%.*s/" FILE_NAME,
                 CACHE_PATH_MAX - 32, out_cache->folder);
}

/* ---- locks ---- */

/* A path beside the database. */
static const char *
beside(const struct cache *cache, const char *name, char *buf, size_t size)
{
    snprintf(buf, size, "%.*s/%s", CACHE_PATH_MAX - 32, cache->folder, name);
    return buf;
}

static void
unlock(void)
{
    if (cache_call.fd >= 0)
        close(cache_call.fd);
    cache_call.fd = -1;
}

/* `how`: LOCK_SH or LOCK_EX. False: not now, or not at all (errno). */
static bool
lock(struct cache *cache, int how, uint64_t wait_ns)
{
    uint64_t end = time_now_ns() + wait_ns;
    const struct timespec step = {0, 2000000};
    char path[CACHE_PATH_MAX];

    assert(cache_call.fd < 0);
    cache_call.fd =
        open(beside(cache, "lock", path, sizeof(path)),
             O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
    if (cache_call.fd < 0)
        return false;
    while (flock(cache_call.fd, how | LOCK_NB) != 0) {
        if ((errno != EWOULDBLOCK && errno != EINTR) || time_now_ns() > end) {
            int err = errno;
            unlock();
            errno = err;
            return false;
        }
        nanosleep(&step, NULL);
    }
    return true;
}

/* ---- the database ---- */

/* What a call has open. */
struct session {
    struct cache *cache;
    sqlite3 *db;
    int rc;         /* sqlite3's: the first that was not good */
    bool is_absent; /* there is no file, or it is of another format */
    bool has_bad_row;
    bool writes;
    sigset_t mask; /* of signals, as it was */
    bool had_limit;
};

static bool
is_good(struct session *s, int rc)
{
    if (rc == SQLITE_OK || rc == SQLITE_DONE || rc == SQLITE_ROW)
        return s->rc == SQLITE_OK;
    if (s->rc == SQLITE_OK)
        s->rc = rc;
    return false;
}

static bool
execute(struct session *s, const char *sql)
{
    return s->rc == SQLITE_OK &&
           is_good(s, sqlite3_exec(s->db, sql, NULL, NULL, NULL));
}

static sqlite3_stmt *
prepare(struct session *s, const char *sql)
{
    sqlite3_stmt *stmt = NULL;

    if (s->rc == SQLITE_OK)
        is_good(s, sqlite3_prepare_v2(s->db, sql, -1, &stmt, NULL));
    return stmt;
}

/* The only number of the only row; 0 where that failed. */
static int64_t
number_of(struct session *s, const char *sql)
{
    sqlite3_stmt *stmt = prepare(s, sql);
    int64_t n = 0;

    if (stmt && is_good(s, sqlite3_step(stmt)))
        n = sqlite3_column_int64(stmt, 0);
    sqlite3_finalize(stmt);
    return n;
}

/* A limit on files' sizes is told by a signal that ends programs: not by ours.
 */
static void
hold_signal(struct session *s)
{
    sigset_t limit, pending;

    sigemptyset(&limit);
    sigaddset(&limit, SIGXFSZ);
    sigpending(&pending);
    s->had_limit = sigismember(&pending, SIGXFSZ) == 1;
    pthread_sigmask(SIG_BLOCK, &limit, &s->mask);
}

static void
release_signal(struct session *s)
{
    const struct timespec now = {0, 0};
    sigset_t limit;

    sigemptyset(&limit);
    sigaddset(&limit, SIGXFSZ);
    if (!s->had_limit)
        (void)sigtimedwait(&limit, NULL, &now);
    pthread_sigmask(SIG_SETMASK, &s->mask, NULL);
}

/* Its name as a URI: what may not stand in one is written in hexadecimal. */
static void
name_uri(const struct cache *cache, char *out, size_t size)
{
    size_t at = (size_t)snprintf(out, size, "file:");
    const char *c;

    for (c = cache->file; *c && at + 4 < size; c++) {
        bool plain = (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') ||
                     (*c >= '0' && *c <= '9') || strchr("/._-", *c);
        at += (size_t)snprintf(out + at, size - at, plain ? "%c" : "%%%02X",
                               plain ? *c : (unsigned char)*c);
    }
    if (cache->is_readonly)
        snprintf(out + at, size - at, "?immutable=1");
}

static void
connect_file(struct session *s)
{
    char uri[3 * CACHE_PATH_MAX + 64];
    int flags = SQLITE_OPEN_URI | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_NOFOLLOW;

    flags |=
        s->cache->is_readonly ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE;
    name_uri(s->cache, uri, sizeof(uri));
    if (!is_good(s, sqlite3_open_v2(uri, &s->db, flags, NULL)))
        return;
    sqlite3_busy_timeout(s->db, BUSY_WAIT_MS);
    sqlite3_db_config(s->db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
    sqlite3_db_config(s->db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
    execute(s, "PRAGMA synchronous=OFF; PRAGMA cell_size_check=ON; "
               "PRAGMA temp_store=MEMORY; PRAGMA mmap_size=0");
}

static void
disconnect(struct session *s)
{
    sqlite3_close(s->db);
    s->db = NULL;
}

/* The database and what sqlite3 has beside it. */
static void
remove_files(const struct cache *cache)
{
    static const char *const names[] = {FILE_NAME, FILE_NAME "-wal",
                                        FILE_NAME "-shm", FILE_NAME "-journal"};
    char path[CACHE_PATH_MAX];
    size_t i;

    for (i = 0; i < ARRAY_LEN(names); i++)
        unlink(beside(cache, names[i], path, sizeof(path)));
}

/* An empty one. Nobody else has it open. */
static void
create(struct session *s)
{
    int fd;

    remove_files(s->cache);
    fd = open(s->cache->file, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0) {
        is_good(s, errno == ENOSPC || errno == EDQUOT ? SQLITE_FULL
                                                      : SQLITE_CANTOPEN);
        return;
    }
    close(fd);
    connect_file(s);
    execute(s, "PRAGMA journal_mode=WAL");
    execute(s, "BEGIN; "
               "CREATE TABLE kernel(id INTEGER PRIMARY KEY, sum INTEGER, "
               "used INTEGER, size INTEGER, kind TEXT, key BLOB, "
               "value BLOB); PRAGMA user_version=1; COMMIT");
    static_assert(FORMAT == 1, "user_version above");
    disconnect(s);
}

/* Is there one of ours? */
static bool
look(struct session *s)
{
    s->is_absent = access(s->cache->file, F_OK) != 0;
    if (s->is_absent)
        return false;
    if (!cache_file_is_own(s->cache->file)) {
        s->is_absent = true; /* whatever it is, it goes */
        return false;
    }
    connect_file(s);
    if (number_of(s, "PRAGMA user_version") == FORMAT)
        return true;
    s->is_absent = s->rc == SQLITE_OK;
    return false;
}

/* A new one, unless somebody else just made it. `damaged`: what is there is no
 * good even if it looks well. */
static bool
renew(struct session *s, bool damaged)
{
    disconnect(s);
    unlock();
    s->rc = SQLITE_OK;
    if (!lock(s->cache, LOCK_EX, CHANGE_WAIT_NS))
        return is_good(s, SQLITE_BUSY);
    if (!damaged && look(s)) {
        disconnect(s);
    } else {
        disconnect(s);
        if (s->rc == SQLITE_OK || s->rc == SQLITE_NOTADB ||
            s->rc == SQLITE_CORRUPT) {
            s->rc = SQLITE_OK;
            create(s);
        }
    }
    unlock();
    if (s->rc == SQLITE_OK && !lock(s->cache, LOCK_SH, LOCK_WAIT_NS))
        return is_good(s, SQLITE_BUSY);
    if (s->rc == SQLITE_OK && !look(s))
        is_good(s, SQLITE_BUSY); /* gone again */
    return s->rc == SQLITE_OK;
}

static bool
is_damage(const struct cache *cache, int rc)
{
    switch (rc & 0xff) {
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
    case SQLITE_ERROR: /* no such table, or column */
    case SQLITE_MISMATCH:
    case SQLITE_CONSTRAINT:
    case SQLITE_SCHEMA:
    case SQLITE_TOOBIG:
        return true;
    case SQLITE_READONLY: /* says its header */
        return access(cache->file, W_OK) == 0;
    default:
        return false;
    }
}

/* True with the database open; else nothing is there, or it cannot be had:
 * session_end tells. */
static bool
session_begin(struct session *s, struct cache *cache, bool writes)
{
    memset(s, 0, sizeof(*s));
    s->cache = cache;
    s->writes = writes;
    pthread_mutex_lock(&cache_call.lock);
    cache_call.is_under_way = true;
    hold_signal(s);
    if (cache_call.is_lost || !cache->folder[0])
        return false;
    if (!lock(cache, LOCK_SH, LOCK_WAIT_NS)) {
        if (errno == EROFS || errno == EACCES || errno == EPERM)
            cache->is_readonly = true;
        else
            return is_good(s, errno == ENOSPC || errno == EDQUOT ? SQLITE_FULL
                              : errno == EWOULDBLOCK             ? SQLITE_BUSY
                                                     : SQLITE_CANTOPEN);
    }
    if (look(s))
        return true;
    if (cache->is_readonly)
        return false;
    if (s->is_absent)
        return writes && renew(s, false);
    if (!is_damage(cache, s->rc) || cache->was_renewed)
        return false;
    cache->was_renewed = true;
    cache_say(CACHE_SAID_DAMAGED, "%s is damaged and made anew: %s",
              cache->file, sqlite3_errstr(s->rc));
    return renew(s, true) && writes;
}

/* Says what failed, and goes without: of what is damaged there will be a new
 * one, on a disk that is full nothing more is kept. */
static void
judge(struct session *s)
{
    struct cache *cache = s->cache;

    if (s->rc == SQLITE_OK)
        return;
    if ((s->rc & 0xff) == SQLITE_BUSY || (s->rc & 0xff) == SQLITE_LOCKED ||
        (s->rc & 0xff) == SQLITE_NOMEM) {
        LOG(LOG_CACHE, "%s: %s", cache->file, sqlite3_errstr(s->rc));
    } else if (is_damage(cache, s->rc) && !cache->is_readonly &&
               !cache->was_renewed) {
        cache->was_renewed = true;
        cache_say(CACHE_SAID_DAMAGED, "%s is damaged and made anew: %s",
                  cache->file, sqlite3_errstr(s->rc));
        (void)renew(s, true);
    } else if (!cache->keeps_nothing) {
        cache->keeps_nothing = true;
        cache_say(CACHE_SAID_FAILED, "%s: %s; nothing more is kept",
                  cache->file, sqlite3_errstr(s->rc));
    }
}

static void
session_end(struct session *s)
{
    if (s->db && s->rc != SQLITE_OK && !sqlite3_get_autocommit(s->db))
        sqlite3_exec(s->db, "ROLLBACK", NULL, NULL, NULL);
    if (s->db && s->rc != SQLITE_OK)
        LOG(LOG_CACHE, "%s: %s", s->cache->file, sqlite3_errmsg(s->db));
    disconnect(s);
    judge(s);
    disconnect(s);
    unlock();
    release_signal(s);
    cache_call.is_under_way = false;
    pthread_mutex_unlock(&cache_call.lock);
}

/* ---- rows ---- */

static int64_t
id_of(const struct cache_entry *entry)
{
    return (int64_t)hash_bytes(entry->key, entry->key_bytes, 0);
}

/* Any one word that differs makes another sum. */
static int64_t
sum_of(const struct cache_entry *entry)
{
    uint64_t sum = hash_bytes(entry->key, entry->key_bytes, FORMAT);

    sum = hash_bytes(entry->kind, strlen(entry->kind), sum);
    return (int64_t)hash_bytes(entry->value, entry->value_bytes, sum);
}

/* Is column `column` these bytes? */
static bool
is_same(sqlite3_stmt *stmt, int column, const void *bytes, size_t n)
{
    const void *found = sqlite3_column_blob(stmt, column);

    return found && (size_t)sqlite3_column_bytes(stmt, column) == n &&
           memcmp(found, bytes, n) == 0;
}

static void
remove_row(struct session *s, int64_t id)
{
    sqlite3_stmt *stmt;

    if (s->cache->is_readonly)
        return;
    stmt = prepare(s, "DELETE FROM kernel WHERE id=?");
    if (stmt) {
        sqlite3_bind_int64(stmt, 1, id);
        is_good(s, sqlite3_step(stmt));
    }
    sqlite3_finalize(stmt);
}

/* Columns: sum, used, key, value. Another key of the same id is simply not
 * found. *out_stale: the last use is long ago. */
static void
read_row(struct session *s, sqlite3_stmt *stmt, struct cache_entry *entry,
         bool *out_stale)
{
    struct cache_entry found = *entry;
    const void *value;

    if (!is_same(stmt, 2, entry->key, entry->key_bytes)) {
        LOG(LOG_CACHE, "%s: another key, or a damaged one", entry->kind);
        return;
    }
    value = sqlite3_column_blob(stmt, 3);
    found.value_bytes = (size_t)sqlite3_column_bytes(stmt, 3);
    found.value = (void *)(uintptr_t)value;
    if (!value || sum_of(&found) != sqlite3_column_int64(stmt, 0)) {
        s->has_bad_row = true;
        cache_say(CACHE_SAID_DAMAGED,
                  "%s: a value for %s is damaged: it is made anew",
                  s->cache->file, entry->kind);
        return;
    }
    entry->value = host_alloc(found.value_bytes);
    if (!entry->value)
        return;
    memcpy(entry->value, value, found.value_bytes);
    entry->value_bytes = found.value_bytes;
    *out_stale = time(NULL) - sqlite3_column_int64(stmt, 1) > USED_STEP_S;
}

/* Where a row is damaged, what holds the rows together may be: two rows may
 * share a page, and spoil each other again and again. */
static void
check_structure(struct session *s)
{
    sqlite3_stmt *stmt;

    if (!s->has_bad_row || s->cache->was_renewed)
        return;
    stmt = prepare(s, "PRAGMA quick_check(1)");
    if (stmt && is_good(s, sqlite3_step(stmt)) && !is_same(stmt, 0, "ok", 2))
        is_good(s, SQLITE_CORRUPT);
    sqlite3_finalize(stmt);
}

/* Notes the use of those that were not used for long. */
static void
touch(struct session *s, const struct cache_entry *entries, const bool *stale,
      size_t n)
{
    sqlite3_stmt *stmt;
    size_t i;

    if (s->cache->is_readonly || s->cache->keeps_nothing || s->rc != SQLITE_OK)
        return;
    execute(s, "BEGIN IMMEDIATE");
    stmt = prepare(s, "UPDATE kernel SET used=? WHERE id=?");
    for (i = 0; stmt && s->rc == SQLITE_OK && i < n; i++) {
        if (!stale[i])
            continue;
        sqlite3_bind_int64(stmt, 1, time(NULL));
        sqlite3_bind_int64(stmt, 2, id_of(&entries[i]));
        is_good(s, sqlite3_step(stmt));
        sqlite3_reset(stmt);
    }
    sqlite3_finalize(stmt);
    execute(s, "COMMIT");
}

void
cache_find(struct cache *cache, struct cache_entry *entries, size_t n)
{
    bool *stale, any = false;
    struct session s;
    sqlite3_stmt *stmt;
    size_t i;

    if (!cache->folder[0] || n == 0)
        return;
    stale = host_calloc(n, sizeof(*stale));
    if (!stale)
        return;
    if (session_begin(&s, cache, false)) {
        stmt = prepare(&s, "SELECT sum,used,key,value FROM kernel WHERE id=?");
        for (i = 0; stmt && s.rc == SQLITE_OK && i < n; i++) {
            int rc;
            if (entries[i].value)
                continue;
            sqlite3_bind_int64(stmt, 1, id_of(&entries[i]));
            rc = sqlite3_step(stmt);
            if (is_good(&s, rc) && rc == SQLITE_ROW)
                read_row(&s, stmt, &entries[i], &stale[i]);
            any |= stale[i];
            sqlite3_reset(stmt);
        }
        sqlite3_finalize(stmt);
        if (any)
            touch(&s, entries, stale, n);
        check_structure(&s);
    }
    session_end(&s);
    host_free(stale);
}

/* ---- keeping ---- */

/* Room for so many bytes more: those unused for longest go, a quarter of all at
 * once. */
static void
make_room(struct session *s, uint64_t bytes)
{
    uint64_t max = s->cache->max_bytes, in_use;
    sqlite3_stmt *stmt;

    in_use = (uint64_t)(number_of(s, "PRAGMA page_count") -
                        number_of(s, "PRAGMA freelist_count")) *
             (uint64_t)number_of(s, "PRAGMA page_size");
    if (s->rc != SQLITE_OK || in_use + bytes <= max)
        return;
    LOG(LOG_CACHE, "%s: %llu bytes, what was not used for longest goes",
        s->cache->file, (unsigned long long)in_use);
    stmt = prepare(
        s, "DELETE FROM kernel WHERE id IN (SELECT id FROM (SELECT id, size, "
           "total(size) OVER (ORDER BY used, id ROWS UNBOUNDED PRECEDING) AS "
           "so_far FROM kernel) WHERE so_far - size < ?)");
    if (stmt) {
        sqlite3_bind_int64(stmt, 1, (int64_t)(in_use + bytes - max + max / 4));
        is_good(s, sqlite3_step(stmt));
    }
    sqlite3_finalize(stmt);
}

static void
write_row(struct session *s, sqlite3_stmt *stmt,
          const struct cache_entry *entry)
{
    sqlite3_bind_int64(stmt, 1, id_of(entry));
    sqlite3_bind_int64(stmt, 2, sum_of(entry));
    sqlite3_bind_int64(stmt, 3, time(NULL));
    sqlite3_bind_int64(stmt, 4,
                       (int64_t)(entry->key_bytes + entry->value_bytes));
    sqlite3_bind_text(stmt, 5, entry->kind, -1, SQLITE_STATIC);
    sqlite3_bind_blob64(stmt, 6, entry->key, entry->key_bytes, SQLITE_STATIC);
    sqlite3_bind_blob64(stmt, 7, entry->value, entry->value_bytes,
                        SQLITE_STATIC);
    is_good(s, sqlite3_step(stmt));
    sqlite3_reset(stmt);
}

/* One that is larger would drive out too many others. */
static bool
may_keep(const struct cache *cache, const struct cache_entry *entry)
{
    return entry->value &&
           entry->key_bytes + entry->value_bytes <= cache->max_bytes / 8;
}

void
cache_keep(struct cache *cache, const struct cache_entry *entries, size_t n)
{
    uint64_t bytes = 0;
    struct session s;
    sqlite3_stmt *stmt;
    size_t i;

    for (i = 0; i < n; i++) {
        if (may_keep(cache, &entries[i]))
            bytes += entries[i].key_bytes + entries[i].value_bytes;
    }
    if (!cache->folder[0] || cache->keeps_nothing || bytes == 0)
        return;
    if (session_begin(&s, cache, true) && !cache->is_readonly) {
        execute(&s, "BEGIN IMMEDIATE");
        make_room(&s, bytes);
        stmt = prepare(&s, "INSERT OR REPLACE INTO kernel(id,sum,used,size,"
                           "kind,key,value) VALUES(?,?,?,?,?,?,?)");
        for (i = 0; stmt && s.rc == SQLITE_OK && i < n; i++) {
            if (may_keep(cache, &entries[i]))
                write_row(&s, stmt, &entries[i]);
        }
        sqlite3_finalize(stmt);
        execute(&s, "COMMIT");
    } else if (cache->is_readonly) {
        cache->keeps_nothing = true;
        cache_say(CACHE_SAID_FAILED,
                  "%s cannot be written: nothing more is kept", cache->folder);
    }
    session_end(&s);
}

void
cache_drop(struct cache *cache, const struct cache_entry *entry)
{
    struct session s;

    if (!cache->folder[0])
        return;
    cache_say(CACHE_SAID_DAMAGED,
              "%s: a value for %s cannot be used: it is made anew", cache->file,
              entry->kind);
    if (session_begin(&s, cache, false))
        remove_row(&s, id_of(entry));
    session_end(&s);
}

/* ---- looking, clearing ---- */

bell_status
cache_summarize(struct cache *cache, struct cache_summary *out_summary)
{
    struct cache_summary *sum = out_summary;
    struct session s;
    sqlite3_stmt *stmt;
    struct stat st;

    memset(sum, 0, sizeof(*sum));
    if (!cache->folder[0])
        return BELL_OK;
    if (session_begin(&s, cache, false)) {
        stmt = prepare(&s, "SELECT kind, count(*), total(size), min(used) FROM "
                           "kernel GROUP BY kind ORDER BY 3 DESC, 1");
        while (stmt && is_good(&s, sqlite3_step(stmt)) &&
               sqlite3_data_count(stmt)) {
            const char *kind = (const char *)sqlite3_column_text(stmt, 0);
            struct cache_kind row = {
                .n = (uint64_t)sqlite3_column_int64(stmt, 1),
                .n_bytes = (uint64_t)sqlite3_column_int64(stmt, 2),
            };
            int64_t used = sqlite3_column_int64(stmt, 3);
            snprintf(row.kind, sizeof(row.kind), "%s", kind ? kind : "");
            sum->n += row.n;
            sum->n_bytes += row.n_bytes;
            if (sum->oldest_use_s == 0 || used < sum->oldest_use_s)
                sum->oldest_use_s = used;
            if (sum->n_kinds < CACHE_KINDS_MAX)
                sum->kinds[sum->n_kinds++] = row;
        }
        sqlite3_finalize(stmt);
    }
    session_end(&s);
    if (stat(cache->file, &st) == 0)
        sum->file_bytes = (uint64_t)st.st_size;
    if (s.rc != SQLITE_OK)
        return bell_fail(BELL_E_IO, "%s: %s", cache->file,
                         sqlite3_errstr(s.rc));
    return BELL_OK;
}

/* Those of other versions have names like ours. */
static bell_status
remove_all(const struct cache *cache)
{
    bell_status status = BELL_OK;
    DIR *folder = opendir(cache->folder);
    const struct dirent *entry;

    if (!folder)
        return bell_fail_errno(BELL_E_IO, errno, "%s: %s", cache->folder,
                               strerror(errno));
    while ((entry = readdir(folder)) != NULL) {
        if (strncmp(entry->d_name, FILE_START, strlen(FILE_START)) == 0 &&
            unlinkat(dirfd(folder), entry->d_name, 0) != 0)
            status =
                bell_fail_errno(BELL_E_IO, errno, "removing %s/%s: %s",
                                cache->folder, entry->d_name, strerror(errno));
    }
    closedir(folder);
    return status;
}

bell_status
cache_clear(struct cache *cache)
{
    bell_status status;

    if (!cache->folder[0])
        return BELL_OK;
    pthread_mutex_lock(&cache_call.lock);
    if (lock(cache, LOCK_EX, CHANGE_WAIT_NS))
        status = remove_all(cache);
    else if (errno == EWOULDBLOCK)
        status =
            bell_fail(BELL_E_TIMEOUT, "%s is in use: try again", cache->folder);
    else
        status = bell_fail_errno(BELL_E_IO, errno, "%s: %s", cache->folder,
                                 strerror(errno));
    unlock();
    pthread_mutex_unlock(&cache_call.lock);
    return status;
}
