#!/usr/bin/env python3
"""Names and values from elsewhere with control characters in them: whatever is
printed of them, a terminal has nothing to obey. Newlines and tabs stay.

usage: test_controls.py DOORBELL [--sim]
"""
import os
import re
import subprocess
import sys
import tempfile

from cli import DOORBELL, HERE, Tap
from test_top import PCI, add_process, amd_machine, fdinfo

# Escape, bell, return, DEL, C1 as UTF-8, C1 as a byte, UTF-8 cut short.
BAD = b'\x1b[31m\x07\r\x7f\xc2\x9b5m\x9b\xe2\x82'
GOOD = 'é€😀'
ARRAY = (b"\x93NUMPY\x01\x00\x46\x00{'descr': '<f4', 'fortran_order': False, "
         b"'shape': (1,), }\n")


def complaints_of(args, **environment):
    env = {os.fsencode(k): os.fsencode(v) for k, v in
           {**os.environ, **environment}.items()}
    program = os.fsencode(os.path.abspath(DOORBELL))
    with tempfile.TemporaryDirectory() as here: # names may be made there
        done = subprocess.run([program, *map(os.fsencode, args)],
                              capture_output=True, env=env, timeout=120,
                              stdin=subprocess.DEVNULL, check=False, cwd=here)
    found = []
    if done.returncode < 0:
        found.append(f'signal {-done.returncode}')
    for name, text in (('stdout', done.stdout), ('stderr', done.stderr)):
        try:
            decoded = text.decode()
            bad = re.search('[\x00-\x09\x0b-\x1f\x7f-\x9f]', decoded)
            if bad:
                at = bad.start()
                found.append(f'{name}: {decoded[max(at - 60, 0):at + 20]!r}')
        except UnicodeDecodeError as error:
            found.append(f'{name}: {error}')
    return found, done


def variables():
    path = os.path.join(HERE, '..', '..', 'docs', 'reference',
                        'environment.md')
    with open(path, encoding='utf-8') as file:
        return sorted(set(re.findall(r'^\| `(BELL_\w+)', file.read(), re.M)))


def check_variables(tap):
    names = variables()
    tap.check('the variables are found', [] if len(names) > 20 else names)
    for name in names:
        found = []
        for value in (BAD, b'CPU:' + BAD, b'1,' + BAD + b'=2'):
            for verb in (['eval', '--device', 'CPU', 'sum(ones([3]))'],
                         ['devices']):
                found += complaints_of(verb, **{name: value})[0]
        tap.check(f'{name}', found)


def check_arguments(tap, folder):
    name = os.path.join(os.fsencode(folder), BAD)
    array = os.path.join(os.fsencode(folder), b'a' + BAD + b'.npy')
    with open(array, 'wb') as file:
        file.write(ARRAY[:20])
    rows = [
        [BAD], [b'--' + BAD], [b'devices', BAD], [b'devices', b'--' + BAD],
        [b'eval', b'--device', BAD, b'1'],
        [b'eval', b'--device', b'CPU', BAD],
        [b'eval', b'--device', b'CPU', b'x + "' + BAD + b'"'],
        [b'eval', b'--device', b'CPU', b'--math', BAD, b'ones([1])'],
        [b'eval', b'--device', b'CPU', b'x', b'--in', b'x=' + name + b'.npy'],
        [b'eval', b'--device', b'CPU', b'x', b'--in', b'x=' + array],
        [b'eval', b'--device', b'CPU', b'x', b'--in', BAD],
        [b'eval', b'--device', b'CPU', b'ones([1])', b'--out',
         name + b'/x.npy'],
        [b'run', name], [b'run', array, b'--device', b'CPU'],
        [b'trace', b'show', name], [b'trace', b'show', array],
        [b'trace', b'replay', array, b'--device', BAD],
        [b'trace', b'record', name, b'--', name],
        [b'profile', name], [b'profile', array], [b'decode', name],
        [b'decode', BAD], [b'step', BAD], [b'step', b'--script', name],
        [b'top', b'--once', b'--root', name], [b'top', BAD],
        [b'sim', BAD, b'--', b'true'], [b'sim', b'NV@sim:sm_90', b'--', name],
        [b'kernel', BAD], [b'tune', BAD], [b'cache', BAD], [b'demo', BAD],
        [b'demo', b'llama', name], [b'burn', BAD], [b'bench', BAD],
        [b'bench', b'--against', name], [b'selftest', BAD], [b'fuzz', BAD],
        [b'doctor', BAD],
    ]
    for row in rows:
        shown = b' '.join(row).replace(os.fsencode(folder), b'')
        label = re.sub('[^ -~]', '?', shown.decode('ascii', 'replace'))[:60]
        tap.check(label, complaints_of(row)[0])
        if row[0] in (b'devices', b'eval', b'run'):
            tap.check(label + ' --json', complaints_of(row + [b'--json'])[0])


def check_names(tap, folder):
    """Processes, devices and what else a system tells."""
    machine = amd_machine(folder)
    node = '/dev/dri/renderD129'
    text = BAD.decode('latin-1')
    add_process(machine, 4242, 'name' + GOOD, [(node, fdinfo(7, 1, 1, 1))])
    add_process(machine, 4243, 'name', [
        (node, fdinfo(8, 1, 1, 1) + f'drm-engine-{text[:5]}:\t5 ns\n')])
    with open(f'{machine.root}/proc/4243/comm', 'wb') as file:
        file.write(BAD + b'\n')
    for path, head in (('/proc/cpuinfo', b'processor\t: 0\nmodel name\t: '),
                       ('/sys/module/amdgpu/version', b''),
                       (PCI + '/current_link_speed', b'')):
        os.makedirs(os.path.dirname(machine.root + path), exist_ok=True)
        with open(machine.root + path, 'wb') as file:
            file.write(head + BAD + b'\n')
    for verb in (['top', '--once'], ['top', '--once', '--json'], ['devices'],
                 ['devices', '--json'], ['doctor']):
        found, done = complaints_of([*verb, '--root', machine.root])
        if verb == ['top', '--once'] and not found:
            out = done.stdout.decode()
            found = [f'no {part}: {out}' for part in (
                '\\x1b[31m\\x07', '\\x7f\\xc2\\x9b5m\\x9b', f'name{GOOD}')
                     if part not in out]
        tap.check(f'{" ".join(verb)} of a machine', found)


def main():
    tap = Tap()
    with tempfile.TemporaryDirectory() as folder:
        check_variables(tap)
        check_arguments(tap, folder)
        check_names(tap, folder)
    tap.finish()


if __name__ == '__main__':
    sys.exit(main())
