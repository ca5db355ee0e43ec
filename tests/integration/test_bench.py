#!/usr/bin/env python3
"""`doorbell bench`: the groups, documents, saved runs.

usage: test_bench.py DOORBELL
"""
import json
import os
import tempfile

from cli import Tap, expect, run

QUICK = ('--seconds', '0.01')
GROUPS = ('start', 'launch', 'rate', 'replay', 'copy', 'memory',
          'elementwise', 'gemm')
SIMULATED = 'NV@sim:sm_90'


def document_of(done):
    try:
        return json.loads(done.stdout)
    except ValueError:
        return {}


def row_complaints(row):
    """A row has a median between its quartiles, or says why it has none."""
    keys = [k for k in row if k.startswith('median_')]
    if len(keys) != 1:
        return [f'{row}: not one median']
    unit = keys[0][len('median_'):]
    if row[keys[0]] == 'unsupported':
        return [] if row.get('why') else [f'{row["name"]}: no reason']
    if not 0 < row[f'q1_{unit}'] <= row[keys[0]] <= row[f'q3_{unit}']:
        return [f'{row}: out of order']
    return [] if row['n_runs'] > 0 else [f'{row["name"]}: no runs']


def check_group(tap, device, group):
    done = run('bench', device, '--only', group, '--json', *QUICK)
    rows = document_of(done).get('rows', [])
    tap.check(f'{group} on {device}', expect(done, 0) + [
        c for row in rows for c in row_complaints(row)] + [
        c for c in ['no rows'] if not rows])


def save_scaled(saved, factor, path):
    """The run, `factor` times as slow, without blanks."""
    rows = [{k: v * factor if k.startswith(('median_', 'q1_', 'q3_')) and
             not isinstance(v, str) else v for k, v in row.items()}
            for row in saved['rows']]
    with open(path, 'w', encoding='utf-8') as file:
        json.dump(dict(saved, rows=rows), file, separators=(',', ':'))


def check_saved(tap, folder):
    path = os.path.join(folder, 'run.json')
    done = run('bench', 'CPU', '--only', 'launch', '--save', path, *QUICK)
    again = run('bench', 'CPU', '--only', 'launch', '--against', path,
                '--json', *QUICK)
    rows = [r for r in document_of(again).get('rows', []) if 'n_runs' in r]
    tap.check('against a saved run', expect(done, 0) + expect(again, 0) + [
        f'{r["name"]} has no verdict' for r in rows
        if r.get('verdict') not in ('same', 'better', 'worse')] + [
        c for c in ['no rows'] if not rows])
    with open(path, encoding='utf-8') as file:
        saved = json.load(file)
    tap.check('a saved run says what it is', [
        key for key in ('date', 'version', 'commit', 'host', 'kernel', 'cpu',
                        'n_threads', 'load', 'driver', 'cpu_clock_mhz',
                        'device_clock_mhz', 'seconds_per_row')
        if key not in saved])
    for device, want in ('NV@sim:sm_89', 1980), ('AMD@sim:gfx1100', 2100):
        done = run('bench', device, '--only', 'launch', '--json', *QUICK)
        if run('devices', device).returncode == 0:
            tap.check(f'the clock of {device}', expect(done, 0) + [
                f'{mhz} MHz' for mhz in [document_of(done)['device_clock_mhz']]
                if mhz != want])
    for factor, verdict, code in ((1000, 'better', 0), (1e-3, 'worse', 1)):
        save_scaled(saved, factor, path)  # all of launch's rows are times
        done = run('bench', 'CPU', '--only', 'launch', '--against', path,
                   '--threshold', '10', '--json', *QUICK)
        tap.check(f'{verdict} by far', expect(done, code) + [
            f'{r["name"]}: {r["verdict"]}'
            for r in document_of(done).get('rows', [])
            if r.get('verdict', verdict) != verdict])
    tap.check('without --threshold worse is no failure', expect(
        run('bench', 'CPU', '--only', 'launch', '--against', path, *QUICK), 0,
        out=', worse'))
    for key, value in (('model', 'another'), ('arch', 'sm_90'),
                       ('simulated', True), ('math', 'tf32')):
        with open(path, 'w', encoding='utf-8') as file:
            json.dump(dict(saved, **{key: value}), file)
        tap.check(f'against a run of another {key}', expect(
            run('bench', 'CPU', '--only', 'launch', '--against', path, *QUICK),
            2, err='do not compare'))
    with open(path, 'w', encoding='utf-8') as file:
        file.write('{}')
    tap.check('against something else', expect(
        run('bench', 'CPU', '--only', 'launch', '--against', path, *QUICK), 1,
        err='--save'))
    with open(path, 'w', encoding='utf-8') as file:
        file.write('{"doorbell_bench": 1, "rows": []}')
    tap.check('against a run without identity', expect(
        run('bench', 'CPU', '--only', 'launch', '--against', path, *QUICK), 1,
        err='another version'))
    tap.check('--save where nothing can be written', expect(
        run('bench', 'CPU', '--save', f'{folder}/none/run.json'), 1,
        err='cannot be written'))
    tap.check('--threshold alone', expect(
        run('bench', 'CPU', '--threshold', '5'), 2, err='--against'))
    for seconds in ('0', '-1', '1e9', 'x'):
        tap.check(f'--seconds {seconds}', expect(
            run('bench', 'CPU', '--seconds', seconds), 2, err='--seconds'))


def main():
    tap = Tap()
    listed = run('bench', '--list')
    tap.check('groups are listed', expect(listed, 0) + [
        f'no {g}' for g in GROUPS if g not in listed.stdout])
    for group in GROUPS:
        check_group(tap, 'CPU', group)
    with tempfile.TemporaryDirectory() as folder:
        check_saved(tap, folder)
    tap.check('no such group', expect(
        run('bench', 'CPU', '--only', 'gem'), 2, err="did you mean 'gemm'"))
    tap.check('no such device', expect(run('bench', 'CPU:7'), 3))
    if run('devices', SIMULATED).returncode == 0:
        done = run('bench', SIMULATED, '--only', 'launch', *QUICK)
        tap.check('a simulated card says so', expect(
            done, 0, out="these figures are the simulator's"))
        for group in GROUPS:
            check_group(tap, SIMULATED, group)
        for math, there in (('exact', True), ('tf32', False)):
            done = run('bench', SIMULATED, '--only', 'gemm', '--math', math,
                       *QUICK)
            tap.check(f'products in tf32 with --math {math}', expect(
                done, 0, out='gemm_f32_64') + [
                    done.stdout] * (('gemm_tf32_64' in done.stdout) != there))
    else:
        tap.skip(f'bench on {SIMULATED}', 'it cannot be opened')
    tap.finish()


if __name__ == '__main__':
    main()
