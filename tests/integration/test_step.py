#!/usr/bin/env python3
"""`doorbell step` on simulated cards and on recordings of them: what it stops
at and shows, by hand, by pipe and by script.

usage: test_step.py DOORBELL
"""
import json
import os
import pty
import re
import shlex
import struct
import subprocess
import sys
import tempfile

from cli import DOORBELL, Tap, expect, run, schema_complaints

EXPRESSION = ('(x + 1).sum()', '--in', 'x=64')
CARDS = {'NV@sim:sm_90': 'NV@record:{}@sim:sm_90',
         'AMD@sim:gfx1100': 'AMD@record:{}@sim:gfx1100',
         'AMD@sim:gfx90a': 'AMD@record:{}@sim:gfx90a'}


def step(commands, *args):
    """A session by a pipe; commands are lines."""
    return subprocess.run([DOORBELL, 'step', *args], capture_output=True,
                          text=True, input='\n'.join(commands) + '\n',
                          check=False, timeout=300)


def lines_of(commands, *args):
    """The same as a document: (exit code, steps, complaints)."""
    done = step(commands, *args, '--json')
    complaints = schema_complaints('step', done.stdout)
    if complaints:
        return done.returncode, [], complaints + done.stderr.splitlines()
    return done.returncode, json.loads(done.stdout)['steps'], []


def check_card(tap, device):
    commands = ['submit', 'packet 2', 'show', 'kernel', 'regs', 'wave',
                'regs', 'insn 3', 'regs', 'show']
    code, steps, complaints = lines_of(commands, device, *EXPRESSION)
    if code:
        complaints.append(f'exit code {code}')
    got = {s['command'] + str(i): s for i, s in enumerate(steps)}
    kinds = [s['stop'] and s['stop']['kind'] for s in steps]
    if kinds != ['submit', 'packet', None, 'kernel', None, 'wave', None,
                 'instruction', None, None]:
        complaints.append(f'stops: {kinds}')
    tap.check(f'{device}: stops', complaints)
    if complaints:
        return
    kernel = got['kernel3']['stop']['kernel']
    is_nv = device.startswith('NV')
    parts = {
        'show2': r'^    0+: [0-9a-f]{8} \S', 'kernel3': r'kernel: \w+, code at',
        'regs4': 'SHADER_LOCAL_MEMORY_WINDOW|COMPUTE_PGM_RSRC1 = .*VGPRS=',
        'wave5': rf'(warp|wave) 0 of group 0, 0, 0 of {kernel}',
        'regs6': 'active = 0x0000ffff' if is_nv else
                 r'v0\[0\]: 00000000 00000001|exec = 0x0*ffff$',
        'insn7': r'line \d+: \S+' if is_nv else '0x[0-9a-f]+: [0-9a-f]{8}',
        'regs8': r'%\w+ = 0x\w+ in 16 lanes' if is_nv else 's0 = 0x'}
    tap.check(f'{device}: what is shown', [
        f'{key} lacks {part}: {got[key]["lines"]}'
        for key, part in parts.items()
        if not any(re.search(part, line) for line in got[key]['lines'])] + [
            f'{got["insn7"]["stop"]}' for _ in [0]
            if got['insn7']['stop']['kernel'] != kernel or
            got['show9']['lines'] != got['insn7']['lines']])
    plain = step(commands, device, *EXPRESSION)
    # addresses of AMD's are the process's
    def same(text):
        return re.sub('0x[0-9a-f]+|[0-9a-f]{6,}', 'N', text)
    tap.check(f'{device}: text is what the document has', [
        'it is not' for _ in [0] if [
            same(line) for s in steps for line in s['lines']
        ] != [same(line) for line in plain.stdout.splitlines()]])
    check_breaks(tap, device, kernel, got['kernel3']['stop']['address'])


def check_breaks(tap, device, kernel, address):
    code, steps, complaints = lines_of(
        ['break nothing', f'break {kernel}', 'continue', 'mem 0x10 4',
         'delete', 'continue'], device, *EXPRESSION)
    stops = [s['stop'] for s in steps]
    complaints += [f'{stops}' for _ in [0] if complaints == [] and (
        not stops[2] or stops[2]['kernel'] != kernel or stops[5])]
    complaints += [f'{s}' for s in steps[3:4] if 'not mapped' not in
                   s['lines'][0]]
    if code != 1:
        complaints.append(f'exit code {code}')
    tap.check(f'{device}: a breakpoint by name', complaints)
    # the address of a fresh process is another one, but for NVIDIA's
    if device.startswith('NV'):
        code, steps, complaints = lines_of(
            [f'break 0x{address}', 'continue', f'mem 0x{address} 4'], device,
            *EXPRESSION)
        tap.check(f'{device}: a breakpoint by address', complaints + [
            f'{steps}' for _ in [0] if complaints == [] and (
                not steps[1]['stop'] or
                steps[1]['stop']['address'] != address or code or
                not re.search(': [0-9a-f]{8} ', steps[2]['lines'][0]))])


def check_memory(tap, device):
    """A kernel's result lies in memory when the packets behind it come."""
    code, steps, complaints = lines_of(
        ['kernel', 'submit 100'], device, 'full((64,), 3.0) + x', '--in',
        'x=64')
    tap.check(f'{device}: to the end', complaints + [
        f'exit code {code}, {steps}' for _ in [0]
        if code or steps[1]['stop'] or
        steps[1]['lines'] != ['the program has ended']])


