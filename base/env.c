/* Reading the environment. */
#include "base/env.h"

#include <stdlib.h>

const char *
env_get(const char *name)
{
    return secure_getenv(name);
}
