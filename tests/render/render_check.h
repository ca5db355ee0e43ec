/* What the cases of this folder need: renderers to run programs with, and the
 * comparison with the interpreter of programs.
 *
 * A case is written once and runs with each of the backends; what one of
 * them leaves to decompositions it says here. A failure fails the test, naming
 * `what`.
 */
#ifndef BELL_TESTS_RENDER_RENDER_CHECK_H
#define BELL_TESTS_RENDER_RENDER_CHECK_H

#include "host_run.h"
#include "p_interp.h"

#define CHECK_MAX_BUFS 8

struct backend {
    const char *name;
    /* What it makes code for: "gfx942". Programs run on the first n_first of
     * them and on one of the others in turn. The rest, up to n_targets, differs
     * only in what lowering makes for it. */
    const char *const *chips;
    unsigned n_chips, n_first, n_targets;
    bool is_gpu;
    bool lacks_f64;            /* cases leave out what has float64 */
    bool flushes;              /* as p_run_flushing has it */
    uint32_t max_shared_bytes; /* of a work-group; 0: as much as cases want */
    /* Looks whether the machine can run its programs; NULL: every one can. */
    bool (*open)(void);
    unsigned thin; /* as it takes long to compile and run: of many that are
                    * alike, cases take one in so many */
    /* Whether programs may hold it; what is asked is a program's at all. */
    bool (*has_alu)(enum uop_op op, enum uop_dtype dtype);
    bool (*has_cast)(enum uop_dtype from, enum uop_dtype to);
    bell_status (*lower_target)(unsigned chip, struct lower_target *out);
    /* The renderer's bytes: text or an object. */
    bell_status (*render)(const struct lower_program *p, unsigned chip,
                          struct render_binary *out);
    /* Runs all of the grid on the buffers; VARs are the int64s of `vars`. */
    void (*run)(const struct lower_program *p, unsigned chip,
                const struct p_buf *bufs, uint32_t n_bufs, const int64_t *vars,
                const char *what);
    /* Makes code for a chip, and looks at it. Assemblers that take long get
     * all that was kept at the end: finish, which says what it did. */
    void (*keep)(const struct lower_program *p, unsigned chip,
                 const char *what);
    void (*finish)(void);
};

extern const struct backend backend_host, backend_amdgpu, backend_ptx,
    backend_ir3, backend_cl;
/* The one that this process tests. */
extern const struct backend *backend;

/* Groups of cases; each returns how many failed. */
int ops_cases(void);
/* n random programs alone. */
int random_cases(uint64_t n);
int memory_cases(void);
int kernel_cases(void);

/* Whether a program of any target may have the op on the dtype as it is. */
bool alu_is_kept(enum uop_op op, enum uop_dtype dtype);

/* A buffer of `n` elements, random if there is an `rng`, zeros if not. The
 * memory after its last element cannot be touched. */
void check_buf(struct p_buf *buf, unsigned dtype, size_t n, uint64_t *rng);
void check_bufs_free(struct p_buf *bufs, uint32_t n);
void check_bufs_copy(struct p_buf *to, const struct p_buf *from, uint32_t n);

/* Can the backend's chips hold what is in it? Cases leave others out. */
bool check_can(const struct backend *b, const struct lower_program *p);

/* Makes code for every chip. */
void check_keep(const struct lower_program *p, const char *what);
/* The chips that a program runs on this time; how many they are. */
unsigned check_chips(const struct backend *b, unsigned chips[8]);

/* Runs the program with the backend and with p_run, on copies of the buffers,
 * and compares all of them bit for bit. */
void check_program(const struct backend *b, const struct lower_program *p,
                   const struct p_buf *bufs, uint32_t n_bufs, const char *what);
/* The same with the program of a list of roots, on `backend`. With `keep`,
 * every chip's code is made too. */
void check_roots(struct uop_graph *g, const struct uop *const *roots,
                 uint32_t n, const struct p_buf *bufs, uint32_t n_bufs,
                 bool keep, const char *what);

#endif
