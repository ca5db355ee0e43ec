/* Looking up and reading the describing tables. Knows which family of calls
 * each device kind understands; the families' rows are data.
 * src: docs/hardware/nvidia-kernel.md, "Calls": how NVIDIA's request numbers
 * are built.
 */
#include "ioctl/kio_desc.h"

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/bits.h"
#include "ioctl/amdkfd_tables.h"
#include "ioctl/kgsl_tables.h"
#include "ioctl/msm_tables.h"
#include "ioctl/nv_tables.h"

/* Linux' request numbers: number 7:0, type 15:8, size 29:16. */
#define REQUEST_NR(r)    ((uint32_t)(r)&0xffu)
#define REQUEST_TYPE(r)  ((uint32_t)((r) >> 8) & 0xffu)
#define REQUEST_SIZE(r)  ((uint32_t)((r) >> 16) & 0x3fffu)
#define NV_REQUEST_TYPE  0x46u
#define KFD_REQUEST_TYPE 0x4bu
#define DRM_REQUEST_TYPE 0x64u

/* ---- devices ---------------------------------------------------------- */

static const struct {
    const char *prefix;
    uint8_t dev;
    bool digit_follows;
} nodes[] = {
    {"/dev/nvidiactl", KIO_DEV_NV_CTL, false},
    {"/dev/nvidia-uvm", KIO_DEV_NV_UVM, false},
    {"/dev/nvidia", KIO_DEV_NV_GPU, true},
    {"/dev/kfd", KIO_DEV_KFD, false},
    {"/dev/dri/renderD", KIO_DEV_DRM, true},
    {"/dev/kgsl", KIO_DEV_KGSL, false},
};

enum kio_dev
kio_dev_of_path(const char *path)
{
    size_t i;

    for (i = 0; i < ARRAY_LEN(nodes); i++) {
        size_t n = strlen(nodes[i].prefix);
        if (strncmp(path, nodes[i].prefix, n) == 0 &&
            (!nodes[i].digit_follows || (path[n] >= '0' && path[n] <= '9')))
            return (enum kio_dev)nodes[i].dev;
    }
    return KIO_DEV_OTHER;
}

const char *
kio_dev_name(enum kio_dev dev)
{
    static const char *const names[KIO_DEV_COUNT] = {
        "file", "nvidiactl", "nvidia", "nvidia-uvm", "kfd", "dri", "kgsl",
    };

    return (unsigned)dev < KIO_DEV_COUNT ? names[dev] : "unknown";
}

/* ---- numbers ---------------------------------------------------------- */

/* The first row with this number, or NULL. */
static const struct kio_number *
find_number(const struct kio_number *rows, uint32_t n_rows, uint32_t number)
{
    uint32_t lo = 0, hi = n_rows;

    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;
        if (rows[mid].number < number)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < n_rows && rows[lo].number == number ? &rows[lo] : NULL;
}

const struct kio_struct *
kio_struct_of(const struct kio_structs *structs, int64_t struct_id,
              uint32_t branch)
{
    const struct kio_layouts *l;

    if (struct_id < 0 || struct_id >= structs->n_structs || branch >= 16)
        return NULL;
    l = &structs->layouts[struct_id];
    if (!(l->has >> branch & 1u))
        return NULL;
    return &structs->descs[l->first] +
           __builtin_popcount(l->starts & ((2u << branch) - 1)) - 1;
}

static const struct kio_struct *
struct_of(int32_t id, uint32_t branch)
{
    return kio_struct_of(&nv_structs, id, branch);
}

/* Among the rows of one escape number, the one whose struct has this size;
 * the first if none has. */
static const struct kio_number *
desc_find_escape(uint32_t number, uint32_t size_bytes, uint32_t branch)
{
    const struct kio_number *row, *end = nv_escape_rows + nv_n_escape_rows, *r;

    row = find_number(nv_escape_rows, nv_n_escape_rows, number);
    for (r = row; r && r < end && r->number == number; r++) {
        const struct kio_struct *desc = struct_of(r->struct_id, branch);
        if (desc && desc->size_bytes == size_bytes)
            return r;
    }
    return row;
}

