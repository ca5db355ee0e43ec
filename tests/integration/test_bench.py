#!/usr/bin/env python3
"""`doorbell bench`: the suites, documents, saved runs, verdicts.

usage: test_bench.py DOORBELL
"""
import csv
import io
import json
import os
import signal
import subprocess
import tempfile
import time

from cli import DOORBELL, Tap, expect, run, schema_complaints

QUICK = ('--seconds', '0.01', '--quick')
PASSES = 2  # of small sizes
SUITES = ('startup', 'launch', 'copy', 'mem', 'flops', 'micro', 'gemm', 'ops',
          'compile')
GROUP_SUITES = ('peers', 'allreduce', 'allgather', 'reducescatter', 'alltoall',
                'broadcast')
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
    order = [row[f'{what}_{unit}']
             for what in ('p1', 'q1', 'median', 'q3', 'p99')]
    if order != sorted(order) or order[0] <= 0:
        return [f'{row}: out of order']
    if not row['derived'] and not (
            row[f'low_{unit}'] <= row[keys[0]] <= row[f'high_{unit}'] and
            len(row['passes']) == PASSES and
            (row['interval_percent'] is None) == (PASSES < 4)):
        return [f'{row}: no interval of its {PASSES} passes']
    bins = row.get('histogram', {'counts': [row['n_runs']]})['counts']
    if not min(row['n_runs'], 8192) <= sum(bins) <= row['n_runs']:
        return [f'{row}: {sum(bins)} in the histogram']
    return [] if row['n_runs'] > 0 else [f'{row["name"]}: no runs']


# Of the rows of registers, those that a device has an instruction for; what
# comes out is looked at by bench itself.
KINDS = ('fma_f32', 'fma_f32x2', 'fma_f64', 'fma_f16', 'fma_bf16', 'mad_i32',
         'dot_i8', 'dot_f16', 'dot_bf16')
HAS = {
    'NV@sim:sm_90': {'fma_f32', 'fma_f64', 'fma_f16', 'fma_bf16', 'mad_i32',
                     'dot_i8'},
    'AMD@sim:gfx1100': {'fma_f32', 'fma_f64', 'fma_f16', 'mad_i32', 'dot_i8',
                        'dot_f16', 'dot_bf16'},
    'AMD@sim:gfx90a': {'fma_f32', 'fma_f32x2', 'fma_f64', 'fma_f16', 'mad_i32',
                       'dot_i8', 'dot_f16'},
    'QCOM@sim:a740-msm': {'fma_f32', 'fma_f16', 'mad_i32'},
}


def peak_complaints(device, rows):
    """Every kind has a row, with a figure where there is an instruction; what
    processors have differs."""
    rows = {row['name']: row for row in rows}
    missing = [f'no {name}' for name in KINDS if name not in rows]
    measured = {name for name in KINDS if 'n_runs' in rows.get(name, {})}
    if device not in HAS:
        common = {'mad_i32'} if device == 'CL:0' else {'mad_i32', 'fma_f32',
                                                       'fma_f64'}
        return missing + [f'no figure for {name}'
                          for name in common - measured]
    return missing + [f'measured: {sorted(measured)}' for _ in [0]
                      if measured != HAS[device]] + [
        f'{name}: {rows[name]["flops"]} operations' for name in measured
        if not rows[name]['flops'] or rows[name]['bytes']]


# Single things: those that each has; the bench compares what comes out.
MICRO = ('atomic_own', 'atomic_same', 'atomic_shared', 'barrier',
         'branch_same', 'branch_split', 'wait_mad_i32', 'wait_fma_f32',
         'wait_fma_f64', 'wait_shared', 'read_l1', 'read_l2_4', 'read_l2_8',
         'read_l2_16', 'read_constant', 'mad_i16', 'mad_i64')
OF_GROUPS = {'atomic_shared', 'barrier', 'branch_same', 'branch_split',
             'wait_shared', 'read_constant'}


def micro_complaints(device, rows):
    measured = {row['name'] for row in rows if 'n_runs' in row}
    lacks = {'C': OF_GROUPS, 'N': {'read_constant'}, 'A': set()}[device[0]]
    return [f'{sorted(measured)}' for _ in [0]
            if measured != set(MICRO) - lacks] + [
        f'no {name}' for name in MICRO
        if name not in [row['name'] for row in rows]]


