/* `doorbell sim`: runs another program on simulated cards. The library in
 * sim/preload shows it their files; this writes those that are text. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/env.h"
#include "base/log.h"
#include "ioctl/kio_interface.h"
#include "tools/sim_tree.h"
#include "tools/tools.h"

#define LIBRARY     "libdoorbell-sim.so"
#define DEVICES_MAX 2 /* one machine of each backend */

static const char about[] =
    "sim DEVICE... -- PROGRAM ARGS\n\n"
    "Runs a program that sees the simulated cards where the kernel's device "
    "nodes,\nsysfs and procfs files would be: AMD@sim:gfx1100, NV@sim:sm_90*2. "
    "Refusals and\nfaults are told on stderr.\n";

struct sim_run {
    char devices[512], tree[256], library[640], fds[16];
    const char *debug;
    bool json;
    void (*on_interrupt)(int); /* as they were */
    void (*on_quit)(int);
};

static void
prepare_sim(void *user)
{
    const struct sim_run *run = user;

    signal(SIGINT, run->on_interrupt);
    signal(SIGQUIT, run->on_quit);
    tool_preload(run->library);
    setenv("BELL_SIM_DEVICES", run->devices, 1);
    setenv("BELL_SIM_TREE", run->tree, 1);
    setenv("BELL_SIM_FDS", run->fds, 1);
    if (run->debug)
        setenv("BELL_SIM_DEBUG", run->debug, 1);
}

/* Whether the devices before have this form, as "record:FILE". */
static bool
has_form(const char *devices, const char *form, size_t n)
{
    const char *at = devices;

    while ((at = strchr(at, '@')) != NULL) {
        at++;
        if (strncmp(at, form, n) == 0 && (at[n] == '@' || at[n] == ';'))
            return true;
    }
    return false;
}

/* BACKEND@INTERFACE, whose bottom is a simulated kernel. */
static int
add_sim_device(struct sim_run *run, const char *device)
{
    const char *at = strchr(device, '@');
    size_t n = strlen(run->devices), n_backend = at ? (size_t)(at - device) : 0;
    const char *record;
    char backend[8] = "";

    if (n_backend == 0 || n_backend >= sizeof(backend) ||
        !kio_interface_is_sim(at + 1))
        return tool_usage(run->json,
                          "sim: '%s' is not a simulated card; AMD@sim:gfx1100, "
                          "NV@sim:sm_90",
                          device);
    memcpy(backend, device, n_backend);
    backend[n_backend] = '\0';
    record = strstr(device, "@record:");
    if (record && has_form(run->devices, record + 1, strcspn(record + 1, "@")))
        return tool_usage(run->json,
                          "sim: one file for two recordings: '%s'; each "
                          "machine's calls are a cassette",
                          device);
    if (strstr(run->devices, backend))
        return tool_usage(run->json,
                          "sim: a second machine of %s; more cards of one: "
                          "%s*2",
                          backend, device);
    if (n + strlen(device) + 2 > sizeof(run->devices))
        return tool_usage(run->json, "sim: '%.60s...' is too long", device);
    snprintf(run->devices + n, sizeof(run->devices) - n, "%s%s", n ? ";" : "",
             device);
    return TOOL_OK;
}

/* The files of /sys and /dev for a device that add_sim_device has taken. */
static bell_status
write_tree(const struct sim_run *run, const char *device)
{
    char backend[8] = "";

    memcpy(backend, device, strcspn(device, "@")); /* which fits */
    return sim_tree_write(run->tree, backend, strrchr(device, '@') + 1);
}

/* As the program ended, so does the verb. */
static int
exit_code(int wait_status)
{
    if (WIFSIGNALED(wait_status)) {
        tool_eprintf("doorbell: the program was ended by signal %d (%s)\n",
                     WTERMSIG(wait_status), strsignal(WTERMSIG(wait_status)));
        return 128 + WTERMSIG(wait_status);
    }
    return WEXITSTATUS(wait_status);
}

/* A process that removes the tree when this one has ended, or closes *out_fd.
 * It is of another session, so that what ends ours leaves it alone. */
