/* Clients and their trees of objects: handles, classes, parents, freeing.
 * src: docs/hardware/nvidia-kernel.md, "Calls", "Object tree". Where handles of
 * RM's choice start is a lead.
 */
#include "sim/nv/rm/rm.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "ioctl/nv_uapi.h"

#define FIRST_CLIENT 0xc1d00000u
#define FIRST_OBJECT 0xcaf00000u
#define NO_STRUCT    (-1)

/* ---- looking up ---- */

struct rm_client *
rm_client_any(struct rm_machine *machine, uint32_t handle)
{
    struct rm_client *c;

    for (c = machine->clients; c; c = c->next) {
        if (c->root->handle == handle)
            return c;
    }
    return NULL;
}

struct rm_client *
rm_client_find(struct rm_process *process, int ctl_file, uint32_t handle)
{
    struct rm_client *client = rm_client_any(process->machine, handle);

    if (!client || client->process != process || client->file != ctl_file)
        return NULL;
    return client;
}

/* Where the handle is, or would be. */
static size_t
handle_place(const struct rm_client *client, uint32_t handle)
{
    size_t lo = 0, hi = client->n_objects;

    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (client->objects[mid]->handle < handle)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

struct rm_object *
rm_find(struct rm_client *client, uint32_t handle)
{
    size_t i = handle_place(client, handle);

    if (client->root->handle == handle)
        return client->root;
    if (i < client->n_objects && client->objects[i]->handle == handle)
        return client->objects[i];
    return NULL;
}

struct rm_object *
rm_find_kind(struct rm_client *client, uint32_t handle, enum rm_kind kind)
{
    struct rm_object *object = rm_find(client, handle);

    assert(kind < RM_KIND_COUNT);
    return object && object->kind == kind ? object : NULL;
}

enum rm_status
rm_vas_of(struct rm_client *client, struct rm_object *device, uint32_t handle,
          struct rm_vas **out_vas)
{
    struct rm_object *object;

    if (!handle) {
        if (!device->vas) {
            enum rm_status status =
                rm_vas_create(device->card, false, 0, 0, &device->vas);
            if (status)
                return status;
        }
        *out_vas = device->vas;
        return RM_OK;
    }
    object = rm_find_kind(client, handle, RM_KIND_VAS);
    if (!object || object->parent != device)
        return rm_refuse(RM_INVALID_OBJECT_HANDLE,
                         "0x%x is not an address space of device 0x%x", handle,
                         device->handle);
    *out_vas = object->vas;
    return RM_OK;
}

/* ---- the tree ---- */

static enum rm_status
insert_object(struct rm_client *client, struct rm_object *parent,
              struct rm_object *object)
{
    size_t at;

    assert(object->handle != 0);
    if (host_grow((void **)&client->objects, &client->cap_objects,
                  client->n_objects + 1, sizeof(*client->objects)) < 0)
        return RM_NO_MEMORY;
    at = handle_place(client, object->handle);
    memmove(&client->objects[at + 1], &client->objects[at],
            (client->n_objects - at) * sizeof(*client->objects));
    client->objects[at] = object;
    client->n_objects++;
    object->client = client;
    object->parent = parent;
    object->sibling = parent->children;
    parent->children = object;
    return RM_OK;
}

static void
remove_object(struct rm_object *object)
{
    struct rm_client *client = object->client;
    struct rm_object **link = &object->parent->children;
    size_t at = handle_place(client, object->handle);

    assert(client->n_objects > 0);
    memmove(&client->objects[at], &client->objects[at + 1],
            (client->n_objects - at - 1) * sizeof(*client->objects));
    client->n_objects--;
    while (*link != object)
        link = &(*link)->sibling;
    *link = object->sibling;
}

/* Carriers of a space go with it, with all that is mapped through them. */
static void
free_carriers(struct rm_client *client, const struct rm_vas *vas)
{
    size_t i = 0;

    while (i < client->n_objects) {
        struct rm_object *o = client->objects[i];
        if (o->kind == RM_KIND_CARRIER && o->vas == vas) {
            rm_object_free(o);
            i = 0;
        } else {
            i++;
        }
    }
}

/* Debuggers lose their object when it goes. */
static void
forget_target(struct rm_client *client, const struct rm_object *object)
{
    size_t i;

    for (i = 0; i < client->n_objects; i++) {
        if (client->objects[i]->target == object)
            client->objects[i]->target = NULL;
    }
}

/* What an object has; its children are gone. It may be half made. */
static void
fini(struct rm_object *object)
{
    switch (object->kind) {
    case RM_KIND_MEMORY:
        rm_maps_forget(object->client->process->machine, object, NULL);
        rm_teams_forget(object->client->process->machine, object);
        rm_views_forget(object);
        break;
    case RM_KIND_USERMODE:
        rm_views_forget(object);
        break;
    case RM_KIND_CARRIER:
        rm_maps_forget(object->client->process->machine, object, NULL);
        rm_carrier_fini(object);
        break;
    case RM_KIND_VAS:
        if (object->vas)
            free_carriers(object->client, object->vas);
        break;
    case RM_KIND_CHANNEL:
        if (object->channel)
            rm_channel_destroy(object->channel);
        break;
    case RM_KIND_COMPUTE:
        forget_target(object->client, object);
        if (object->channel)
            rm_channel_lose_object(object->channel);
        break;
    case RM_KIND_COPY:
        if (object->channel)
            rm_channel_lose_object(object->channel);
        break;
    case RM_KIND_PEERS:
        rm_peers_fini(object);
        break;
    case RM_KIND_SUBDEVICE:
        rm_peers_forget(object);
        break;
    case RM_KIND_GROUP:
    case RM_KIND_CLIENT:
    case RM_KIND_DEVICE:
    case RM_KIND_SHARE:
    case RM_KIND_DEBUGGER:
    case RM_KIND_CONFIDENTIAL:
    case RM_KIND_BINAPI:
    case RM_KIND_MASTER:
    case RM_KIND_P2P:
    case RM_KIND_EVENT:
    case RM_KIND_COUNT:
        break;
    }
    if (object->group)
        rm_group_release(object->group);
    rm_vas_release(object->vas);
    rm_mem_release(object->mem);
}

static void
free_tree(struct rm_object *top)
{
    bool is_last = false;

    while (!is_last) {
        struct rm_object *leaf = top;
        while (leaf->children)
            leaf = leaf->children;
        is_last = leaf == top;
        fini(leaf);
        if (leaf->parent)
            remove_object(leaf);
        host_free(leaf);
    }
}

static bool
is_below(const struct rm_object *object, const struct rm_object *top)
{
    while (object && object != top)
        object = object->parent;
    return object != NULL;
}

/* Work in flight ends before the memory that it uses goes. */
static void
free_groups(struct rm_object *top)
{
    struct rm_client *client = top->client;
    size_t i = 0;

    while (i < client->n_objects) {
        struct rm_object *o = client->objects[i];
        if (o->kind == RM_KIND_GROUP && o != top && is_below(o, top)) {
            free_tree(o);
            i = 0;
        } else {
            i++;
        }
    }
}

void
rm_object_free(struct rm_object *object)
{
    assert(object->client);
    if (object->kind == RM_KIND_CLIENT) {
        rm_client_destroy(object->client);
        return;
    }
    if (object->kind == RM_KIND_DEVICE)
        free_groups(object);
    free_tree(object);
}

/* ---- clients ---- */

static void
client_free(struct rm_client *client)
{
    host_free(client->root);
    host_free(client->objects);
    host_free(client);
}

void
rm_client_destroy(struct rm_client *client)
{
    struct rm_machine *machine = client->process->machine;
    struct rm_client **link = &machine->clients;
    uint32_t i;

    for (i = 0; i < machine->n_cards; i++) {
        if (machine->cards[i].reserved_by == client->root->handle)
            machine->cards[i].reserved_by = 0;
    }
    free_groups(client->root);
    while (client->root->children)
        free_tree(client->root->children);
    while (*link != client)
        link = &(*link)->next;
    *link = client->next;
    client_free(client);
}

static enum rm_status
client_create(struct rm_process *process, int ctl_file, uint32_t *handle)
{
    struct rm_machine *machine = process->machine;
    struct rm_client *client;

    if (*handle && rm_client_any(machine, *handle))
        return rm_refuse(RM_INSERT_DUPLICATE, "there is a client 0x%x",
                         *handle);
    client = host_calloc(1, sizeof(*client));
    if (!client)
        return RM_NO_MEMORY;
    client->root = host_calloc(1, sizeof(*client->root));
    if (!client->root) {
        client_free(client);
        return RM_NO_MEMORY;
    }
    while (!*handle || rm_client_any(machine, *handle))
        *handle = FIRST_CLIENT + ++machine->last_client;
    *client->root = (struct rm_object){
        .client = client,
        .handle = *handle,
        .nv_class = NV01_ROOT_CLIENT,
        .kind = RM_KIND_CLIENT,
    };
    client->process = process;
    client->file = ctl_file;
    client->next = machine->clients;
    machine->clients = client;
    return RM_OK;
}

/* ---- classes ---- */

/* A class: what its parameters are, where it may hang, who makes it. */
struct class_row {
    uint32_t nv_class;
    int32_t struct_id; /* NO_STRUCT: none */
    enum rm_kind kind, parent;
    bool needs_params;
    bool listed; /* there if the chip's list has it; else always */
    enum rm_status (*alloc)(struct rm_alloc *a);
};

/* Objects that are only asked. src: NVIDIA/open-gpu-kernel-modules 580.142,
 * resource_list.h, for their parents and parameters too */
static enum rm_status
alloc_plain(struct rm_alloc *a)
{
    (void)a;
    return RM_OK;
}

/* clang-format off */
static const struct class_row classes[] = {
    {NV01_DEVICE_0, NV_S_NV0080_ALLOC, RM_KIND_DEVICE, RM_KIND_CLIENT, true, false, rm_alloc_device},
    {NV20_SUBDEVICE_0, NV_S_NV2080_ALLOC, RM_KIND_SUBDEVICE, RM_KIND_DEVICE, false, false, rm_alloc_subdevice},
    {FERMI_VASPACE_A, NV_S_NV_VASPACE_ALLOC, RM_KIND_VAS, RM_KIND_DEVICE, true, true, rm_alloc_vas},
    {NV50_MEMORY_VIRTUAL, NV_S_NV_MEMORY_ALLOC, RM_KIND_CARRIER, RM_KIND_DEVICE, true, true, rm_alloc_virtual},
    {NV01_MEMORY_VIRTUAL, NV_S_NV_MEMORY_VIRTUAL_ALLOC, RM_KIND_CARRIER, RM_KIND_DEVICE, true, true, rm_alloc_dynamic},
    {NV01_MEMORY_LOCAL_USER, NV_S_NV_MEMORY_ALLOC, RM_KIND_MEMORY, RM_KIND_DEVICE, true, false, rm_alloc_video},
    {NV01_MEMORY_SYSTEM, NV_S_NV_MEMORY_ALLOC, RM_KIND_MEMORY, RM_KIND_DEVICE, true, false, rm_alloc_system},
    {NV01_MEMORY_SYSTEM_OS_DESCRIPTOR, NV_S_NV_OS_DESC_ALLOC, RM_KIND_MEMORY, RM_KIND_DEVICE, true, false, rm_alloc_os_desc},
    {VOLTA_USERMODE_A, NO_STRUCT, RM_KIND_USERMODE, RM_KIND_SUBDEVICE, false, true, rm_alloc_usermode},
    {TURING_USERMODE_A, NO_STRUCT, RM_KIND_USERMODE, RM_KIND_SUBDEVICE, false, true, rm_alloc_usermode},
    {AMPERE_USERMODE_A, NO_STRUCT, RM_KIND_USERMODE, RM_KIND_SUBDEVICE, false, true, rm_alloc_usermode},
    {HOPPER_USERMODE_A, NV_S_NV_HOPPER_USERMODE_A, RM_KIND_USERMODE, RM_KIND_SUBDEVICE, false, true, rm_alloc_usermode},
    {BLACKWELL_USERMODE_A, NV_S_NV_HOPPER_USERMODE_A, RM_KIND_USERMODE, RM_KIND_SUBDEVICE, false, true, rm_alloc_usermode},
    {KEPLER_CHANNEL_GROUP_A, NV_S_NV_CHANNEL_GROUP_ALLOC, RM_KIND_GROUP, RM_KIND_DEVICE, true, true, rm_alloc_group},
    {FERMI_CONTEXT_SHARE_A, NV_S_NV_CTXSHARE_ALLOC, RM_KIND_SHARE, RM_KIND_GROUP, true, true, rm_alloc_share},
    {VOLTA_CHANNEL_GPFIFO_A, NV_S_NV_CHANNEL_ALLOC, RM_KIND_CHANNEL, RM_KIND_GROUP, true, true, rm_alloc_channel},
    {TURING_CHANNEL_GPFIFO_A, NV_S_NV_CHANNEL_ALLOC, RM_KIND_CHANNEL, RM_KIND_GROUP, true, true, rm_alloc_channel},
    {AMPERE_CHANNEL_GPFIFO_A, NV_S_NV_CHANNEL_ALLOC, RM_KIND_CHANNEL, RM_KIND_GROUP, true, true, rm_alloc_channel},
    {HOPPER_CHANNEL_GPFIFO_A, NV_S_NV_CHANNEL_ALLOC, RM_KIND_CHANNEL, RM_KIND_GROUP, true, true, rm_alloc_channel},
    {BLACKWELL_CHANNEL_GPFIFO_A, NV_S_NV_CHANNEL_ALLOC, RM_KIND_CHANNEL, RM_KIND_GROUP, true, true, rm_alloc_channel},
    {BLACKWELL_CHANNEL_GPFIFO_B, NV_S_NV_CHANNEL_ALLOC, RM_KIND_CHANNEL, RM_KIND_GROUP, true, true, rm_alloc_channel},
    {AMPERE_COMPUTE_A, NV_S_NV_GR_ALLOC, RM_KIND_COMPUTE, RM_KIND_CHANNEL, false, true, rm_alloc_compute},
    {AMPERE_COMPUTE_B, NV_S_NV_GR_ALLOC, RM_KIND_COMPUTE, RM_KIND_CHANNEL, false, true, rm_alloc_compute},
    {ADA_COMPUTE_A, NV_S_NV_GR_ALLOC, RM_KIND_COMPUTE, RM_KIND_CHANNEL, false, true, rm_alloc_compute},
    {HOPPER_COMPUTE_A, NV_S_NV_GR_ALLOC, RM_KIND_COMPUTE, RM_KIND_CHANNEL, false, true, rm_alloc_compute},
    {BLACKWELL_COMPUTE_A, NV_S_NV_GR_ALLOC, RM_KIND_COMPUTE, RM_KIND_CHANNEL, false, true, rm_alloc_compute},
    {BLACKWELL_COMPUTE_B, NV_S_NV_GR_ALLOC, RM_KIND_COMPUTE, RM_KIND_CHANNEL, false, true, rm_alloc_compute},
    {AMPERE_DMA_COPY_A, NV_S_NVB0B5_ALLOC, RM_KIND_COPY, RM_KIND_CHANNEL, false, true, rm_alloc_copy},
    {AMPERE_DMA_COPY_B, NV_S_NVB0B5_ALLOC, RM_KIND_COPY, RM_KIND_CHANNEL, false, true, rm_alloc_copy},
    {HOPPER_DMA_COPY_A, NV_S_NVB0B5_ALLOC, RM_KIND_COPY, RM_KIND_CHANNEL, false, true, rm_alloc_copy},
    {BLACKWELL_DMA_COPY_A, NV_S_NVB0B5_ALLOC, RM_KIND_COPY, RM_KIND_CHANNEL, false, true, rm_alloc_copy},
    {BLACKWELL_DMA_COPY_B, NV_S_NVB0B5_ALLOC, RM_KIND_COPY, RM_KIND_CHANNEL, false, true, rm_alloc_copy},
    {NV_CONFIDENTIAL_COMPUTE, NV_S_NV_CONFIDENTIAL_COMPUTE_ALLOC, RM_KIND_CONFIDENTIAL, RM_KIND_CLIENT, false, false, alloc_plain},
    {NV2081_BINAPI, NV_S_NV2081_ALLOC, RM_KIND_BINAPI, RM_KIND_SUBDEVICE, false, true, alloc_plain},
    {GF100_SUBDEVICE_MASTER, NO_STRUCT, RM_KIND_MASTER, RM_KIND_SUBDEVICE, false, true, alloc_plain},
    {NV_MEMORY_MULTICAST_FABRIC, NV_S_NV00FD_ALLOC, RM_KIND_MEMORY, RM_KIND_CLIENT, true, false, rm_alloc_team},
    {NV50_P2P, NV_S_NV503B_ALLOC, RM_KIND_PEERS, RM_KIND_CLIENT, true, false, rm_alloc_peers},
    {NV50_THIRD_PARTY_P2P, NV_S_NV503C_ALLOC, RM_KIND_P2P, RM_KIND_SUBDEVICE, false, true, alloc_plain},
    {RM_USER_SHARED_DATA, NV_S_NV00DE_ALLOC, RM_KIND_MEMORY, RM_KIND_SUBDEVICE, true, true, rm_alloc_shared_data},
    {NV01_EVENT_OS_EVENT, NV_S_NV0005_ALLOC, RM_KIND_EVENT, RM_KIND_COUNT, true, true, rm_alloc_event},
    {GT200_DEBUGGER, NV_S_NV83DE_ALLOC, RM_KIND_DEBUGGER, RM_KIND_DEVICE, true, true, rm_alloc_debugger},
};
/* clang-format on */

static const struct class_row *
find_class_row(const struct nvgpu_chip *chip, uint32_t nv_class)
{
    size_t i;

    for (i = 0; i < ARRAY_LEN(classes); i++) {
        if (classes[i].nv_class != nv_class)
            continue;
        return !classes[i].listed || nvgpu_has_class(chip, nv_class)
                   ? &classes[i]
                   : NULL;
    }
    return NULL;
}

/* ---- allocation ---- */

/* The handle is free, or is chosen. */
static enum rm_status
settle_handle(struct rm_client *client, uint32_t *handle)
{
    struct rm_machine *machine = client->process->machine;

    if (*handle && rm_find(client, *handle))
        return rm_refuse(RM_INSERT_DUPLICATE,
                         "client 0x%x has an object 0x%x already",
                         client->root->handle, *handle);
    while (!*handle || rm_find(client, *handle))
        *handle = FIRST_OBJECT + ++machine->last_handle % 0xfffff;
    return RM_OK;
}

/* Reads as many bytes as the branch's struct has, whatever the caller says
 * its size is: as RM does. */
static enum rm_status
read_params(struct rm_machine *machine, const struct class_row *row,
            uint64_t addr, void **out_params)
{
    *out_params = NULL;
    if (!addr && row->needs_params)
        return rm_refuse(RM_INVALID_ARGUMENT, "%s wants parameters",
                         nv_class_name(row->nv_class));
    if (!addr)
        return RM_OK;
    if (row->struct_id == NO_STRUCT)
        return rm_refuse(RM_INVALID_ARGUMENT, "%s has no parameters",
                         nv_class_name(row->nv_class));
    if (!rm_user_read(machine->wire, addr,
                      nv_wire_bytes(&machine->abi, (uint32_t)row->struct_id)))
        return rm_refuse(
            RM_INVALID_ADDRESS, "parameters of %s at 0x%llx cannot be read",
            nv_class_name(row->nv_class), (unsigned long long)addr);
    nv_wire_unpack(&machine->abi, (uint32_t)row->struct_id, machine->wire,
                   machine->params);
    *out_params = machine->params;
    return RM_OK;
}

static enum rm_status
write_params(struct rm_machine *machine, const struct class_row *row,
             uint64_t addr)
{
    uint32_t id = (uint32_t)row->struct_id;

    nv_wire_pack(&machine->abi, id, machine->params, machine->wire);
    if (!rm_user_write(addr, machine->wire, nv_wire_bytes(&machine->abi, id)))
        return rm_refuse(
            RM_INVALID_ADDRESS, "parameters of %s at 0x%llx cannot be written",
            nv_class_name(row->nv_class), (unsigned long long)addr);
    return RM_OK;
}

static struct rm_object *
new_object(struct rm_client *client, struct rm_object *parent, uint32_t handle,
           uint32_t nv_class, enum rm_kind kind)
{
    struct rm_object *object = host_calloc(1, sizeof(*object));

    assert(handle != 0);
    if (!object)
        return NULL;
    object->client = client;
    object->handle = handle;
    object->nv_class = nv_class;
    object->kind = kind;
    object->card = parent->card;
    return object;
}

/* Calls the class's function and hangs the object in. */
static enum rm_status
make_object(struct rm_alloc *a, const struct class_row *row, uint32_t handle)
{
    enum rm_status status;

    a->object =
        new_object(a->client, a->parent, handle, row->nv_class, row->kind);
    if (!a->object)
        return RM_NO_MEMORY;
    status = row->alloc(a);
    if (status == RM_OK)
        status = insert_object(a->client, a->parent, a->object);
    if (status != RM_OK) {
        fini(a->object);
        host_free(a->object);
    }
    return status;
}

static enum rm_status
find_parent(struct rm_client *client, uint32_t handle,
            const struct class_row *row, struct rm_object **out_parent)
{
    struct rm_object *parent = rm_find(client, handle);

    if (!parent)
        return rm_refuse(RM_INVALID_OBJECT_PARENT,
                         "client 0x%x has no object 0x%x to be a parent",
                         client->root->handle, handle);
    if (parent->kind != row->parent && row->parent != RM_KIND_COUNT)
        return rm_refuse(RM_INVALID_OBJECT_PARENT,
                         "%s cannot hang below object 0x%x of class 0x%x",
                         nv_class_name(row->nv_class), handle,
                         parent->nv_class);
    *out_parent = parent;
    return RM_OK;
}

static enum rm_status
alloc_below(struct rm_process *process, struct rm_client *client,
            uint32_t parent, const struct class_row *row, uint64_t params_addr,
            uint32_t *handle)
{
    struct rm_alloc a = {process->machine, process, client, NULL, NULL, NULL};
    uint32_t chosen = *handle;
    enum rm_status status = find_parent(client, parent, row, &a.parent);

    if (status == RM_OK)
        status = settle_handle(client, &chosen);
    if (status == RM_OK)
        status = read_params(a.machine, row, params_addr, &a.params);
    if (status == RM_OK)
        status = make_object(&a, row, chosen);
    if (status == RM_OK && a.params) {
        status = write_params(a.machine, row, params_addr);
        if (status != RM_OK)
            rm_object_free(a.object);
    }
    if (status == RM_OK)
        *handle = chosen;
    return status;
}

enum rm_status
rm_object_alloc(struct rm_process *process, int ctl_file, uint32_t root,
                uint32_t parent, uint32_t nv_class, uint64_t params_addr,
                uint32_t *handle)
{
    struct rm_client *client;
    const struct class_row *row;

    if (nv_class == NV01_ROOT || nv_class == NV01_ROOT_NON_PRIV ||
        nv_class == NV01_ROOT_CLIENT)
        return client_create(process, ctl_file, handle);
    client = rm_client_find(process, ctl_file, root);
    if (!client)
        return rm_refuse(RM_INVALID_CLIENT,
                         "no client 0x%x was made on this file", root);
    row = find_class_row(process->machine->chip, nv_class);
    if (!row)
        return rm_refuse(RM_INVALID_CLASS, "%s has no class 0x%x",
                         process->machine->chip->board, nv_class);
    return alloc_below(process, client, parent, row, params_addr, handle);
}

enum rm_status
rm_object_add_memory(struct rm_client *client, struct rm_object *parent,
                     uint32_t nv_class, struct rm_mem *mem, uint32_t *handle)
{
    uint32_t chosen = *handle;
    enum rm_status status = settle_handle(client, &chosen);
    struct rm_object *object;

    if (status != RM_OK)
        return status;
    object = new_object(client, parent, chosen, nv_class, RM_KIND_MEMORY);
    if (!object)
        return RM_NO_MEMORY;
    status = insert_object(client, parent, object);
    if (status != RM_OK) {
        host_free(object);
        return status;
    }
    rm_mem_retain(mem);
    object->mem = mem;
    *handle = chosen;
    return RM_OK;
}

/* ---- devices ---- */

enum rm_status
rm_alloc_device(struct rm_alloc *a)
{
    const struct nv0080_alloc *params = a->params;
    struct rm_machine *machine = a->machine;

    if (params->deviceId >= machine->n_cards)
        return rm_refuse(RM_INVALID_DEVICE, "no device instance %u; %u cards",
                         params->deviceId, machine->n_cards);
    if (!machine->cards[params->deviceId].n_attached)
        return rm_refuse(RM_INVALID_DEVICE,
                         "card %u is not attached: nobody has its node open",
                         params->deviceId);
    a->object->card = &machine->cards[params->deviceId];
    return RM_OK;
}

enum rm_status
rm_alloc_subdevice(struct rm_alloc *a)
{
    const struct nv2080_alloc *params = a->params;

    if (params && params->subDeviceId != 0)
        return rm_refuse(RM_INVALID_DEVICE, "no subdevice %u; there is one",
                         params->subDeviceId);
    return RM_OK;
}

/* An event that comes to a file: the client has one allocated by
 * ALLOC_OS_EVENT. lead: that it is the one of `data` is not checked. */
enum rm_status
rm_alloc_event(struct rm_alloc *a)
{
    struct nv0005_alloc *params = a->params;
    size_t i;

    if (params->hClass != NV01_EVENT_OS_EVENT)
        return rm_refuse(RM_INVALID_CLASS, "event of class 0x%x",
                         params->hClass);
    if (params->hParentClient &&
        params->hParentClient != a->client->root->handle)
        return rm_refuse(RM_NOT_SUPPORTED, "events of another client");
    for (i = 0; i < a->process->n_files; i++) {
        if (a->process->files[i].event_client == a->client->root->handle)
            break;
    }
    if (i == a->process->n_files)
        return rm_refuse(RM_INVALID_ARGUMENT,
                         "no file of the process has an OS event");
    params->hSrcResource = a->parent->handle;
    return RM_OK;
}