def check_suite(tap, device, suite):
    done = run('bench', device, suite, '--json', *QUICK)
    rows = document_of(done).get('rows', [])
    tap.check(f'{suite} on {device}', expect(done, 0) +
              schema_complaints('bench', done.stdout) + [
        c for row in rows for c in row_complaints(row)] + [
        c for c in ['no rows'] if not rows] + (
            peak_complaints(device, rows) if suite == 'flops' else
            micro_complaints(device, rows) if suite == 'micro' else []))


def save_scaled(saved, factor, path):
    """The run, `factor` times as slow, without blanks."""
    def scale(row, key, value):
        if isinstance(value, str) or not key.startswith(
                ('median_', 'q1_', 'q3_', 'best_')):
            return value
        return value * factor if row['unit'] in ('us', 'ns', 'ms') else (
            value / factor)
    rows = [{k: scale(row, k, v) for k, v in row.items()}
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
        if r.get('verdict') not in ('same', 'better', 'worse', 'not comparable')] + [
        c for c in ['no rows'] if not rows])
    with open(path, encoding='utf-8') as file:
        saved = json.load(file)
    tap.check('a saved run says what it is', [
        key for key in ('date', 'version', 'commit', 'host', 'kernel', 'cpu',
                        'n_threads', 'load', 'driver', 'host_reference',
                        'cpu_clock_mhz',
                        'device_clock_mhz', 'seconds_per_row')
        if key not in saved])
    for device, want in ('NV@sim:sm_89', 1980), ('AMD@sim:gfx1100', 2100):
        done = run('bench', device, '--only', 'launch', '--json', *QUICK)
        if run('devices', device).returncode == 0:
            tap.check(f'the clock of {device}', expect(done, 0) + [
                f'{mhz} MHz' for mhz in [document_of(done)['device_clock_mhz']]
                if mhz != want])
    tap.check('what the host ran at is measured', [
        f'{key}: {ns}' for key, ns in saved['host_reference'].items()
        if not ns])
    # by more than the noise of a host whose threads wait for a time slice to
    # hand a word over now and then: thousands of times the usual
    for factor, verdict, code in ((1e18, 'better', 0), (1e-18, 'worse', 1)):
        save_scaled(saved, factor, path)
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


def check_forms(tap, folder):
    done = run('bench', 'CPU', 'startup', 'compile', '--csv', *QUICK)
    table = list(csv.DictReader(io.StringIO(done.stdout)))
    tap.check('--csv', expect(done, 0) + [
        f'{row}' for row in table if not float(row['median']) > 0 or
        row['device'] != 'CPU:0' or row['simulated'] != 'no' or
        not row['date'] or not row['commit'] or
        not float(row['low']) <= float(row['median']) <= float(row['high']) or
        None in row] + [
        'no rows' for _ in [0] if {row['suite'] for row in table} !=
        {'startup', 'compile'}])
    tap.check('--csv and --json', expect(
        run('bench', 'CPU', '--csv', '--json'), 2, err='both want stdout'))
    done = run('bench', 'launch', '--json', *QUICK, BELL_DEVICE='CPU:0')
    tap.check('a suite of the default device', expect(done, 0) + [
        row['name'] for row in document_of(done).get('rows', [])
        if row['suite'] != 'launch'])
    path = os.path.join(folder, 'full.json')
    run('bench', 'CPU', 'startup', '--seconds', '0.01', '--save', path)
    tap.check('small sizes against full ones', expect(
        run('bench', 'CPU', 'startup', '--against', path, *QUICK), 2,
        err='--quick'))
    page = os.path.join(folder, 'page.html')
    tap.check('--html', expect(run('bench', 'CPU', 'startup', '--html', page,
                                   *QUICK), 0) + [
        'no page' for _ in [0] if 'first_result' not in open(
            page, encoding='utf-8').read()])


def check_interrupt(tap):
    """Ctrl-C: what there is is told, and that it is not all."""
    with subprocess.Popen(
            [DOORBELL, 'bench', 'CPU', 'launch', 'gemm', '--seconds', '60'],
            stdout=subprocess.PIPE, text=True) as process:
        lines = [process.stdout.readline() for _ in range(4)]
        time.sleep(1)
        process.send_signal(signal.SIGINT)
        rest = process.stdout.read()
    tap.check('Ctrl-C', [
        f'{process.returncode}: {lines}, {rest}' for _ in [0]
        if process.returncode != 1 or 'submit_wait' not in rest or
        'interrupted' not in rest or 'gemm' in rest])
    tap.check('the head says what the host does', [
        f'{lines}' for _ in [0] if 'host before: sums ' not in lines[1] or
        'step' not in lines[2] or '12 passes' not in lines[3]])


