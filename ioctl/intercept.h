/* What a library of ours does that is preloaded into other programs: it stands
 * before the C library's open, close, ioctl, mmap and munmap, and catches the
 * ioctl and mmap calls that go past it.
 *
 * intercept.c exports the C library's names and hands each call to the
 * kio_seen_* function of the library that it is linked into. Results and errno
 * are as the C library's; a library lets a call go on with kio_real_*.
 *
 * The trap is for programs that reach the C library by a handle of their own
 * (Python's ctypes) or make system calls by themselves: a seccomp filter stops
 * ioctl and mmap of files whose number is in a reserved range, and the handler
 * of SIGSYS hands them to the same functions. So a library gives numbers of
 * that range to the files that it is about.
 *
 * Filters outlive exec: children of the program have them too, so the range
 * must be the same in all of them, and a child without the library that makes
 * such a call is killed. SIGSYS is never blocked: the functions that block
 * signals are stood before as well.
 */
#ifndef BELL_IOCTL_INTERCEPT_H
#define BELL_IOCTL_INTERCEPT_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* ---- given by the library --------------------------------------------- */

/* `dir` is as openat's; `mode` counts only where flags ask for a new file. */
int kio_seen_open(int dir, const char *path, int flags, mode_t mode);
int kio_seen_close(int fd);
int kio_seen_ioctl(int fd, unsigned long request, void *arg);
void *kio_seen_mmap(void *addr, size_t n, int prot, int flags, int fd,
                    off_t offset);
int kio_seen_munmap(void *addr, size_t n);

/* ---- the calls behind us (intercept.c) -------------------------------- */

/* Finds them; before that they go straight to the kernel. */
void kio_real_init(void);
int kio_real_open(int dir, const char *path, int flags, mode_t mode);
int kio_real_close(int fd);
/* Also on files whose calls are trapped. */
int kio_real_ioctl(int fd, unsigned long request, void *arg);
void *kio_real_mmap(void *addr, size_t n, int prot, int flags, int fd,
                    off_t offset);
int kio_real_munmap(void *addr, size_t n);

/* ---- the trap (intercept_trap.c) -------------------------------------- */

#define KIO_TRAP_FDS 256

/* Traps calls on KIO_TRAP_FDS files from `first` on in this thread, those that
 * it starts, and all children; once, also where a parent has done so. False
 * where the kernel refuses, with errno. Gives up gaining privileges by exec
 * (PR_SET_NO_NEW_PRIVS). */
bool kio_trap_install(int first);
/* Whether calls on the file are trapped. */
bool kio_trap_has(int fd);
/* Gives the file a number that is trapped and closes the old one, which stays
 * where there is no trap or no number is left. */
int kio_trap_move(int fd);

#endif