static void
describe_nv(uint32_t branch, unsigned long request, struct kio_call_desc *out)
{
    const struct kio_number *row;

    out->name = "NV_ESC";
    out->size_bytes = REQUEST_SIZE(request);
    if (REQUEST_TYPE(request) != NV_REQUEST_TYPE)
        return;
    row = desc_find_escape(REQUEST_NR(request), out->size_bytes, branch);
    if (!row)
        return;
    out->known = true;
    out->name = row->name;
    out->waits = row->waits;
    out->args = struct_of(row->struct_id, branch);
}

static void
describe_uvm(uint32_t branch, unsigned long request, struct kio_call_desc *out)
{
    const struct kio_number *row;

    out->name = "UVM";
    if (request > UINT32_MAX)
        return;
    row = find_number(nv_uvm_rows, nv_n_uvm_rows, (uint32_t)request);
    if (!row)
        return;
    out->known = true;
    out->name = row->name;
    out->waits = row->waits;
    out->args = struct_of(row->struct_id, branch);
    out->size_bytes = out->args ? out->args->size_bytes : 0;
}

static void
take_row(const struct kio_number *row, const struct kio_structs *structs,
         struct kio_call_desc *out)
{
    if (!row)
        return;
    out->known = true;
    out->name = row->name;
    out->waits = row->waits;
    out->args = kio_struct_of(structs, row->struct_id, 0);
}

/* Arguments may be shorter than the newest struct. */
static void
describe_kfd(unsigned long request, struct kio_call_desc *out)
{
    out->name = "AMDKFD_IOC";
    out->size_bytes = REQUEST_SIZE(request);
    if (REQUEST_TYPE(request) == KFD_REQUEST_TYPE)
        take_row(find_number(amdkfd_kfd_rows, amdkfd_n_kfd_rows,
                             REQUEST_NR(request)),
                 &amdkfd_structs, out);
}

/* A render node is amdgpu's or msm's; msm's rows are whole requests, none of
 * which is one of amdgpu. */
static void
describe_drm(unsigned long request, struct kio_call_desc *out)
{
    out->name = "DRM_IOCTL";
    out->size_bytes = REQUEST_SIZE(request);
    if (REQUEST_TYPE(request) != DRM_REQUEST_TYPE)
        return;
    take_row(find_number(msm_render_rows, msm_n_render_rows, (uint32_t)request),
             &msm_structs, out);
    if (!out->known)
        take_row(find_number(amdkfd_drm_rows, amdkfd_n_drm_rows,
                             REQUEST_NR(request)),
                 &amdkfd_structs, out);
}

static void
describe_kgsl(unsigned long request, struct kio_call_desc *out)
{
    out->name = "IOCTL_KGSL";
    out->size_bytes = REQUEST_SIZE(request);
    take_row(find_number(kgsl_kgsl_rows, kgsl_n_kgsl_rows, (uint32_t)request),
             &kgsl_structs, out);
}

void
kio_describe(enum kio_dev dev, uint32_t branch, unsigned long request,
             struct kio_call_desc *out_desc)
{
    assert(branch < NV_N_BRANCHES);
    *out_desc = (struct kio_call_desc){.name = "ioctl"};
    switch (dev) {
    case KIO_DEV_NV_CTL:
    case KIO_DEV_NV_GPU:
        describe_nv(branch, request, out_desc);
        return;
    case KIO_DEV_NV_UVM:
        describe_uvm(branch, request, out_desc);
        return;
    case KIO_DEV_KFD:
        describe_kfd(request, out_desc);
        return;
    case KIO_DEV_DRM:
        describe_drm(request, out_desc);
        return;
    case KIO_DEV_KGSL:
        describe_kgsl(request, out_desc);
        return;
    case KIO_DEV_OTHER:
    case KIO_DEV_COUNT:
        break;
    }
    out_desc->size_bytes = REQUEST_SIZE(request);
}