def check_failed(tap, folder):
    """A device that is lost: what was measured until then is kept, and why
    there is no more."""
    path = os.path.join(folder, 'failed.json')
    done = run('bench', 'AMD@sim:gfx1100,reset=400', 'launch', '--save', path,
               *QUICK)
    if 'AMD@sim' in done.stderr and not os.path.exists(path):
        tap.skip('a run that fails', done.stderr.strip())
        return
    with open(path, encoding='utf-8') as file:
        text = file.read()
    saved = json.loads(text)
    rows = [row['name'] for row in saved['rows'] if 'n_runs' in row]
    tap.check('a run that fails keeps its rows', schema_complaints(
        'bench', text) + [f'{done.returncode}: {saved["error"]}, {rows}'
                          for _ in [0] if done.returncode in (0, 1) or
                          not saved['error'] or 'submit_wait' not in rows or
                          saved['error'] not in done.stderr or
                          'failed: this is what there was' not in done.stdout])


# Rows of 64 x 64 elements: the expression, and whether stores count, too.
COUNTED = {
    'add': ('x + y', True), 'softmax': ('softmax(x, -1)', True),
    'layer_norm': ('layer_norm(x, [64])', True),
    'sum_rows': ('sum(x, [1])', False), 'sum_columns': ('sum(x, [0])', False),
    'max': ('max(x)', False), 'transpose': ('contiguous(t(x))', True),
    'gemm_f32_64': ('x @ y', None),
}


def check_link(tap):
    """Small copies, which caches take, are not said to be the host's link."""
    done = run('bench', SIMULATED, 'copy', '--json', *QUICK)
    rows = document_of(done).get('rows', [])
    tap.check('the most of the link is of large copies', expect(done, 0) + [
        f'{row["name"]}: {row["percent_of_measured"]}' for row in rows
        if 'n_runs' in row and row['name'].endswith('KiB') and
        row['percent_of_measured'] is not None] + [
            'no large one' for _ in [0] if not any(
                row.get('percent_of_measured') for row in rows)])


def check_compile(tap):
    """Times of compiling say what they are of."""
    for device, words in (('CPU', 'and LLVM'), (SIMULATED, 'no ptxas'),
                          ('AMD@sim:gfx1100', 'and LLVM')):
        if run('devices', device).returncode != 0:
            continue
        done = run('bench', device, 'compile', '--json', *QUICK)
        rows = document_of(done).get('rows', [])
        tap.check(f'compiling on {device} says its steps', expect(done, 0) + [
            row['what'] for row in rows if words not in row['what']] +
            ['no rows'] * (not rows))


def check_counted(tap, device):
    """The operations and bytes that rates are made of: as a simulated card
    counts the loads and stores of the same kernel, as the compiler counts its
    operations, where the row does not count an exponential as one."""
    done = run('bench', device, 'ops', 'gemm', '--json', *QUICK)
    rows = {row['name']: row for row in document_of(done).get('rows', [])}
    complaints = expect(done, 0)
    for name, (expression, has_stores) in COUNTED.items():
        shown = run('kernel', expression, '--in', 'x=64x64',
                    *(['--in', 'y=64x64'] if 'y' in expression.split() else []),
                    '--device', device, '--stats', '--json')
        kernels = document_of(shown).get('kernels', [{}])
        row, kernel = rows.get(name, {}), kernels[0]
        counted = kernel.get('loaded_bytes', 0) + (
            kernel.get('stored_bytes', 0) if has_stores else 0)
        if has_stores is None:  # what is loaded twice is no part of a rate
            counted = kernel.get('n_bytes')
        if len(kernels) != 1 or row.get('bytes') != counted:
            complaints.append(f'{name}: {row.get("bytes")} bytes, counted '
                              f'{counted} in {len(kernels)} kernels')
        if name not in ('softmax', 'layer_norm') and \
                (row.get('flops') or 0) != kernel.get('n_flops'):
            complaints.append(f'{name}: {row.get("flops")} operations, '
                              f'{kernel.get("n_flops")} in the kernel')
    tap.check(f'bytes and operations on {device} are those of kernel --stats',
              complaints)