def check_semaphores(tap, device):
    """The second of two kernels is behind what tells of the first."""
    code, steps, complaints = lines_of(
        ['kernel 3'] + ['packet 3'] * device.startswith('AMD') + ['sem'],
        device,
        'softmax(x @ x, -1).sum()', '--in', 'x=64x64')
    tap.check(f'{device}: semaphores', complaints + [
        f'exit code {code}, {steps}' for _ in [0]
        if code or not re.match(r'  0x[0-9a-f]+: \d+$',
                                steps[-1]['lines'][0])])


def check_replay(tap, device, recorded, folder):
    path = os.path.join(folder, 'r.cas')
    x = os.path.join(folder, 'x.npy')
    head = "{'descr': '<f4', 'fortran_order': False, 'shape': (64,), }"
    with open(x, 'wb') as file:
        file.write(b'\x93NUMPY\x01\x00' + struct.pack('<H', 118) +
                   (head.ljust(117) + '\n').encode() +
                   struct.pack('<64f', *range(64)))
    done = run('eval', EXPRESSION[0], '--in', f'x={x}', '--device',
               recorded.format(path))
    code, steps, complaints = lines_of(
        ['submit', 'packet 2', 'show', 'kernel', 'regs', 'wave'], '--replay',
        path)
    complaints = expect(done, 0, out='2080') + complaints
    kinds = [s['stop'] and s['stop']['kind'] for s in steps]
    if kinds != ['submit', 'packet', None, 'kernel', None, None] or code:
        complaints.append(f'exit code {code}, {kinds}')
    elif not any(re.search('SET_OBJECT|COMPUTE_PGM_RSRC1', line)
                 for line in steps[4]['lines']):
        complaints.append(f'{steps[4]}')
    elif device.startswith('NV') and not any(
            'PROGRAM_ADDRESS' in line for line in steps[3]['lines']):
        complaints.append(f'{steps[3]}')
    tap.check(f'{device}: a replay', complaints)
    os.remove(path)


def check_hand(tap, folder):
    """A terminal gets a prompt; a script gives what a pipe gives."""
    commands = ['kernel', 'w', 'r act', '# nothing', '', 'q']
    device = 'NV@sim:sm_90'
    ours, theirs = pty.openpty()
    with subprocess.Popen([DOORBELL, 'step', device, *EXPRESSION],
                          stdin=theirs, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True) as process:
        os.write(ours, ('\n'.join(commands) + '\n').encode())
        out, err = process.communicate(timeout=300)
    os.close(ours)
    os.close(theirs)
    script = os.path.join(folder, 'script')
    with open(script, 'w', encoding='utf-8') as file:
        file.write('\n'.join(commands))
    by_script = run('step', device, *EXPRESSION, '--script', script)
    tap.check('by hand', [f'{out} {err}' for _ in [0]
                          if err.count('(step) ') != len(commands) or
                          'active = 0x0000ffff' not in out])
    tap.check('by script', expect(by_script, 0) + [
        by_script.stdout for _ in [0] if by_script.stdout != out])


def check_page(tap):
    """The session in docs/how-to/step.md: its kernel, and what its lines begin
    with;     registers and line numbers are the compiler's."""
    page = os.path.join(os.path.dirname(os.path.abspath(__file__)),
                        '../../docs/how-to/step.md')
    with open(page, encoding='utf-8') as file:
        lines = file.read().split('```\n')[1].splitlines()
    args = shlex.split(lines[0])[3:]
    prompt = '(step) '
    done = step([l[len(prompt):] for l in lines if l.startswith(prompt)], *args)
    want = [l for l in lines[1:] if not l.startswith(prompt)]
    got = done.stdout.splitlines()

    def begin(line):
        return re.match(r'kernel: \w+|\s*(\w+|%)', line)[0]
    tap.check('the page\'s session', expect(done, 0) + [
        f'{got}, on the page {want}' for _ in [0]
        if [begin(l) for l in got] != [begin(l) for l in want]])


def check_mistakes(tap):
    tap.check('a device that is none', expect(
        run('step', 'CPU', 'x', '--in', 'x=4'), 6, err='no simulated card'))
    tap.check('no expression', expect(run('step', 'NV@sim:sm_90'), 2,
                                      err='which EXPR'))
    tap.check('both', expect(
        run('step', 'NV@sim:sm_90', 'x', '--replay', 'f'), 2))
    tap.check('no cassette', expect(run('step', '--replay', '/none'), 1,
                                    err='/none'))
    tap.check('no script', expect(
        run('step', 'NV@sim:sm_90', '1', '--script', '/none'), 1,
        err='/none'))
    tap.check('a wrong expression', expect(
        run('step', 'NV@sim:sm_90', 'y'), 1, err='column 1'))
    done = step(['jump', 'kernel x', 'regs', 'mem', 'break', 'break 0xzz',
                 's', 'help'], 'NV@sim:sm_90', *EXPRESSION)
    tap.check('wrong commands', expect(done, 1, out="no command 'jump'") + [
        f'{part}: {done.stdout}' for part in (
            "'x' is no number", 'is not held', "'0xzz' is no address",
            "no command 's'", 'semaphores that packets')
        if part not in done.stdout])


def main():
    tap = Tap()
    with tempfile.TemporaryDirectory() as folder:
        for device, recorded in CARDS.items():
            check_card(tap, device)
            check_memory(tap, device)
            check_semaphores(tap, device)
            check_replay(tap, device, recorded, folder)
        check_hand(tap, folder)
    check_page(tap)
    check_mistakes(tap)
    tap.finish()


if __name__ == '__main__':
    main()
