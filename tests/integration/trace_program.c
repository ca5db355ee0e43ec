/* A program for the recorder's test: talks to files that stand for device
 * nodes below $BELL_RECORD_PREFIX as one would to NVIDIA's driver, from
 * threads, a forked child and after exec. Ends with 0 if every call did what
 * it does without the recorder.
 *
 * usage: trace_program [--again | --plain | --crash | --close]
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ioctl/nv_abi.h"
#include "ioctl/nv_uapi.h"

#define CLIENT  0xc1d00001u
#define MEMORY  0x5c000010u
#define GPU_VA  0x200000000ull
#define N_BYTES 0x10000u

static int
open_node(const char *name, int flags)
{
    const char *prefix = getenv("BELL_RECORD_PREFIX");
    char path[512];

    snprintf(path, sizeof(path), "%s/dev/%s", prefix ? prefix : "", name);
    return open(path, flags);
}

static int
check(int good, const char *what)
{
    if (!good)
        fprintf(stderr, "trace_program: %s: %s\n", what, strerror(errno));
    return good;
}

/* Gives the channel's ring, pushbuffer, descriptor and USERD in one memory
 * object: at 0, 0x1000, 0x2000 and 0x3000. */
static int
set_up(int ctl, int gpu)
{
    struct nv_channel_alloc channel = {.gpFifoOffset = GPU_VA,
                                       .gpFifoEntries = 8,
                                       .hUserdMemory = {MEMORY},
                                       .userdOffset = {0x3000}};
    struct nv_os64 alloc = {.hRoot = CLIENT,
                            .hObjectNew = 0x5c000020,
                            .hClass = HOPPER_CHANNEL_GPFIFO_A,
                            .pAllocParms = (uintptr_t)&channel,
                            .paramsSize = sizeof(channel)};
    struct nv_os46 map = {.hClient = CLIENT,
                          .hMemory = MEMORY,
                          .length = N_BYTES,
                          .dmaOffset = GPU_VA};
    struct nv_os33_fd cpu = {.fd = gpu};

    cpu.params.hClient = CLIENT;
    cpu.params.hMemory = MEMORY;
    cpu.params.length = N_BYTES;
    return ioctl(ctl, nv_request(NV_ESC_RM_ALLOC, sizeof(alloc)), &alloc) ==
               0 &&
           ioctl(ctl, nv_request(NV_ESC_RM_MAP_MEMORY_DMA, sizeof(map)),
                 &map) == 0 &&
           ioctl(ctl, nv_request(NV_ESC_RM_MAP_MEMORY, sizeof(cpu)), &cpu) == 0;
}

static void
submit(volatile uint8_t *memory)
{
    static const uint32_t push[] = {0x200120ad, 0x02000020, 0x200120b0, 10};
    volatile uint32_t *words = (volatile uint32_t *)(memory + 0x1000);
    size_t i;

    for (i = 0; i < 4; i++)
        words[i] = push[i];
    *(volatile uint32_t *)(memory + 0x2000) = 0xabcd1234;
    *(volatile uint64_t *)memory = (GPU_VA + 0x1000) | 4ull << 42;
    *(volatile uint32_t *)(memory + 0x3000 + 0x8c) = 1;
}

static void *
run_thread(void *arg)
{
    struct nv_os00 call = {.hRoot = CLIENT, .hObjectOld = 0x77};
    int i, ctl = *(int *)arg;

    for (i = 0; i < 50; i++) {
        if (ioctl(ctl, nv_request(NV_ESC_RM_FREE, sizeof(call)), &call) != 0)
            return arg;
    }
    return NULL;
}

static int
run_threads(int ctl)
{
    pthread_t threads[4];
    void *result;
    int i, good = 1;

    for (i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, run_thread, &ctl);
    for (i = 0; i < 4; i++) {
        pthread_join(threads[i], &result);
        good &= result == NULL;
    }
    return good;
}

static int
run_child(char *self)
{
    int wait_status;
    pid_t pid = fork();

    if (pid == 0) {
        execl(self, self, "--again", (char *)NULL);
        _exit(127);
    }
    return waitpid(pid, &wait_status, 0) == pid && wait_status == 0;
}

/* Closes every number but ours, as daemons do, and opens a file under each:
 * nothing may be written there. */
static int
close_all(int ctl)
{
    struct nv_os00 call = {.hRoot = CLIENT};
    struct stat st;
    FILE *file = tmpfile();
    int fd = fileno(file), i, good = 1;

    for (i = 3; i < 900; i++) {
        if (i != ctl && i != fd)
            (void)dup2(fd, i);
    }
    good &= ioctl(ctl, nv_request(NV_ESC_RM_FREE, sizeof(call)), &call) == 0;
    return good && fstat(fd, &st) == 0 && st.st_size == 0;
}

int
main(int argc, char **argv)
{
    const char *how = argc > 1 ? argv[1] : "";
    int ctl, gpu;
    void *p;

    if (strcmp(how, "--plain") == 0)
        return 0;
    ctl = open_node("nvidiactl", O_RDWR | O_CLOEXEC);
    if (!check(ctl >= 0, "open"))
        return 1;
    if (strcmp(how, "--close") == 0)
        return !check(close_all(ctl), "a file under a closed number");
    if (strcmp(how, "--again") == 0)
        return !check(run_threads(ctl), "threads");
    gpu = open_node("nvidia0", O_RDWR | O_CLOEXEC);
    if (!check(set_up(ctl, gpu), "set up"))
        return 1;
    p = mmap(NULL, N_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, gpu, 0);
    if (!check(p != MAP_FAILED, "mmap"))
        return 1;
    submit(p);
    if (!check(open_node("nvidia9", O_RDWR) == -1 && errno == ENOENT,
               "open of what is absent"))
        return 1;
    /* A bad pointer is the kernel's to refuse. */
    if (!check(ioctl(ctl, nv_request(NV_ESC_RM_FREE, 16), (void *)8) == 0,
               "bad pointer"))
        return 1;
    if (strcmp(how, "--crash") == 0)
        raise(9);
    if (!check(run_threads(ctl), "threads") ||
        !check(run_child(argv[0]), "child"))
        return 1;
    munmap(p, N_BYTES);
    close(gpu);
    return !check(close(ctl) == 0 && close(ctl) == -1, "close");
}
