#!/bin/sh
# cc as mutate.py's third build has it: counts the lines of the driver half,
# and tells them also in children of tests that end with _exit.
here=$(dirname "$0")
ccache=$(command -v ccache)
case " $* " in
# what stands before the C library's functions must be read before its headers
*\ ../../ioctl/intercept*.c\ *) exec $ccache cc "$@" --coverage ;;
*\ ../../base/*.c\ * | *\ ../../ioctl/*.c\ * | *\ ../../mem/*.c\ * | *\ ../../hcq/*.c\ *)
    exec $ccache cc "$@" --coverage -include "$here/count_lines.h"
    ;;
# nobody counts the others' lines: they may be quick
*\ ../../tests/*.c\ *)
    exec $ccache cc "$@" -O2 -include "$here/count_lines.h"
    ;;
*\ -c\ *) exec $ccache cc "$@" -O2 ;;
esac
exec $ccache cc "$@" --coverage
