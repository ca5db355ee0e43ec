/* What is there beside kio_sim_create (ioctl/kio_interface.h). */
#ifndef BELL_SIM_SIM_H
#define BELL_SIM_SIM_H

/* In a forked child, before anything else of the simulators: the machines that
 * its parent had are forgotten, with all that they hold, since their threads
 * are not here. */
void kio_sim_after_fork(void);

#endif
