/* Who steps through this process's simulated cards. File-scope state: they are
 * the process's. */
#include "ioctl/sim_step.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>

static struct {
    pthread_mutex_t lock; /* held while somebody is called */
    _Atomic uint32_t stops;
    sim_step_fn *fn; /* NULL: nobody looks */
    void *user;
} stepping = {.lock = PTHREAD_MUTEX_INITIALIZER};

void
sim_step_begin(sim_step_fn *fn, void *user, uint32_t stops)
{
    pthread_mutex_lock(&stepping.lock);
    assert(fn && !stepping.fn);
    stepping.fn = fn;
    stepping.user = user;
    pthread_mutex_unlock(&stepping.lock);
    atomic_store(&stepping.stops, stops);
}

void
sim_step_want(uint32_t stops)
{
    atomic_store(&stepping.stops, stops);
}

void
sim_step_end(void)
{
    atomic_store(&stepping.stops, 0);
    pthread_mutex_lock(&stepping.lock);
    stepping.fn = NULL;
    pthread_mutex_unlock(&stepping.lock);
}

bool
sim_step_wants(enum sim_stop kind)
{
    return atomic_load_explicit(&stepping.stops, memory_order_relaxed) >> kind &
           1;
}

void
sim_step_tell(const struct sim_place *place)
{
    pthread_mutex_lock(&stepping.lock);
    /* another's stop may have changed what is wanted */
    if (stepping.fn && sim_step_wants(place->kind))
        stepping.fn(stepping.user, place);
    pthread_mutex_unlock(&stepping.lock);
}
