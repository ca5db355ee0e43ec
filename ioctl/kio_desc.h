/* What kernel calls look like: names, argument structs, their fields, and
 * what the pointers in them point to. The same tables serve traces, error
 * messages, cassettes, replay and diffs.
 *
 * A *device kind* says which family of calls a file descriptor understands; a
 * *branch* is an index into the family's known driver versions (NVIDIA's
 * structs differ between them; other families have one). The tables are made
 * from *.uapi files by uapigen.py. Everything here is constant data and pure
 * functions: any thread.
 */
#ifndef BELL_IOCTL_KIO_DESC_H
#define BELL_IOCTL_KIO_DESC_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

/* Which kind of device node a file is. The numbers are in cassettes. */
enum kio_dev {
    KIO_DEV_OTHER = 0,
    KIO_DEV_NV_CTL = 1, /* /dev/nvidiactl */
    KIO_DEV_NV_GPU = 2, /* /dev/nvidiaN */
    KIO_DEV_NV_UVM = 3, /* /dev/nvidia-uvm */
    KIO_DEV_KFD = 4,
    KIO_DEV_DRM = 5,  /* /dev/dri/renderDN */
    KIO_DEV_KGSL = 6, /* /dev/kgsl* */
    KIO_DEV_COUNT
};

enum kio_field_kind {
    KIO_FIELD_UINT,
    KIO_FIELD_INT,
    KIO_FIELD_HEX,
    KIO_FIELD_HANDLE, /* names an object of the kernel driver */
    KIO_FIELD_STATUS, /* the vendor's result; 0 is success */
    KIO_FIELD_FD,
    KIO_FIELD_CLOCK,  /* what a clock said: differs from run to run */
    KIO_FIELD_SAMPLE, /* the same, where the field before it has the value `ptr`;
                       * else a number */
    KIO_FIELD_PTR,    /* an address in this process: differs from run to run */
    KIO_FIELD_BYTES,  /* a UUID comes first */
    KIO_FIELD_TEXT,
    KIO_FIELD_STRUCT, /* array of structs; the fields of its first element
                         follow as NAME[0].x */
};

#define KIO_NO_FIELD 0xffffu

/* How the struct at the end of a pointer is found. */
enum kio_select {
    KIO_SELECT_NONE,    /* plain bytes */
    KIO_SELECT_STRUCT,  /* always struct_id */
    KIO_SELECT_CONTROL, /* by the command in select_field */
    KIO_SELECT_CLASS,   /* by the class in select_field */
    KIO_SELECT_ESCAPE,  /* by the call number in select_field */
    KIO_SELECT_PINNED,  /* not followed: one byte more than length_field says
                           of the caller's memory, which the kernel keeps */
};

struct kio_pointee {
    uint32_t each_bytes;   /* bytes per unit of length_field, or all of them */
    uint16_t length_field; /* index in the struct, or KIO_NO_FIELD */
    uint16_t select_field;
    uint16_t struct_id;
    uint8_t select; /* enum kio_select */
};

struct kio_field {
    const char *name;
    uint16_t offset_bytes;
    uint16_t size_bytes; /* all elements */
    uint16_t each_bytes; /* one element */
    uint8_t kind;        /* enum kio_field_kind */
    uint8_t ptr; /* 1 + number of the struct's pointee; 0: none can be followed
                  * (kio_field_leads) */
};

/* Fields in order of offset. */
struct kio_struct {
    const char *name;
    const struct kio_field *fields;
    uint32_t size_bytes;
    uint32_t n_fields;
    const struct kio_pointee *pointees; /* NULL: there are none */
};

static inline bool
kio_field_leads(const struct kio_field *field)
{
    return field->ptr && field->kind != KIO_FIELD_SAMPLE;
}

/* The pointee of a field that can be followed. */
static inline const struct kio_pointee *
kio_pointee_of(const struct kio_struct *desc, const struct kio_field *field)
{
    assert(kio_field_leads(field));
    return &desc->pointees[field->ptr - 1];
}

/* The layouts of one struct: descs[first] and those after it, each from the
 * branch of one bit in `starts` on. */
