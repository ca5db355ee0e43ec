/* Lists a GGUF file, and multiplies by one of its matrices as it is there.
 * usage: gguf FILE.gguf [MATRIX] */
#include <doorbell/files.h>
#include <doorbell/jit.h>
#include <stdio.h>

static void
list(const struct bell_file *file)
{
    const char *family;
    size_t n;

    if (bell_file_str(file, "general.architecture", &family, &n))
        printf("a model of the family %.*s\n", (int)n, family);
    for (uint32_t i = 0; i < bell_file_count(file); i++) {
        const struct bell_file_entry *e = bell_file_at(file, i);

        printf("%s %s", e->name, e->type);
        for (uint32_t k = 0; k < e->ndim; k++)
            printf("%s%lld", k ? "x" : " ", (long long)e->shape[k]);
        printf(" %llu bytes\n", (unsigned long long)e->size_bytes);
    }
}

/* x @ w^T. Captured once; what its kernels read of w are the file's blocks. */
static bell_status
multiply(struct bell_context *ctx, void *user, struct bell_tensor *const *in,
         struct bell_tensor **out)
{
    (void)ctx;
    out[0] = bell_linear(in[0], user, NULL);
    return BELL_OK;
}

static bell_status
run(struct bell_context *ctx, struct bell_tensor *w)
{
    const struct bell_jit_desc desc = {.struct_size = sizeof(desc),
                                       .name = "multiply",
                                       .fn = multiply,
                                       .user = w,
                                       .n_in = 1,
                                       .n_out = 1};
    struct bell_tensor *x, *y;
    struct bell_jit_info info = {.struct_size = sizeof(info)};
    struct bell_jit *jit;
    bell_status status = bell_jit_create(ctx, &desc, &jit);
    double sum = 0;

    if (status != BELL_OK)
        return status;
    x = bell_ones(ctx, BELL_DIMS(1, bell_size(w, 1)), BELL_FLOAT32);
    status = bell_jit_call(jit, &x, &y);
    if (status == BELL_OK)
        status = bell_item_f64(bell_sum(y, BELL_NO_DIMS, false), &sum);
    bell_jit_get_info(jit, &info);
    if (status == BELL_OK)
        printf("all its elements: %.8g; %.2f bits in memory for each\n", sum,
               8.0 * (double)info.held_bytes / (double)bell_numel(w));
    bell_jit_destroy(jit);
    return status;
}

int
main(int argc, char **argv)
{
    struct bell_context *ctx = NULL;
    struct bell_file *file = NULL;
    bell_status status;

    if (argc < 2) {
        fprintf(stderr, "usage: gguf FILE.gguf [MATRIX]\n");
        return 2;
    }
    status = bell_file_open(argv[1], &file);
    if (status == BELL_OK)
        list(file);
    if (status == BELL_OK && argc > 2)
        status = bell_context_create(NULL, &ctx);
    if (status == BELL_OK && argc > 2)
        status = run(ctx, bell_file_tensor(ctx, file, argv[2]));
    if (status != BELL_OK)
        fprintf(stderr, "%s\n", bell_error_last()->message);
    bell_file_close(file);
    bell_context_destroy(ctx);
    return bell_status_exit_code(status);
}
