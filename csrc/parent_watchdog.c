#if defined(__linux__) && !defined(_GNU_SOURCE)
#define _GNU_SOURCE
#endif

#include "control.h"

#ifdef _WIN32
#define WIN32_LEAN_AND_MEAN
#include <windows.h>
#else
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/types.h>
#include <unistd.h>
#endif

#ifdef __linux__
#include <sys/syscall.h>
#endif

#ifdef _WIN32

bool gv_parent_alive(int64_t pid)
{
    if (pid < 1 || pid > UINT32_MAX)
        return false;
    HANDLE process = OpenProcess(SYNCHRONIZE, FALSE, (DWORD)pid);
    if (process == NULL)
        return GetLastError() == ERROR_ACCESS_DENIED;
    bool alive = WaitForSingleObject(process, 0) == WAIT_TIMEOUT;
    CloseHandle(process);
    return alive;
}

gv_status gv_watch_parent(int64_t pid, bool polling)
{
    (void)polling;
    if (pid < 1 || pid > UINT32_MAX)
        return GV_BAD_ENV;
    if (!gv_parent_alive(pid))
        ExitProcess(GV_ORPHANED);
    return GV_OK;
}

#else

#define WATCH_MS 200           /* of the fallback: gone within a second, five wake-ups a second */
#define WATCH_STACK (1u << 18) /* large libraries take their thread-local data from the stack */

struct watch {
    pid_t pid;
    int fd;         /* a pidfd, or -1 */
    bool by_parent; /* `pid` was our parent: it is gone once it no longer is */
};

static bool there(pid_t pid)
{
    return kill(pid, 0) == 0 || errno != ESRCH;
}

static bool is_pid(int64_t pid)
{
    return pid >= 1 && (int64_t)(pid_t)pid == pid;
}

bool gv_parent_alive(int64_t pid)
{
    return is_pid(pid) && there((pid_t)pid);
}

static void *keep_watch(void *argument)
{
    struct watch self = *(struct watch *)argument;
    free(argument);
    for (;;) {
        struct pollfd entry = {self.fd, POLLIN, 0};
        int ready = poll(&entry, self.fd >= 0 ? 1 : 0, self.fd >= 0 ? -1 : WATCH_MS);
        if (self.fd >= 0 ? ready > 0 : !(self.by_parent ? getppid() == self.pid : there(self.pid)))
            break;
    }
    /* Not exit(): its handlers would wait for the environment that is stuck. */
    _exit(GV_ORPHANED);
}

/* The worker's signals are its main thread's: the watch is started with all of them blocked. */
static gv_status start_watch(struct watch *argument)
{
    sigset_t all, before;
    pthread_attr_t attributes;
    pthread_t thread;
    sigfillset(&all);
    if (pthread_attr_init(&attributes) != 0)
        return GV_NO_MEMORY;
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attributes, WATCH_STACK);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&thread, &attributes, keep_watch, argument);
    if (error != 0) {
        pthread_attr_destroy(&attributes);
        pthread_attr_init(&attributes);
        pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
        error = pthread_create(&thread, &attributes, keep_watch, argument);
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    return error == 0 ? GV_OK : GV_NO_MEMORY;
}

gv_status gv_watch_parent(int64_t pid, bool polling)
{
    if (!is_pid(pid))
        return GV_BAD_ENV;
    struct watch *argument = malloc(sizeof *argument);
    if (argument == NULL)
        return GV_NO_MEMORY;
    argument->pid = (pid_t)pid;
    argument->fd = -1;
    argument->by_parent = getppid() == (pid_t)pid;
#if defined(__linux__) && defined(SYS_pidfd_open) && !defined(GV_PORTABLE)
    if (!polling) {
        argument->fd = (int)syscall(SYS_pidfd_open, argument->pid, 0);
        if (argument->fd < 0 && errno == ESRCH)
            _exit(GV_ORPHANED);
    }
#else
    (void)polling;
#endif
    /* Asked after the pidfd is open. Still our parent: the pidfd is the parent's, not that of a
     * process that was given its number since. No longer, or not there at all: too late. */
    if (argument->by_parent ? getppid() != argument->pid : !there(argument->pid))
        _exit(GV_ORPHANED);
    gv_status status = start_watch(argument);
    if (status != GV_OK) {
        if (argument->fd >= 0)
            close(argument->fd);
        free(argument);
    }
    return status;
}

#endif
