#!/usr/bin/env python3
"""What each attention generator of lower/attention makes of a small kernel,
equal to what lies in tests/golden/attention: IR in, IR out.

usage: test_attention.py DOORBELL            compares
       test_attention.py DOORBELL --update   writes what is made now

A file has three parts: a line `; DEVICE: generator`, the kernel as the
scheduler hands it on, and behind `; expanded` the program that the generator
makes of it, before anything is decomposed. For a new case write the first two
parts and update. Programs of more than MOST lines are cut: behind the first
lines stand the number of all, a digest of all, and how often each op occurs.
"""
import collections
import difflib
import hashlib
import os
import re
import subprocess
import sys
import tempfile

GOLDEN = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'attention')
MARK = '; expanded\n'
MOST, HEAD = 360, 240  # lines of a program; of one that is cut


def compile_stages(device, kernel):
    """What `doorbell kernel --emit uops` prints: every stage."""
    env = {name: value for name, value in os.environ.items()
           if not name.startswith('BELL_')}
    with tempfile.NamedTemporaryFile('w', suffix='.ir') as file:
        file.writelines(['; attention:\n', *kernel])
        file.flush()
        return subprocess.run(
            [sys.argv[1], 'kernel', '--device', device, '--ir', file.name,
             '--emit', 'uops'], env={**env, 'BELL_CACHE': 'off'},
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            check=False)


def stage_of(text, name):
    """Lines of one stage of the one kernel."""
    lines, is_in = [], False
    for line in text.splitlines(keepends=True):
        if line.startswith(';'):
            is_in = line.endswith(f': {name}:\n')
        elif is_in:
            lines.append(line)
    return lines


def cut(lines):
    if len(lines) <= MOST:
        return lines
    ops = collections.Counter(re.sub(r'%\d+ = ', '', line).split()[0]
                              for line in lines)
    digest = hashlib.sha256(''.join(lines).encode()).hexdigest()
    return [*lines[:HEAD], f'; {len(lines)} lines, sha256 {digest}\n',
            *(f'; {n} {op}\n' for op, n in sorted(ops.items()))]


def check(path):
    """Complaints."""
    with open(path, encoding='utf-8') as file:
        head, *lines = file.readlines()
    end = lines.index(MARK) if MARK in lines else len(lines)
    kernel, want = lines[:end], lines[end + 1:]
    done = compile_stages(head[2:].split(': ')[0], kernel)
    if done.returncode:
        return [f'exit code {done.returncode}', done.stdout[:300].rstrip()]
    got = cut(stage_of(done.stdout, 'expanded'))
    if sum('= sink.' in line for line in kernel) != 1 or not got:
        return ['expected one kernel, and a program of it']
    if '--update' in sys.argv:
        with open(path, 'w', encoding='utf-8') as file:
            file.writelines([head, *kernel, MARK, *got])
        want = got
    return [line.rstrip()[:120] for line in difflib.unified_diff(
        want, got, 'golden', 'now', '', '', 0)][:30]


def main():
    names = sorted(os.listdir(GOLDEN))
    print(f'1..{len(names)}')
    for name in names:
        bad = check(os.path.join(GOLDEN, name))
        print('\n# '.join([f'{"not ok" if bad else "ok"} - {name}', *bad]),
              flush=True)


if __name__ == '__main__':
    main()