/* ---- pointers --------------------------------------------------------- */

static uint64_t
desc_load(const void *data, uint32_t size_bytes, uint32_t offset, uint32_t each)
{
    uint64_t value = 0;

    if (each > 8 || offset + each > size_bytes)
        return 0;
    memcpy(&value, (const uint8_t *)data + offset, each); /* little endian */
    return value;
}

static uint64_t
desc_load_field(const struct kio_struct *desc, uint32_t index, const void *data,
                uint32_t size_bytes)
{
    const struct kio_field *field;

    assert(index < desc->n_fields);
    field = &desc->fields[index];
    return desc_load(data, size_bytes, field->offset_bytes, field->size_bytes);
}

/* The struct that a pointer always leads to. Among render nodes, msm's alone
 * have such pointers. */
static const struct kio_struct *
pointee_of(enum kio_dev dev, uint32_t branch, int32_t id)
{
    switch (dev) {
    case KIO_DEV_KFD:
        return kio_struct_of(&amdkfd_structs, id, 0);
    case KIO_DEV_DRM:
        return kio_struct_of(&msm_structs, id, 0);
    case KIO_DEV_KGSL:
        return kio_struct_of(&kgsl_structs, id, 0);
    case KIO_DEV_NV_CTL:
    case KIO_DEV_NV_GPU:
    case KIO_DEV_NV_UVM:
    case KIO_DEV_OTHER:
    case KIO_DEV_COUNT:
        break;
    }
    return struct_of(id, branch);
}

const struct kio_struct *
kio_pointee_struct(enum kio_dev dev, uint32_t branch,
                   const struct kio_struct *outer,
                   const struct kio_field *field, const void *outer_data,
                   uint32_t outer_bytes, const char **out_name)
{
    const struct kio_pointee *ptr = kio_pointee_of(outer, field);
    const struct kio_number *row = NULL;
    uint32_t number;

    number = (uint32_t)desc_load_field(outer, ptr->select_field, outer_data,
                                       outer_bytes);
    switch ((enum kio_select)ptr->select) {
    case KIO_SELECT_NONE:
    case KIO_SELECT_PINNED:
        return NULL;
    case KIO_SELECT_STRUCT:
        return pointee_of(dev, branch, ptr->struct_id);
    case KIO_SELECT_CONTROL:
        row = find_number(nv_control_rows, nv_n_control_rows, number);
        break;
    case KIO_SELECT_CLASS:
        row = find_number(nv_class_rows, nv_n_class_rows, number);
        break;
    case KIO_SELECT_ESCAPE:
        row = desc_find_escape(number,
                               (uint32_t)kio_pointee_bytes(
                                   outer, field, outer_data, outer_bytes, NULL),
                               branch);
        break;
    }
    if (!row)
        return NULL;
    *out_name = row->name;
    return struct_of(row->struct_id, branch);
}

uint64_t
kio_pointee_bytes(const struct kio_struct *outer, const struct kio_field *field,
                  const void *outer_data, uint32_t outer_bytes,
                  const struct kio_struct *inner)
{
    const struct kio_pointee *ptr = kio_pointee_of(outer, field);
    uint64_t n;

    if (ptr->select == KIO_SELECT_PINNED)
        return 0;
    if (ptr->length_field == KIO_NO_FIELD)
        return ptr->each_bytes;
    n = desc_load_field(outer, ptr->length_field, outer_data, outer_bytes);
    /* RM copies its own struct's size when an allocation says none.
     * src: docs/hardware/nvidia-kernel.md, "Calls" */
    if (n == 0 && ptr->select == KIO_SELECT_CLASS && inner)
        return inner->size_bytes;
    return n * ptr->each_bytes;
}

