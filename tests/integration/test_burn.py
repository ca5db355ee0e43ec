#!/usr/bin/env python3
"""`doorbell burn`: good devices pass, a bit that turns over is found.

usage: test_burn.py DOORBELL [--sim]
"""
import json
import re
import signal
import subprocess
import sys

from cli import DOORBELL, Tap, expect, run, schema_complaints

GOOD = ('NV@sim:sm_80', 'NV@sim:sm_90', 'NV@sim:sm_120', 'AMD@sim:gfx90a',
        'AMD@sim:gfx942', 'AMD@sim:gfx1100')
# Every so-many-th kernel or copy: every writer's turn comes, whatever a round
# has of them, because these have no common factor.
EVERY = (7, 23, 41)


def check_good(tap, device):
    done = run('burn', device, '--seconds', '0.1', '--json')
    complaints = expect(done, 0) + schema_complaints('burn', done.stdout)
    if not complaints:
        document = json.loads(done.stdout)
        if document['verdict'] != 'passed' or document['errors']:
            complaints.append(f'{document}')
    tap.check(f'burn {device}', complaints)


def check_flip(tap, device, every):
    """The bit is told, and nothing else."""
    name = f'{device},flip={every}'
    for seconds in ('0.4', '2', '15', '150'): # a slow machine needs more
        done = run('burn', name, '--seconds', seconds, '--json')
        if done.returncode != 0:
            break
    complaints = expect(done, 1) + schema_complaints('burn', done.stdout)
    if not complaints:
        document = json.loads(done.stdout)
        for error in document['errors']:
            differs = int(error['want'], 16) ^ int(error['got'], 16)
            if not differs >> error['bit'] & 1 or (
                    differs & ((1 << error['bit']) - 1)):
                complaints.append(f'{error}')
    tap.check(f'burn {name}', complaints)


def check_series(tap):
    """A line each interval, the rest as one more; the worst clock."""
    done = run('burn', 'NV@sim:sm_90', '--seconds', '1', '--interval', '0.2',
               '--json')
    complaints = expect(done, 0) + schema_complaints('burn', done.stdout)
    if not complaints:
        document = json.loads(done.stdout)
        times = [m['time_s'] for m in document['series']]
        if len(times) < 2 or times != sorted(times) or (
                abs(times[-1] - document['time_s']) > 1) or (
                document['clock_worst_mhz'] != 1980) or not all(
                    m['rate_gflops'] > 0 and m['clock_mhz'] in (None, 1980)
                    for m in document['series'][:1]):
            complaints.append(f'{document}')
    tap.check('a series', complaints)
    text = run('burn', 'NV@sim:sm_90', '--seconds', '1', '--interval', '0.2')
    lines = [line for line in text.stdout.splitlines() if re.match(
        r'NV:0@sim:sm_90 \(simulated\): \d+ s: [0-9.]+ GFLOP/s, 1980 MHz, '
        '0 errors', line)]
    tap.check('the same as text', expect(
        text, 0, out='worst clock: 1980 MHz') + [
            text.stdout] * (len(lines) < 2))


def check_several(tap):
    """A backend without an index is all of its devices."""
    done = run('burn', 'NV@sim:sm_90*2', '--seconds', '0.1', '--json')
    complaints = expect(done, 0) + schema_complaints('burn', done.stdout)
    if not complaints:
        document = json.loads(done.stdout)
        names = [d['device'] for d in document['devices']]
        if names != ['NV:0@sim:sm_90*2', 'NV:1@sim:sm_90*2'] or (
                document['verdict'] != 'passed'):
            complaints.append(f'{document}')
    tap.check('all cards of a backend', complaints)
    text = run('burn', 'NV@sim:sm_90*2', '--seconds', '0.1')
    tap.check('the same as text', expect(text, 0, out='passed: 2 of 2 devices') +
              expect(text, 0, out='NV:1@sim:sm_90*2: '))
    one = run('burn', 'NV:1@sim:sm_90*2', '--seconds', '0.1', '--json')
    tap.check('one of them', expect(one, 0) + [
        f'{one.stdout}' for _ in [0] if one.returncode == 0 and
        json.loads(one.stdout)['device'] != 'NV:1@sim:sm_90*2'])
    bad = run('burn', 'NV@sim:sm_90*2,flip=7', '--seconds', '3', '--json')
    tap.check('a bit of one of several', expect(bad, 1) +
              schema_complaints('burn', bad.stdout) +
              [bad.stdout for _ in [0] if bad.returncode == 1 and
               not json.loads(bad.stdout)['n_failed']])


def main():
    tap = Tap()
    check_good(tap, 'CPU')
    text = run('burn', 'CPU', '--seconds', '0.1', '--memory', '3')
    tap.check('as text', expect(text, 0, out='passed: 0 errors') +
              expect(text, 0, out='3 MiB of memory'))
    tap.check('no such device', expect(run('burn', 'CPU:7'), 3))
    tap.check('no time', expect(run('burn', 'CPU', '--seconds', '0'), 2,
                                err='--seconds'))
    with subprocess.Popen([DOORBELL, 'burn', 'CPU', '--seconds', '1000',
                           '--memory', '1'], stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, text=True) as process:
        try:
            process.wait(2)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGINT)
        out = process.stdout.read()
    tap.check('Ctrl-C ends with a verdict', [
        f'{process.returncode}: {out}' for _ in [0]
        if process.returncode != 0 or 'passed' not in out])
    if '--sim' in sys.argv:
        check_several(tap)
        check_series(tap)
        for device in GOOD:
            check_good(tap, device)
            for every in EVERY:
                check_flip(tap, device, every)
        tap.check('no such flip', expect(
            run('burn', 'NV@sim:sm_90,flip=0'), 3, err='flip=N'))
    else:
        tap.skip('simulated cards', 'the build has none')
    tap.finish()


if __name__ == '__main__':
    main()
