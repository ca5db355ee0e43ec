#!/usr/bin/env python3
"""What the drivers ask of the kernel, call by call with every argument: from
opening a simulated card to closing it, with some commands in between, equal
to what lies in tests/golden/calls.

usage: test_calls.py DOORBELL DEVICE...
       test_calls.py DOORBELL --update DEVICE...    writes the files
"""
import difflib
import json
import os
import re
import sys
import tempfile

from cli import HERE, Tap, expect, run

GOLDEN = os.path.join(HERE, '..', 'golden', 'calls')
# Addresses in this process, clocks.
VARIES = re.compile(r'\b0x[567][0-9a-f]{11}\b|(?<=_counter=)\w+')
# What depends on where the C library maps, and on when a thread looks.
LEFT_OUT = re.compile(r'munmap |update |doorbell |sample ')


def calls(device, folder, **env):
    """(complaints, lines): again and again the same call is one line."""
    backend, form = device.split('@')
    path = os.path.join(folder, 'calls.cas')
    done = run('selftest', f'{backend}@record:{path}@{form}', '--only', 'fill',
               **env)
    shown = run('trace', 'show', '--json', path)
    complaints = expect(done, 0) + expect(shown, 0)
    lines = []
    for record in [] if complaints else json.loads(shown.stdout)['records']:
        line = VARIES.sub('*', record['text']) + '\n'
        if not LEFT_OUT.match(line) and lines[-1:] != [line]:
            lines.append(line)
    return complaints, lines


def main():
    tap = Tap()
    devices = [a for a in sys.argv[2:] if a != '--update']
    with tempfile.TemporaryDirectory() as folder:
        for device in devices:
            name, _, model = device.partition('+')
            env = {'BELL_NV_VM': model} if model else {}
            complaints, lines = calls(name, folder, **env)
            path = os.path.join(GOLDEN, device.replace('@sim:', '-') + '.txt')
            if '--update' in sys.argv:
                with open(path, 'w', encoding='utf-8') as file:
                    file.writelines(lines)
            with open(path, encoding='utf-8') as file:
                differences = [*difflib.unified_diff(
                    file.readlines(), lines, 'golden', 'now', '', '', 0)]
            tap.check(f'{device}: the calls are those of {os.path.basename(path)}',
                      complaints + [d.rstrip() for d in differences[:20]])
    tap.finish()


if __name__ == '__main__':
    main()
