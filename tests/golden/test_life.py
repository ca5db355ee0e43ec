#!/usr/bin/env python3
"""What a device's life asks of the kernel and sends to the card, and what
becomes of it when a call fails, equal to what lies in tests/golden/life: every
call with its argument, every submission word by word (life.c).

usage: test_life.py LIFE PREFIX [KIND]      files whose names begin with it
       test_life.py LIFE PREFIX --update    writes them anew

A file's first line tells the device, with what goes into the environment, and
what is there: `whole`; `brief`, a number for each argument and submission (to
see what has changed, run LIFE without --brief, before and after); `fail`, what
becomes of a call that fails; `starve`, of an allocation; `lie`, of an answer
with another word; `cassette`, what a recorder writes.
"""
import difflib
import os
import subprocess
import sys

GOLDEN = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'life')
OPTIONS = {'whole': [], 'brief': ['--brief'], 'fail': ['--fail', '5'],  # EIO
           'starve': ['--starve'], 'cassette': ['--cassette'],
           'lie': ['--lie']}


def life(kind, device):
    name, *settings = device.split('+')
    env = {**os.environ, **dict(s.split('=', 1) for s in settings)}
    return subprocess.run([sys.argv[1], *OPTIONS[kind], name], env=env,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, check=False)


def kind_of(path):
    with open(path, encoding='utf-8') as file:
        return file.readline().split()[1]


def check(path):
    """Complaints."""
    with open(path, encoding='utf-8') as file:
        head, *want = file.readlines()
    done = life(*head.split()[1:])
    got = done.stdout.splitlines(keepends=True)
    if '--update' in sys.argv:
        with open(path, 'w', encoding='utf-8') as file:
            file.writelines([head, *got])
        want = got
    bad = [f'exit code {done.returncode}'] if done.returncode else []
    return bad + [line.rstrip()[:300] for line in difflib.unified_diff(
        want, got, 'golden', 'now', '', '', 0)][:30]


def main():
    paths = [os.path.join(GOLDEN, name) for name in sorted(os.listdir(GOLDEN))
             if name.startswith(sys.argv[2])]
    if sys.argv[3:] and sys.argv[3] in OPTIONS:
        paths = [path for path in paths if kind_of(path) == sys.argv[3]]
    print(f'1..{len(paths)}')
    for path in paths:
        bad = check(path)
        print('\n# '.join([f'{"not ok" if bad else "ok"} - '
                           f'{os.path.basename(path)}', *bad]), flush=True)


if __name__ == '__main__':
    main()
