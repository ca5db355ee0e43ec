#!/usr/bin/env python3
"""`doorbell tune` and BELL_BEAM.

usage: test_tune.py DOORBELL [--sim] [--kept]
    --sim: there are simulated cards   --kept: built with sqlite3
"""
import json
import os
import signal
import subprocess
import sys
import tempfile
import time

from cli import DOORBELL, Tap, expect, expect_json_error, run

PRODUCT = ['x @ w', '--in', 'x=128x96', '--in', 'w=96x112']
KEYS = {'name', 'by', 'chip', 'rules_us', 'best_us', 'rules', 'best',
        'rules_stay', 'not_searched', 'n_tried', 'n_same', 'n_invalid',
        'n_large', 'n_wrong', 'n_faulted', 'n_hung', 'seconds'}


def tune(*args, **environment):
    done = run('tune', *args, '--json', **environment)
    complaints = expect(done, 0)
    document = {} if complaints else json.loads(done.stdout)
    for kernel in document.get('kernels', []):
        if not kernel['not_searched'] and set(kernel) != KEYS:
            complaints.append(f'keys {sorted(set(kernel) ^ KEYS)}')
    return document, complaints


def check_kernel(document, by):
    complaints = []
    for kernel in document.get('kernels', []):
        if kernel['by'] != by:
            complaints.append(f'by {kernel["by"]}, not {by}')
        if kernel['best_us'] > kernel['rules_us']:
            complaints.append(f'slower: {kernel}')
        if (kernel['best'] == kernel['rules']) != bool(kernel['rules_stay']):
            complaints.append(f'rules or not? {kernel}')
        # one that waits for a core for long counts as hung: all of them do not
        if (kernel['n_wrong'] or kernel['n_faulted'] or
                kernel['n_hung'] > kernel['n_tried'] // 4):
            complaints.append(f'candidates are wrong: {kernel}')
    if len(document.get('kernels', [])) != 1:
        complaints.append(f'{len(document["kernels"])} kernels')
    return complaints


def check_cpu(tap):
    document, complaints = tune(*PRODUCT, '--seconds', '0.5', '--device', 'CPU')
    tap.check('a product on a CPU', complaints or check_kernel(document,
                                                               'timed'))
    done = run('tune', 'softmax(x, 1)', '--in', 'x=256x256', '--seconds', '0.3',
               '--device', 'CPU')
    tap.check('as text', expect(done, 0, out='tried in')
              or expect(done, 0, out='0 wrong'))
    document, complaints = tune('x + 1', '--in', 'x=9', '--device', 'CPU')
    if not complaints and not document['kernels'][0]['not_searched']:
        complaints = [f'what for? {document}']
    tap.check('no choice', complaints)


def check_models(tap):
    document, complaints = tune('x @ w', '--in', 'x=48x64:float16', '--in',
                                'w=64x48:float16', '--seconds', '2',
                                '--device', 'NV@sim:sm_90')
    tap.check('a simulated card', complaints or check_kernel(document,
                                                             'counted'))
    done = run('tune', 'softmax(x, 1)', '--in', 'x=64x256', '--seconds', '1',
               '--device', 'AMD@sim:gfx1100')
    tap.check('the model is told',
              expect(done, 0, out="the model's of rx7900xtx"))
    tap.check('a chip without a product has the model of its family', [
        complaint for chip, product in (
            ('gfx1012', 'rx5700xt'), ('gfx1103', 'rx7900xtx'),
            ('gfx1035', 'rx6900xt'), ('gfx90a', 'mi210'))
        for complaint in expect(
            run('tune', 'x + 1', '--in', 'x=64', '--seconds', '0.1',
                '--device', f'AMD@null:{chip}'), 0,
            out=f"the model's of {product}")])
    document, complaints = tune(*PRODUCT, '--device', 'NV@null:h100')
    tap.check('a device that runs nothing', complaints
              or check_kernel(document, 'estimated'))


def check_kept(tap):
    """What a search found, another program finds, and searches no more."""
    with tempfile.TemporaryDirectory() as cache:
        _, complaints = tune(*PRODUCT, '--seconds', '0.3', '--device',
                                 'CPU', BELL_CACHE=cache)
        done = run('eval', 'ones([128, 96]) @ ones([96, 112])', '--device',
                   'CPU', BELL_CACHE=cache, BELL_BEAM='4', BELL_DEBUG='opt')
        complaints += expect(done, 0, out='96')
        done = run('cache', 'show', '--json', BELL_CACHE=cache)
        kinds = {k['target'] for k in json.loads(done.stdout)['targets']}
        if 'schedule' not in kinds:
            complaints.append(f'kept: {kinds}')
        tap.check('kept', complaints)


def check_stopped(tap):
    with subprocess.Popen(
            [DOORBELL, 'tune', 'x @ w', '--in', 'x=512x512', '--in',
             'w=512x512', '--seconds', '600', '--beam', '64', '--device',
             'CPU'], stdout=subprocess.PIPE, text=True,
            env=dict(os.environ)) as child:
        time.sleep(1.5)
        child.send_signal(signal.SIGINT)
        out, _ = child.communicate(timeout=300)
        complaints = []
        if child.returncode != 0:
            complaints.append(f'exit code {child.returncode}')
        if '; stopped' not in out or 'tried in' not in out:
            complaints += ['not told'] + out.splitlines()
    tap.check('Ctrl-C', complaints)


def check_stats(tap):
    """An architecture is no product: no time is told, and null for its name."""
    done = run('kernel', 'x + 1', '--in', 'x=999', '--device', 'NV@sim:sm_90',
               '--stats', '--json')
    complaints = expect(done, 0)
    if not complaints and json.loads(done.stdout)['chip'] is not None:
        complaints = [done.stdout]
    tap.check('counts of no product', complaints)


def check_mistakes(tap):
    tap.check('no expression', expect_json_error(run('tune', '--json'), 2,
                                                 'no expression'))
    tap.check('a bad expression', expect_json_error(
        run('tune', 'x @', '--in', 'x=3x3', '--json', '--device', 'CPU'), 1,
        'column 4'))
    tap.check('a bad input', expect_json_error(
        run('tune', 'x', '--in', 'x=3y', '--json', '--device', 'CPU'), 1,
        'neither a shape'))
    tap.check('a bad beam', expect_json_error(
        run('tune', 'x', '--beam', '65', '--json'), 2, '1..64'))
    tap.check('bad seconds', expect_json_error(
        run('tune', 'x', '--seconds', '0', '--json'), 2, 'seconds'))
    tap.check('a bad BELL_BEAM', expect(
        run('eval', '1 + 1', '--device', 'CPU', BELL_BEAM='many'), 2,
        err='BELL_BEAM'))


def main():
    tap = Tap()
    check_cpu(tap)
    check_mistakes(tap)
    check_stopped(tap)
    if '--sim' in sys.argv:
        check_models(tap)
        check_stats(tap)
    if '--kept' in sys.argv:
        check_kept(tap)
    tap.finish()


if __name__ == '__main__':
    main()
