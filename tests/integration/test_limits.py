#!/usr/bin/env python3
"""What is told where the system gives no more: the reason, in its words.

usage: test_limits.py DOORBELL [--sim]
"""
import os
import resource
import subprocess
import sys
import tempfile

from cli import DOORBELL, Tap

NOBODY = 65534
DEVICES = ['CPU'] + (['NV@sim:sm_90', 'AMD@sim:gfx1100', 'QCOM@sim:a630',
                      'QCOM@sim:a750-msm'] if '--sim' in sys.argv else [])


def limited(device, limit, value, as_nobody=False):
    """Exit code and stderr of a sum under a limit."""

    def lower():
        if as_nobody and os.geteuid() == 0:
            os.setgid(NOBODY)
            os.setuid(NOBODY)
        resource.setrlimit(limit, (value, value))

    done = subprocess.run(
        [DOORBELL, 'eval', '--device', device, 'sum(ones([3]))'],
        capture_output=True, text=True, check=False, preexec_fn=lower,
        timeout=300)
    return done.returncode, done.stderr


def threads(device):
    code, text = limited(device, resource.RLIMIT_NPROC, 1, as_nobody=True)
    if code == 1 and ('cannot start a thread: Resource temporarily unavailable'
                      in text):
        return []
    return [f'exit code {code}: {text}']


def steps(device, limit, values, word):
    """From nothing to as much as is needed: each refusal has the word."""
    n_refused = 0
    for value in values:
        code, text = limited(device, limit, value)
        if code == 0:
            return [] if n_refused else ['nothing was refused']
        if 'loading shared libraries' in text or code == 127:
            continue
        n_refused += 1
        if code != 1 or word not in text or 'not installed' in text or \
                'package' in text:
            return [f'{value}: exit code {code}: {text}']
    return ['the most is not enough']


def another_name():
    """The library's first name leads to no library, the next one does."""
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, 'libLLVM.so.19.1'), 'wb') as file:
            file.write(b'no library')
        done = subprocess.run(
            [DOORBELL, 'eval', '--device', 'CPU', 'sum(ones([3]))'],
            capture_output=True, text=True, check=False, timeout=300,
            env=dict(os.environ, LD_LIBRARY_PATH=folder))
    return [] if done.returncode == 0 else [done.stderr]


def main():
    tap = Tap()
    os.environ.pop('BELL_LLVM', None)
    tap.check('LLVM by another name', another_name())
    for device in DEVICES:
        tap.check(f'threads, {device}', threads(device))
    for device in DEVICES[1:]:
        tap.check(f'files, {device}',
                  steps(device, resource.RLIMIT_NOFILE, range(4, 60),
                        'Too many open files'))
    tap.check('memory, CPU',
              steps('CPU', resource.RLIMIT_AS,
                    range(40 << 20, 2000 << 20, 60 << 20), 'memory'))
    tap.finish()


if __name__ == '__main__':
    main()