/* ---- fields ----------------------------------------------------------- */

const struct kio_field *
kio_struct_field(const struct kio_struct *desc, const char *name)
{
    uint32_t i;

    for (i = 0; i < desc->n_fields; i++) {
        if (strcmp(desc->fields[i].name, name) == 0)
            return &desc->fields[i];
    }
    return NULL;
}

uint64_t
kio_struct_get(const struct kio_struct *desc, const void *data,
               uint32_t size_bytes, const char *name)
{
    const struct kio_field *field = kio_struct_field(desc, name);

    if (!field)
        return 0;
    return desc_load(data, size_bytes, field->offset_bytes, field->each_bytes);
}

bool
kio_struct_put(const struct kio_struct *desc, void *data, uint32_t size_bytes,
               const char *name, uint64_t value)
{
    const struct kio_field *field = kio_struct_field(desc, name);

    if (!field || field->each_bytes > 8 ||
        field->offset_bytes + field->each_bytes > size_bytes)
        return false;
    memcpy((uint8_t *)data + field->offset_bytes, &value, field->each_bytes);
    return true;
}

static bool
is_element(const struct kio_field *field)
{
    return strstr(field->name, "[0].") != NULL;
}

/* Copies the elements' common fields of one array of structs. */
static void
convert_array(const struct kio_struct *from_desc,
              const struct kio_field *from_array, const uint8_t *from,
              const struct kio_struct *to_desc,
              const struct kio_field *to_array, uint8_t *to)
{
    uint32_t n = from_array->size_bytes / from_array->each_bytes;
    uint32_t n_to = to_array->size_bytes / to_array->each_bytes, i, e;
    size_t name_len = strlen(to_array->name);

    assert(from_array->each_bytes > 0 && to_array->each_bytes > 0);
    n = n < n_to ? n : n_to;
    for (i = 0; i < to_desc->n_fields; i++) {
        const struct kio_field *t = &to_desc->fields[i], *f;
        if (strncmp(t->name, to_array->name, name_len) != 0 ||
            strncmp(t->name + name_len, "[0].", 4) != 0)
            continue;
        f = kio_struct_field(from_desc, t->name);
        if (!f || f->size_bytes != t->size_bytes)
            continue;
        for (e = 0; e < n; e++)
            memcpy(to + t->offset_bytes + (size_t)e * to_array->each_bytes,
                   from + f->offset_bytes + (size_t)e * from_array->each_bytes,
                   f->size_bytes);
    }
}

void
kio_struct_convert(const struct kio_struct *from_desc, const void *from,
                   const struct kio_struct *to_desc, void *to)
{
    uint32_t i;

    assert(from != to);
    if (from_desc == to_desc) {
        memcpy(to, from, to_desc->size_bytes);
        return;
    }
    memset(to, 0, to_desc->size_bytes);
    for (i = 0; i < to_desc->n_fields; i++) {
        const struct kio_field *t = &to_desc->fields[i];
        const struct kio_field *f = kio_struct_field(from_desc, t->name);
        uint32_t n;
        if (!f || is_element(t))
            continue;
        if (t->kind == KIO_FIELD_STRUCT) {
            convert_array(from_desc, f, from, to_desc, t, to);
            continue;
        }
        n = f->size_bytes < t->size_bytes ? f->size_bytes : t->size_bytes;
        memcpy((uint8_t *)to + t->offset_bytes,
               (const uint8_t *)from + f->offset_bytes, n);
    }
}

/* ---- printing --------------------------------------------------------- */

/* Text under construction; full is not an error. */
struct text {
    char *buf;
    size_t len, cap;
};