struct kio_layouts {
    uint16_t first;
    uint16_t starts, has; /* bit per branch; has: the struct exists there */
};

/* All structs of a family, by its enum of them. */
struct kio_structs {
    const struct kio_struct *descs;
    const struct kio_layouts *layouts;
    uint32_t n_structs;
};

/* One numbered thing: a call, a command, a class. */
struct kio_number {
    uint32_t number;
    int16_t struct_id; /* -1: none */
    bool waits;
    const char *name;
};

/* What a request on a device means. */
struct kio_call_desc {
    const char *name;              /* never NULL */
    const struct kio_struct *args; /* NULL when not described */
    uint32_t size_bytes;           /* of the argument; 0 when there is none */
    bool known;
    bool waits; /* asks whether something has happened, or until it has, and
                   does nothing else: how often depends on time */
};

/* A struct as it is on a branch; NULL where there is none, or none
 * described. */
const struct kio_struct *kio_struct_of(const struct kio_structs *structs,
                                       int64_t struct_id, uint32_t branch);

/* The device kind of a path, by its name alone. */
enum kio_dev kio_dev_of_path(const char *path);
const char *kio_dev_name(enum kio_dev dev);

/* Looks a request up. Unknown requests get a name like "ioctl" and the size
 * that the request number itself carries. `branch` counts for NVIDIA. */
void kio_describe(enum kio_dev dev, uint32_t branch, unsigned long request,
                  struct kio_call_desc *out_desc);

/* The struct behind a followed pointer, with *out_name naming the command or
 * class; NULL when nothing is known of it. */
const struct kio_struct *kio_pointee_struct(enum kio_dev dev, uint32_t branch,
                                            const struct kio_struct *outer,
                                            const struct kio_field *field,
                                            const void *outer_data,
                                            uint32_t outer_bytes,
                                            const char **out_name);

/* Bytes behind a followed pointer, as the outer struct says it. */
uint64_t kio_pointee_bytes(const struct kio_struct *outer,
                           const struct kio_field *field,
                           const void *outer_data, uint32_t outer_bytes,
                           const struct kio_struct *inner);

/* A field by name; NULL when the struct has none on its branch. */
const struct kio_field *kio_struct_field(const struct kio_struct *desc,
                                         const char *name);

/* Reads or writes a scalar field of up to 8 bytes by name. `get` gives 0 and
 * `put` does nothing where the struct lacks the field or `size_bytes` ends
 * before it; `put` says whether it wrote. For set-up code, not hot paths. */
uint64_t kio_struct_get(const struct kio_struct *desc, const void *data,
                        uint32_t size_bytes, const char *name);
bool kio_struct_put(const struct kio_struct *desc, void *data,
                    uint32_t size_bytes, const char *name, uint64_t value);

/* Copies the fields that both layouts have, by name; the rest of `to` is
 * zeroed. So a driver fills the newest layout and converts. */
void kio_struct_convert(const struct kio_struct *from_desc, const void *from,
                        const struct kio_struct *to_desc, void *to);

/* Prints one struct's non-zero fields as "a=1 b=0x2" into buf, cut to fit and
 * always terminated. Returns the length. */
size_t kio_struct_format(const struct kio_struct *desc, const void *data,
                         uint32_t size_bytes, char *buf, size_t buf_bytes);

/* One difference between two arguments of the same layout. */
typedef void kio_diff_fn(void *user, const char *field, uint64_t a, uint64_t b);

enum {
    KIO_DIFF_REQUEST = 1u << 0, /* skip what only the kernel writes (status)
                                   and clocks, and compare pointers as null or
                                   not */
    KIO_DIFF_ANSWER = 1u << 1,  /* skip clocks, and compare pointers as null or
                                   not */
};

/* Calls `fn` for each field that differs; bytes no field covers are reported
 * as "+OFFSET". Returns how many differ. desc may be NULL: bytes only. */
uint32_t kio_struct_diff(const struct kio_struct *desc, const void *a,
                         const void *b, uint32_t size_bytes, uint32_t flags,
                         kio_diff_fn *fn, void *user);

#endif
