/* A process on a simulated NVIDIA machine that brings a card up by raw calls,
 * in the order of docs/hardware/nvidia-kernel.md, "Bring-up"; shared by the
 * tests of the simulated kernel driver. Every function asserts that its calls
 * go through, and the ones that return a number return the driver's status, 0
 * for success.
 */
#ifndef BELL_TESTS_RM_RIG_H
#define BELL_TESTS_RM_RIG_H

#include <setjmp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ioctl/kio.h"
#include "ioctl/kio_interface.h"
#include "ioctl/nv_abi.h"

struct nv_channel_alloc;

/* src: docs/hardware/nvidia-queues.md, "Status numbers" */
#define S_BUFFER_TOO_SMALL 0x02u
#define S_ILLEGAL_ACTION   0x16u
#define S_DUPLICATE        0x19u
#define S_RESOURCES        0x1au
#define S_PERMISSIONS      0x1bu
#define S_ADDRESS          0x1eu
#define S_ARGUMENT         0x1fu
#define S_CHANNEL          0x21u
#define S_CLASS            0x22u
#define S_CLIENT           0x23u
#define S_DEVICE           0x26u
#define S_EVENT            0x28u
#define S_FLAGS            0x29u
#define S_LIMIT            0x2eu
#define S_OBJECT           0x31u
#define S_HANDLE           0x33u
#define S_PARENT           0x36u
#define S_OFFSET           0x37u
#define S_STRUCT           0x3au
#define S_PARAMETER        0x3bu
#define S_STATE            0x40u
#define S_NO_MEMORY        0x51u
#define S_NOT_SUPPORTED    0x56u
#define S_NOT_FOUND        0x57u
#define S_RANGE            0x5bu
#define S_IN_USE           0x63u
#define S_UVM_IN_USE       0x68u
#define S_FABRIC           0x81u

#define GR0          1u
#define COPY(n)      (9u + (n))
#define VIDEO_FLAGS  0x1c101u
#define VIDEO_ATTR   0x19800000u
#define HUGE         0x200000u
#define NO_STRUCT    0xffffffffu
#define RING_ENTRIES 64u
#define WAIT_MS      5000

/* Layout of the channel's buffer. */
#define AT_USERD    0x1000u
#define AT_NOTIFIER 0x2000u
#define AT_PUSH     0x4000u
#define AT_SEM      0x8000u

/* How a rig rings. */
enum rig_bell {
    RIG_BELL_FLUSHED, /* in BAR0, after GPPut was read back */
    RIG_BELL_BAR0,    /* in BAR0 at once */
    RIG_BELL_BAR1     /* in BAR1, where the class has it */
};

/* One process that brings a card up. */
struct rig {
    struct kio *kio; /* owned */
    struct nv_abi abi;
    struct kio_file ctl, node, window_file, view_file;
    uint32_t client, device, subdevice, space, usermode;
    uint32_t memory, carrier, group, channel, object, notifier;
    volatile uint32_t *window;
    uint8_t *cpu; /* of `memory` */
    uint64_t va;
    enum rig_bell bell; /* set before it runs */
    uint32_t put, token;
    uint32_t engine, gpu_id, n_classes;
    uint32_t classes[128];
};

/* Where to go instead of failing when a step does not go through; NULL: it is
 * a failure. For loops that make allocations fail. */
extern jmp_buf *rig_give_up;

/* How many steps there are, and what some of them are called. */
#define RIG_ALL      14
#define RIG_CLIENT   1
#define RIG_NODE     4
#define RIG_DEVICE   6 /* with the list of classes */
#define RIG_SPACE    7
#define RIG_MEMORY   10 /* with the window and a mapping of `memory` */
#define RIG_NOTIFIER 11

uint32_t rig_escape(const struct rig *rig, const struct kio_file *file,
                    uint32_t number, uint32_t struct_id, void *newest);
uint32_t rig_alloc(const struct rig *rig, uint32_t parent, uint32_t nv_class,
                   uint32_t struct_id, void *params, uint32_t *handle);
uint32_t rig_free(const struct rig *rig, uint32_t handle);
uint32_t rig_control_sized(const struct rig *rig, uint32_t object,
                           uint32_t command, void *params, uint32_t size_bytes);
uint32_t rig_control(const struct rig *rig, uint32_t object, uint32_t command,
                     uint32_t struct_id, void *params);
void rig_open(const struct rig *rig, const char *path,
              struct kio_file *out_file);
int rig_errno(const struct kio_file *file, unsigned long request, void *arg);
uint32_t rig_video(const struct rig *rig, uint64_t size_bytes,
                   uint32_t *handle);
uint32_t rig_system(const struct rig *rig, uint64_t size_bytes,
                    uint32_t *handle);
uint32_t rig_map_cpu(const struct rig *rig, uint32_t parent, uint32_t memory,
                     uint64_t offset, uint64_t length,
                     const struct kio_file *file, uint64_t *out_linear);
void *rig_map_file(const struct rig *rig, const struct kio_file *file,
                   size_t size_bytes);
uint32_t rig_carrier(const struct rig *rig, uint64_t size_bytes,
                     uint64_t align_bytes, uint32_t *handle, uint64_t *out_va);
uint32_t rig_map_gpu(const struct rig *rig, uint32_t carrier, uint32_t memory,
                     uint64_t offset, uint64_t length, uint32_t flags,
                     uint64_t *va);
uint32_t rig_unmap_gpu(const struct rig *rig, uint32_t carrier, uint32_t memory,
                       uint64_t va, uint64_t size_bytes);
uint32_t rig_group(const struct rig *rig, uint32_t engine, uint32_t *handle);
struct nv_channel_alloc rig_channel_params(const struct rig *rig);
uint32_t rig_class(const struct rig *rig, uint32_t suffix);
uint32_t rig_channel(const struct rig *rig,
                     const struct nv_channel_alloc *params, uint32_t *handle);
uint32_t rig_token(const struct rig *rig, uint32_t channel,
                   uint32_t *out_token);
uint32_t rig_schedule(const struct rig *rig, uint32_t group, bool enable);
void rig_init_on(struct rig *rig, struct kio *kio, const char *version,
                 uint32_t engine);
void rig_init(struct rig *rig, const char *spec);
void rig_run(struct rig *rig, size_t n_steps);
/* The steps from `first` on. */
void rig_run_from(struct rig *rig, size_t first);
void rig_close(struct rig *rig);
void rig_nothing_left(const struct kio *kio);
void rig_fini(struct rig *rig);
volatile uint32_t *rig_word(const struct rig *rig, uint32_t offset);
void rig_submit(struct rig *rig, const uint32_t *words, uint32_t n);
void rig_release(struct rig *rig, uint64_t va, uint32_t value);
bool rig_wait(const volatile uint32_t *word, uint32_t value);
void rig_check_work(struct rig *rig);

#endif
