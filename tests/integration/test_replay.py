#!/usr/bin/env python3
"""Training steps recorded on simulated cards and replayed: by `doorbell trace
replay`, and by the driver, which makes every call and sends every word again.

usage: test_replay.py DOORBELL TRAIN_STEP DEVICE...
"""
import json
import os
import re
import subprocess
import sys
import tempfile

from cli import HERE, Tap, expect, run

SOURCE = os.path.join(HERE, '..', '..')
sys.path.insert(0, os.path.join(SOURCE, 'ioctl'))
sys.dont_write_bytecode = True
import uapigen  # noqa: E402  pylint: disable=wrong-import-position

STEP = sys.argv[2]
SPECS = [uapigen.Spec(os.path.join(SOURCE, 'ioctl', name))
         for name in ('nv.uapi', 'amdkfd.uapi', 'kgsl.uapi', 'msm.uapi')]
PROOFS = {name for spec in SPECS for name in spec.proofs}
NUMBERS = {(kind, number): name for spec in SPECS
           for kind, rows in spec.calls.items() for number, _, name in rows}
CALL = re.compile(r'ioctl -?\d+ (\w+)\((.*)')
WITHIN = (('NV_ESC_RM_CONTROL', 'control', r'\bcmd=(\w+)'),
          ('NV_ESC_RM_ALLOC', 'class', r'\bhClass=(\w+)'),
          ('NV_ESC_RM_ALLOC_MEMORY', 'class', r'hClass=(\w+)'))


def unproved(path):
    """Calls, commands and classes in a cassette that have no proof."""
    done = run('trace', 'show', '--json', path)
    if done.returncode != 0:
        return expect(done, 0)
    calls = set()
    for record in json.loads(done.stdout)['records']:
        match = CALL.match(record['text'])
        if not match:
            continue
        calls.add(match.group(1))
        for name, kind, pattern in WITHIN:
            number = re.search(pattern, match.group(2))
            if match.group(1) == name and number:
                value = int(number.group(1), 0)
                calls.add(NUMBERS.get((kind, value), f'{kind} {value:#x}'))
    return [f'{name} has no "proof" row in ioctl/*.uapi'
            for name in sorted(calls - PROOFS)] + \
        [f'only {len(calls)} kinds of calls' for c in [0] if len(calls) < 8]


def train(device, *args, before=()):
    return subprocess.run([*before, STEP, device, *args], capture_output=True,
                          text=True, timeout=300, stdin=subprocess.DEVNULL,
                          check=False)


# Processes then have their own memory where others have theirs.
NOT_RANDOM = ('setarch', '-R')


def can_choose_addresses():
    try:
        return subprocess.run([*NOT_RANDOM, 'true'], capture_output=True,
                              check=False).returncode == 0
    except OSError:
        return False


def check_addresses(tap, device, folder):
    """A driver's addresses are free where a recording is replayed, also if
    both processes have their libraries and heaps at the same ones."""
    name = f'{device}: replayed where addresses are not random'
    if not can_choose_addresses():
        tap.skip(name, f'{" ".join(NOT_RANDOM)} does not work here')
        return
    backend, form = device.split('@')
    path = os.path.join(folder, 'same')
    done = train(f'{backend}@record:{path}@{form}', before=NOT_RANDOM)
    again = train(f'{backend}@replay:{path}', before=NOT_RANDOM)
    tap.check(name, expect(done, 0) + expect(again, 0, out='loss '))


def check_device(tap, device, folder):
    backend, form = device.split('@')
    path = os.path.join(folder, form.replace(':', '-') + '.cas')
    plain = train(device)
    done = train(f'{backend}@record:{path}@{form}')
    tap.check(f'{device}: recorded, the steps give the same loss',
              expect(plain, 0, out='loss ') +
              expect(done, 0, out=plain.stdout))
    shown = run('trace', 'show', '--brief', path)
    tap.check(f'{device}: the identity has the command and says simulated',
              expect(shown, 0, out='simulated=yes\n') +
              [c for c in ['no command'] if
               f'command={STEP} {backend}@record:{path}@{form}\n'
               not in shown.stdout] +
              [f'{shown.stdout.count(" doorbell 0x")} doorbells' for c in [0]
               if shown.stdout.count(' doorbell 0x') < 5])
    if backend == 'QCOM':
        words = run('trace', 'show', path).stdout
        tap.check(f'{device}: packets are read as Adreno\'s', [
            w for w in ('EXEC_CS', 'EVENT_WRITE') if w not in words] + [
            w for w in ('ILLEGAL', 'NONINCR') if w in words])
    tap.check(f'{device}: every call has a proof', unproved(path))
    tap.check(f'{device}: trace replay', expect(
        run('trace', 'replay', path), 0, out=' 0 differences'))
    tap.check(f'{device}: replayed by the driver, the loss is the recorded one',
              expect(train(f'{backend}@replay:{path}'), 0, out=plain.stdout))
    other = train(f'{backend}@replay:{path}', '17')
    tap.check(f'{device}: other work than was recorded is told',
              expect(other, other.returncode or -1, err='of the cassette: '))
    return path