static void desc_add(struct text *text, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

static void
desc_add(struct text *text, const char *fmt, ...)
{
    va_list args;
    int n;

    assert(text->len < text->cap);
    va_start(args, fmt);
    n = vsnprintf(text->buf + text->len, text->cap - text->len, fmt, args);
    va_end(args);
    if (n > 0)
        text->len += (size_t)n;
    if (text->len >= text->cap)
        text->len = text->cap - 1;
}

static void
add_array(struct text *text, const struct kio_field *field, const uint8_t *data)
{
    uint32_t n = field->size_bytes, i;

    assert(field->each_bytes > 0);
    if (field->kind == KIO_FIELD_TEXT) {
        desc_add(text, "\"%.*s\"", (int)strnlen((const char *)data, n), data);
        return;
    }
    if (field->kind == KIO_FIELD_BYTES || field->each_bytes == 1) {
        for (i = 0; i < n && i < 16; i++)
            desc_add(text, "%02x", data[i]);
        desc_add(text, i < n ? "..." : "");
        return;
    }
    n = field->size_bytes / field->each_bytes;
    for (i = 0; i < n && i < 8; i++)
        desc_add(text, "%s0x%" PRIx64, i ? "," : "[",
                 desc_load(data, field->size_bytes, i * field->each_bytes,
                           field->each_bytes));
    desc_add(text, i < n ? ",...]" : "]");
}

static void
add_value(struct text *text, const struct kio_field *field, const uint8_t *data)
{
    uint64_t value = desc_load(data, field->size_bytes, 0, field->each_bytes);

    if (field->size_bytes != field->each_bytes ||
        field->kind == KIO_FIELD_TEXT || field->kind == KIO_FIELD_BYTES)
        add_array(text, field, data);
    else if (field->kind == KIO_FIELD_INT || field->kind == KIO_FIELD_FD)
        desc_add(text, "%" PRId32, (int32_t)value);
    else if ((field->kind == KIO_FIELD_UINT || field->kind == KIO_FIELD_CLOCK ||
              field->kind == KIO_FIELD_SAMPLE) &&
             value < 0x10000)
        desc_add(text, "%" PRIu64, value);
    else
        desc_add(text, "0x%" PRIx64, value);
}

static bool
desc_is_zero(const uint8_t *data, size_t n)
{
    size_t i;

    for (i = 0; i < n; i++) {
        if (data[i])
            return false;
    }
    return true;
}

size_t
kio_struct_format(const struct kio_struct *desc, const void *data,
                  uint32_t size_bytes, char *buf, size_t buf_bytes)
{
    struct text text = {buf, 0, buf_bytes};
    const uint8_t *bytes = data;
    uint32_t i;

    assert(buf_bytes > 0);
    buf[0] = '\0';
    for (i = 0; i < desc->n_fields; i++) {
        const struct kio_field *field = &desc->fields[i];
        if (field->kind == KIO_FIELD_STRUCT ||
            field->offset_bytes + field->size_bytes > size_bytes ||
            desc_is_zero(bytes + field->offset_bytes, field->size_bytes))
            continue;
        desc_add(&text, "%s%s=", text.len ? " " : "", field->name);
        add_value(&text, field, bytes + field->offset_bytes);
    }
    return text.len;
}

/* ---- differences ------------------------------------------------------ */

struct diff {
    const uint8_t *a, *b;
    uint32_t size_bytes, flags, n_found;
    kio_diff_fn *fn;
    void *user;
};

/* For a field that is a clock now and then: whether the one before it, in the
 * element `at` bytes further on, says so in both. */
static bool
is_sample(const struct diff *diff, const struct kio_field *field, uint32_t at)
{
    const struct kio_field *by = field - 1;
    uint32_t offset = by->offset_bytes + at;

    return desc_load(diff->a, diff->size_bytes, offset, by->each_bytes) ==
               field->ptr &&
           desc_load(diff->b, diff->size_bytes, offset, by->each_bytes) ==
               field->ptr;
}

static bool
value_differs(const struct diff *diff, const struct kio_field *field,
              uint32_t at, uint64_t a, uint64_t b)
{
    if (field->kind == KIO_FIELD_STATUS && diff->flags & KIO_DIFF_REQUEST)
        return false;
    if (field->kind == KIO_FIELD_CLOCK && diff->flags)
        return false;
    if (field->kind == KIO_FIELD_SAMPLE && diff->flags &&
        is_sample(diff, field, at))
        return false;
    if (field->kind == KIO_FIELD_PTR && diff->flags)
        return (a == 0) != (b == 0);
    return a != b;
}

/* Compares one field element by element, shifted by `at` bytes. */
static void
diff_field(struct diff *diff, const struct kio_field *field, uint32_t at,
           const char *name)
{
    uint32_t each = field->each_bytes > 8 ? 8 : field->each_bytes, i, n;
    char label[96];

    n = field->size_bytes / each;
    for (i = 0; i < n; i++) {
        uint32_t offset = field->offset_bytes + at + i * each;
        uint64_t a = desc_load(diff->a, diff->size_bytes, offset, each);
        uint64_t b = desc_load(diff->b, diff->size_bytes, offset, each);
        if (!value_differs(diff, field, at, a, b))
            continue;
        diff->n_found++;
        if (n > 1)
            snprintf(label, sizeof(label), "%s[%u]", name, i);
        else
            snprintf(label, sizeof(label), "%s", name);
        diff->fn(diff->user, label, a, b);
    }
}

/* The elements' fields follow the array's own row. Returns how many rows. */
static uint32_t
diff_array(struct diff *diff, const struct kio_struct *desc, uint32_t array)
{
    const struct kio_field *field = &desc->fields[array];
    uint32_t n = field->size_bytes / field->each_bytes, n_rows = 0, e, i;
    size_t name_len = strlen(field->name);
    char label[96];

    assert(array < desc->n_fields);
    while (array + 1 + n_rows < desc->n_fields &&
           is_element(&desc->fields[array + 1 + n_rows]))
        n_rows++;
    for (e = 0; e < n; e++) {
        uint32_t at = e * field->each_bytes;
        uint32_t first = field->offset_bytes + at;
        if (first + field->each_bytes > diff->size_bytes)
            break;
        if (memcmp(diff->a + first, diff->b + first, field->each_bytes) == 0)
            continue;
        for (i = 0; i < n_rows; i++) {
            const struct kio_field *sub = &desc->fields[array + 1 + i];
            snprintf(label, sizeof(label), "%s[%u].%s", field->name, e,
                     sub->name + name_len + 4);
            diff_field(diff, sub, at, label);
        }
    }
    return n_rows;
}

static void
diff_bytes(struct diff *diff, uint32_t from, uint32_t to)
{
    char label[24];

    assert(from <= to);
    for (; from < to; from++) {
        if (diff->a[from] == diff->b[from])
            continue;
        diff->n_found++;
        snprintf(label, sizeof(label), "+0x%x", from);
        diff->fn(diff->user, label, diff->a[from], diff->b[from]);
    }
}

uint32_t
kio_struct_diff(const struct kio_struct *desc, const void *a, const void *b,
                uint32_t size_bytes, uint32_t flags, kio_diff_fn *fn,
                void *user)
{
    struct diff diff = {a, b, size_bytes, flags, 0, fn, user};
    uint32_t i, end = 0;

    for (i = 0; desc && i < desc->n_fields; i++) {
        const struct kio_field *field = &desc->fields[i];
        uint32_t last = field->offset_bytes + field->size_bytes;
        if (last > size_bytes)
            break;
        /* Padding is not the program's doing: only bytes past what the
         * struct describes count. */
        end = last > end ? last : end;
        if (field->kind == KIO_FIELD_STRUCT)
            i += diff_array(&diff, desc, i);
        else
            diff_field(&diff, field, 0, field->name);
    }
    if (desc && end < desc->size_bytes)
        end = desc->size_bytes < size_bytes ? desc->size_bytes : size_bytes;
    diff_bytes(&diff, end, size_bytes);
    return diff.n_found;
}