def bus_factor(name, n):
    """As nccl-tests has it: docs/reference/bench.md."""
    return {'allreduce': 2 * (n - 1) / n, 'broadcast': 1}.get(
        name, (n - 1) / n)


def exchange_complaints(row, n):
    """A collective's row is right, and its rates follow from its time."""
    x = row['exchange']
    alg = x['size_bytes'] / (row['median_us'] * 1e3)
    want = {'n_ranks': n, 'type': 'float32', 'wrong': 0,
            'redop': 'sum' if 'reduce' in row['suite'] else 'none',
            'root': 0 if row['suite'] == 'broadcast' else -1,
            'in_place': row['name'].endswith('_in_place')}
    bus = alg * bus_factor(row['suite'], n)
    return [f'{row["name"]}: {key} is {x.get(key)}' for key in want
            if x.get(key) != want[key]] + [
        f'{row["name"]}: {x}' for _ in [0]
        if abs(x['algbw_gb_s'] - alg) > 1e-6 * alg or
        abs(x['busbw_gb_s'] - bus) > 1e-6 * bus or x['predicted_us'] <= 0]


def check_group(tap, device, n, suite):
    done = run('bench', device, suite, '--json', *QUICK)
    rows = document_of(done).get('rows', [])
    complaints = [c for row in rows for c in row_complaints(row)]
    if suite != 'peers':
        complaints += [c for row in rows for c in exchange_complaints(row, n)]
    elif len(rows) != 4 * n * (n - 1):
        complaints.append(f'{len(rows)} rows of pairs')
    tap.check(f'{suite} on {device}', expect(done, 0) + complaints +
              schema_complaints('bench', done.stdout) + [
        c for c in ['no rows'] if not rows])


def check_algorithms(tap, devices, names):
    """An algorithm by its name is in each row, and in the rows' names."""
    for name in names:
        done = run('bench', devices, 'allreduce', '--algorithm', name,
                   '--json', *QUICK)
        rows = document_of(done).get('rows', [])
        tap.check(f'allreduce by {name} on {devices}', expect(done, 0) +
                  schema_complaints('bench', done.stdout) + [
            f'{row}' for row in rows
            if row['exchange'].get('algorithm') != name or
            row['exchange'].get('wrong') != 0 or
            not row['name'].startswith(
                f'allreduce_{name}_'.replace('-', '_'))] +
            ['no rows'] * (not rows))