static pid_t
start_cleaner(const char *tree, int *out_fd)
{
    int ends[2], null;
    pid_t pid;
    char byte;

    if (pipe2(ends, O_CLOEXEC) < 0)
        return -1;
    pid = fork();
    if (pid == 0) {
        setsid();
        close(ends[1]);
        null = open("/dev/null", O_RDWR | O_CLOEXEC);
        if (null >= 0) {
            dup2(null, STDIN_FILENO);
            dup2(null, STDOUT_FILENO);
            dup2(null, STDERR_FILENO);
        }
        while (read(ends[0], &byte, 1) < 0 && errno == EINTR)
            continue;
        sim_tree_remove(tree);
        _exit(0);
    }
    close(ends[0]);
    *out_fd = ends[1];
    return pid;
}

static void
end_cleaner(pid_t pid, int fd, const char *tree)
{
    close(fd);
    while (pid > 0 && waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        continue;
    sim_tree_remove(tree); /* where there was no such process */
}

static int
run_sim_program(struct sim_run *run, int n_devices, char **devices, char **argv)
{
    int i, wait_status;

    for (i = 0; i < n_devices; i++) {
        bell_status status = write_tree(run, devices[i]);

        if (status != BELL_OK)
            return tool_fail(run->json, status);
    }
    /* These are for the program; we stay to clean up. */
    run->on_interrupt = signal(SIGINT, SIG_IGN);
    run->on_quit = signal(SIGQUIT, SIG_IGN);
    wait_status = tool_run(argv, prepare_sim, run);
    if (wait_status < 0)
        return tool_fail_text(run->json, BELL_E_IO, "cannot start a process");
    return exit_code(wait_status);
}

int
verb_sim(int argc, char **argv)
{
    const char *folder = env_get("TMPDIR");
    struct sim_run run = {.debug = NULL, .json = false};
    const char *devices[DEVICES_MAX] = {NULL};
    const struct tool_opt opts[] = {
        {"DEVICE", NULL, TOOL_OPT_STRING, &devices[0], 0, 0,
         "a machine of simulated cards"},
        {"DEVICE2", NULL, TOOL_OPT_STRING, &devices[1], 0, 0,
         "another, of the other backend"},
        {"--debug", "TOPICS", TOOL_OPT_STRING, &run.debug, 0, 0,
         "what the cards tell beyond refusals, as in BELL_DEBUG: ioctl, push; "
         "quiet: nothing"},
        {"--json", NULL, TOOL_OPT_FLAG, &run.json, 0, 0,
         "why a program was not started, as one document"},
    };
    uint32_t topics;
    char text[512];
    int i, n, n_devices, code, fd = -1;
    pid_t cleaner;

    for (n = 1; n < argc && strcmp(argv[n], "--") != 0; n++)
        ;
    code = tool_parse(about, opts, ARRAY_LEN(opts), n, argv);
    if (code != TOOL_GO_ON)
        return code;
    if (!devices[0] || n + 1 >= argc)
        return tool_usage(run.json, "sim: DEVICE... -- PROGRAM ARGS");
    if (run.debug && strcmp(run.debug, "quiet") != 0 &&
        log_parse(run.debug, &topics) != BELL_OK)
        return tool_usage(run.json, "sim: --debug: %s",
                          bell_error_last()->message);
    n_devices = devices[1] ? 2 : 1;
    for (i = 0; i < n_devices; i++) {
        code = add_sim_device(&run, devices[i]);
        if (code != TOOL_OK)
            return code;
    }
    if (!tool_find_library(LIBRARY, "BELL_SIM_LIBRARY", "sim/preload",
                           run.library, sizeof(run.library)))
        return tool_fail_text(run.json, BELL_E_UNSUPPORTED,
                              "no %s beside this program; BELL_SIM_LIBRARY "
                              "names it elsewhere",
                              LIBRARY);
    if (tool_refuses_preload(argv[n + 1], text, sizeof(text)))
        return tool_fail_text(run.json, BELL_E_UNSUPPORTED, "%s", text);
    snprintf(run.fds, sizeof(run.fds), "%d", tool_trap_first());
    snprintf(run.tree, sizeof(run.tree), "%.200s/doorbell-sim-XXXXXX",
             folder && *folder == '/' ? folder : "/tmp");
    if (!mkdtemp(run.tree))
        return tool_fail_text(run.json, BELL_E_IO, "cannot create %s: %s",
                              run.tree, strerror(errno));
    cleaner = start_cleaner(run.tree, &fd);
    code = run_sim_program(&run, n_devices, (char **)devices, argv + n + 1);
    end_cleaner(cleaner, fd, run.tree);
    return code;
}
