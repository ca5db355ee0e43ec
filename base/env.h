/* The environment, which a program with more rights than who started it
 * (setuid, setgid, file capabilities: AT_SECURE) does not listen to. */
#ifndef BELL_BASE_ENV_H
#define BELL_BASE_ENV_H

/* A variable's value; NULL where it is not set, or not to be trusted. */
const char *env_get(const char *name);

#endif