def check_groups(tap, folder):
    for suite in GROUP_SUITES:
        check_group(tap, 'CPU,CPU,CPU', 3, suite)
    tap.check('several devices of a suite of one', expect(
        run('bench', 'CPU,CPU', 'copy'), 2, err="'copy' measures one device"))
    tap.check('one device of a suite of several', expect(
        run('bench', 'CPU', 'allreduce'), 2, err='name them as NV:0,NV:1'))
    path = os.path.join(folder, 'group.json')
    done = run('bench', 'CPU,CPU', 'allreduce', '--csv', '--save', path,
               *QUICK)
    table = list(csv.DictReader(io.StringIO(done.stdout)))
    tap.check('--csv of a collective', expect(done, 0) + [
        f'{row}' for row in table if row['wrong'] != '0' or
        row['count'] != str(int(row['size_bytes']) // 4) or
        row['algorithm'] not in ('one-shot', 'two-shot', 'ring') or
        None in row] + ['no rows'] * (not table))
    done = run('bench', 'CPU,CPU', 'allreduce', '--against', path,
               '--pretend-slower', '900', '--json', *QUICK)
    tap.check('--against of a collective', expect(done, 0) + [
        row['name'] for row in document_of(done).get('rows', [])
        if 'verdict' not in row])
    check_algorithms(tap, 'CPU,CPU,CPU', ('one-shot', 'two-shot', 'ring'))
    for args, code, part in (
            (('CPU,CPU', 'allreduce', '--algorithm', 'nvls'), 6,
             'CPU:0 has no switch that adds'),
            (('CPU,CPU', 'alltoall', '--algorithm', 'ring'), 6,
             'all-to-all: there is no ring algorithm for it'),
            (('CPU,CPU', 'allreduce', '--algorithm', 'rign'), 2,
             "did you mean 'ring'"),
            (('CPU', 'copy', '--algorithm', 'ring'), 2, 'name them as'),
            (('CPU:*', 'broadcast'), 2, 'expected several devices')):
        tap.check(' '.join(args) + ' is refused',
                  expect(run('bench', *args, *QUICK), code, err=part))
    done = run('bench', 'CPU,CPU', '--algorithm', 'two-shot', '--json', *QUICK)
    tap.check('suites without the algorithm say so', expect(done, 0) + [
        f'{row}' for row in document_of(done).get('rows', [])
        if ('why' in row) != (row['suite'] in (
            'allgather', 'reducescatter', 'alltoall')) and
        row['suite'] != 'peers'])
    tap.check('all of a backend, behind another name', expect(
        run('bench', 'CPU,CPU:*', 'broadcast', *QUICK), 0, out='busbw'))
    done = run('bench', 'CPU,CPU', 'allreduce', *QUICK)
    tap.check("nccl-tests' columns", expect(done, 0, out='busbw #wrong'))
    if run('devices', SIMULATED).returncode != 0:
        tap.skip('peers of simulated cards', 'they cannot be opened')
        return
    for suite in GROUP_SUITES:
        check_group(tap, 'NV:*@sim:h100*2', 2, suite)
    check_algorithms(tap, 'NV:*@sim:h100*2', ('nvls',))
    tap.check('nvls without a switch is refused', expect(
        run('bench', 'NV:*@sim:rtx4090*2,link=none', 'allreduce',
            '--algorithm', 'nvls', *QUICK), 6, err='is behind no NVSwitch'))
    done = run('bench', 'NV:0,NV:1@sim:rtx4090*2,link=none', 'peers',
               'allreduce', *QUICK)
    tap.check('pairs without a link say so', expect(
        done, 0, out='unsupported: ') + expect(
            done, 0, out="these figures are the simulator's"))


def main():
    tap = Tap()
    listed = run('bench', '--list')
    tap.check('suites are listed', expect(listed, 0) + [
        f'no {s}' for s in SUITES + GROUP_SUITES if s not in listed.stdout])
    for suite in SUITES:
        check_suite(tap, 'CPU', suite)
    with tempfile.TemporaryDirectory() as folder:
        check_saved(tap, folder)
        check_forms(tap, folder)
        check_failed(tap, folder)
        check_groups(tap, folder)
    check_interrupt(tap)
    tap.check('no such suite', expect(
        run('bench', 'CPU', '--only', 'gemmm'), 2, err="did you mean 'gemm'"))
    tap.check('no such device', expect(run('bench', 'CPU:7'), 3))
    if run('devices', SIMULATED).returncode == 0:
        done = run('bench', SIMULATED, '--only', 'launch', *QUICK)
        tap.check('a simulated card says so', expect(
            done, 0, out="these figures are the simulator's"))
        for suite in SUITES:
            check_suite(tap, SIMULATED, suite)
        for math, there in (('exact', True), ('tf32', False)):
            done = run('bench', SIMULATED, '--only', 'gemm', '--math', math,
                       *QUICK)
            tap.check(f'products in tf32 with --math {math}', expect(
                done, 0, out='gemm_f32_64') + [
                    done.stdout] * (('gemm_tf32_64' in done.stdout) != there))
    else:
        tap.skip(f'bench on {SIMULATED}', 'it cannot be opened')
    # one with a copy engine of its own kind, one that lacks much
    for device, suites in (('AMD@sim:gfx1100', ('copy', 'mem', 'flops', 'micro')),
                           ('AMD@sim:gfx90a', ('flops', 'micro')),
                           ('CL:0', ('flops',)),
                           ('QCOM@sim:a740-msm', ('copy', 'mem', 'flops'))):
        if run('devices', device).returncode != 0:
            tap.skip(f'bench on {device}', 'it cannot be opened')
            continue
        for suite in suites:
            check_suite(tap, device, suite)
    check_compile(tap)
    if run('devices', SIMULATED).returncode == 0:
        check_link(tap)
    for device in SIMULATED, 'AMD@sim:gfx1100':
        if run('devices', device).returncode == 0:
            check_counted(tap, device)
        else:
            tap.skip(f'what is counted on {device}', 'it cannot be opened')
    tap.finish()


if __name__ == '__main__':
    main()