# A program and others: of another kernel, size, constant, input, result.
RECORDED = 'relu(ones([4, 4]) @ x)'
OTHERS = ('softmax(ones([4, 4]) @ x, -1)', 'exp(x)', 'arange(16)',
          'relu(ones([4, 4]) @ x) * 7', 'relu(ones([4, 4]) * 2 @ x)', 'x',
          'relu(ones([4, 4]) @ x)[0]', 'relu(x @ ones([4, 4]))',
          'relu(ones([8, 4]) @ x)', 'sum(relu(ones([4, 4]) @ x))')


def check_others(tap, device, folder):
    """Programs that are not the recorded one, and the same on another input,
    are refused; nobody gets a number that was not recorded."""
    backend, form = device.split('@')
    path, first, other = (os.path.join(folder, name) for name in
                          ('one', 'first.npy', 'other.npy'))
    for name, start in (first, 0), (other, 1):
        tap.check(f'{device}: {os.path.basename(name)}', expect(run(
            'eval', f'reshape(arange(16.) + {start}, [4, 4])', '--out', name,
            '--device', 'CPU'), 0))

    def look(program, data):
        return run('eval', program, '--in', f'x={data}', '--device',
                   f'{backend}@replay:{path}')

    done = run('eval', RECORDED, '--in', f'x={first}', '--device',
               f'{backend}@record:{path}@{form}')
    tap.check(f'{device}: the recorded program has the recorded numbers',
              expect(done, 0) + expect(look(RECORDED, first), 0,
                                       out=done.stdout))
    tap.check(f'{device}: other programs are refused', [
        complaint for program in OTHERS for now in [look(program, first)]
        for complaint in expect(now, now.returncode or -1, err='of the cassette: ') + [
            f'{program}: {now.stdout}' for _ in [0] if now.stdout]])
    tap.check(f'{device}: other inputs are refused', expect(
        look(RECORDED, other), 5, err='memory that is written'))
    with open(path, 'rb') as file:
        whole = file.read()
    old = os.path.join(folder, 'old')
    with open(old, 'wb') as file:
        file.write(whole.replace(b'told=yes', b'told=nah', 1))
    tap.check(f'{device}: a recording without results has none', expect(
        run('eval', RECORDED, '--in', f'x={first}', '--device',
            f'{backend}@replay:{old}'), 5, err='no results are in it'))


def check_diff(tap, device, folder):
    """Two runs of one program are alike wherever their processes have their
    memory and however slow one was; of two that differ, the packet is named
    that does."""
    backend, form = device.split('@')
    first, other = (os.path.join(folder, name) for name in ('a', 'b'))

    def record(path, rows):
        return expect(run(
            'eval', f'relu(ones({rows}, 4) @ ones(4, 4))', '--device',
            f'{backend}@record:{path}@{form}'), 0)

    def compare(rows, find_complaints):
        for _ in range(4):
            complaints = record(first, 4) + record(other, rows)
            complaints += find_complaints(run('trace', 'diff', first, other))
            if not complaints:
                break
        return complaints

    def same(done):
        return expect(done, 0, out='0 differences\n')

    packet = (r' +- +HLSQ_CS_NDRANGE_0.*\n +\+ +HLSQ_CS_NDRANGE_0.*\n'
              if backend == 'QCOM' else r' +- .*4.*\n +\+ .*8.*\n')

    def another_size(done):
        return expect(done, 1) + [
            f'{done.stdout}' for _ in [0] if not re.search(
                r"^ +(ring|push|descriptor)@0x\w+: \d+ of \d+ words; the first "
                r"is word \d+: 0x\w+ \| 0x\w+\n" + packet +
                r"  \^ \d+ \| \d+ doorbell", done.stdout, re.MULTILINE)]

    tap.check(f'{device}: two runs of a program', compare(4, same))
    tap.check(f'{device}: a launch of another size', compare(8, another_size))


def main():
    tap = Tap()
    with tempfile.TemporaryDirectory() as folder:
        for device in sys.argv[3:]:
            path = check_device(tap, device, folder)
            check_others(tap, device, folder)
            check_diff(tap, device, folder)
        # one of each vendor
        some = {name.split('@')[0]: name for name in sys.argv[3:]}
        for one in some.values():
            check_addresses(tap, one, folder)
        name = f'{device.split("@")[0]}@replay:{path}'
        tap.check('selftest is for what computes', expect(
            run('selftest', name), 6, err='computes nothing'))
        tap.check('and of one step, the cassette is what to look at', expect(
            run('selftest', name, '--only', 'fill'), 1,
            out='look at  the cassette: '))
    tap.finish()


if __name__ == '__main__':
    main()
