/* The weights of an ONNX model as a file of tensors: what its graph
 * initializes, by name. */
#include <string.h>

#include "base/alloc.h"
#include "tensor/files/files.h"
#include "tensor/onnx/graph.h"

bool
file_is_onnx(const struct bell_file *file)
{
    size_t n = strlen(file->path);

    /* a protobuf has no magic; its first field is the IR's version */
    return n > 5 && strcmp(file->path + n - 5, ".onnx") == 0 &&
           file->data[0] == 8;
}

static BELL_MUST_CHECK bell_status
add_initializer(struct bell_file *file, const struct onnx_tensor *t)
{
    const struct file_type_info *info = file_plain_type(onnx_dtype(t->type));
    struct file_tensor tensor = {
        .info = t->data ? info : &file_no_type,
        .base = t->data ? t->data : file->data,
        .base_bytes = t->data ? t->size_bytes : 0,
        .entry = {.type = onnx_type_name(t->type),
                  .dtype = t->data ? info->dtype : BELL_DEFAULT,
                  .ndim = t->ndim,
                  .size_bytes = t->data ? t->size_bytes : 0},
    };

    memcpy(tensor.entry.shape, t->dims, t->ndim * sizeof(*t->dims));
    tensor.entry.name = host_strdup(t->name);
    if (!tensor.entry.name)
        return bell_fail(BELL_E_NO_MEMORY, "%s: out of memory for a name",
                         file->path);
    return file_add_tensor(file, &tensor);
}

bell_status
file_read_onnx(struct bell_file *file)
{
    const struct onnx_graph *graph;
    uint32_t i;

    BELL_TRY(onnx_model_read(file->path, &file->onnx));
    graph = &file->onnx->graph;
    for (i = 0; i < graph->n_weights; i++) {
        if (*graph->weights[i].name)
            BELL_TRY(add_initializer(file, &graph->weights[i]));
    }
    return BELL_OK;
}

void
file_free_onnx(struct bell_file *file)
{
    if (file->onnx)
        onnx_model_release(file->onnx);
}
