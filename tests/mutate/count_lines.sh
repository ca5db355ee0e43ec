#!/bin/sh
# gcc as mutate.py's third build has it: counts the lines of the driver half,
# and tells them also in children that end with _exit.
here=$(dirname "$0")
case " $* " in
*-source/base/*.c\ * | *-source/ioctl/*.c\ * | *-source/mem/*.c\ * | *-source/hcq/*.c\ *)
    exec gcc "$@" --coverage -include "$here/count_lines.h"
    ;;
*\ -c\ *) exec gcc "$@" -include "$here/count_lines.h" ;;
esac
exec gcc "$@" --coverage
