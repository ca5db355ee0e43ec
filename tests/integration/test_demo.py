#!/usr/bin/env python3
"""`doorbell demo mnist`: results, repeatability, and every way to fail.

usage: test_demo.py DOORBELL [--small] [--sim]
    --small: no full training   --sim: there are simulated cards
"""
import gzip
import json
import os
import struct
import sys
import tempfile

from cli import Tap, data_dir, expect, expect_json_error, run

SMALL = '--small' in sys.argv
SIMULATED = '--sim' in sys.argv


def train(*args, **environment):
    """The document of a run, and complaints."""
    done = run('demo', 'mnist', '--json', *args, **environment)
    complaints = expect(done, 0)
    return ({} if complaints else json.loads(done.stdout)), complaints


def check_accuracy(tap, name, args, least):
    result, complaints = train(*args)
    if not complaints:
        print(f'# {name}: accuracy {result["test_accuracy"]}, '
              f'{result["total_s"]:.1f} s, {result["step_ms"]:.2f} ms a step, '
              f'{result["n_kernels_compiled"]} kernels in '
              f'{result["compile_wall_ms"]:.0f} ms')
        if result['test_accuracy'] < least:
            complaints.append(f'{result["test_accuracy"]} < {least}')
    tap.check(f'{name} is at least {least} right', complaints)


def check_results(tap):
    first, complaints = train('--steps', '6', '--batch', '32', '--seed', '3')
    if not complaints:
        for key in ('device', 'model', 'test_accuracy', 'loss', 'step_ms',
                    'first_step_ms', 'n_kernels_compiled', 'total_s'):
            if key not in first:
                complaints.append(f'no {key}')
    tap.check('a short run', complaints)

    again, complaints = train('--steps', '6', '--batch', '32', '--seed', '3')
    for key in ('loss', 'test_accuracy'):
        if not complaints and again[key] != first[key]:
            complaints.append(f'{key}: {again[key]}, then {first[key]}')
    tap.check('the same seed gives the same result', complaints)

    longer, complaints = train('--steps', '30', '--batch', '32')
    if not complaints and (longer['n_kernels_compiled'] !=
                           first['n_kernels_compiled']):
        complaints.append('more steps compile more kernels')
    tap.check('no kernel is compiled twice', complaints)

    one, complaints = train('--steps', '6', '--batch', '32', '--seed', '3',
                            BELL_THREADS='1')
    if not complaints and abs(one['loss'] - first['loss']) > 1e-4:
        complaints.append(f'loss {one["loss"]} on one thread, {first["loss"]}')
    tap.check('on one thread', complaints)


def check_devices(tap):
    """Each device has a part of every batch; the result is that of one."""
    steps = ('--steps', '4', '--batch', '32')
    one, complaints = train('--device', 'CPU', *steps)
    for devices in 'CPU:0,CPU:1', 'CPU:0,CPU:1,CPU:2':
        for more in (), ('--zero', '1'), ('--zero', '3', '--model', 'mlp'):
            if complaints:
                break
            many, complaints = train('--devices', devices, *steps, *more)
            if not complaints and abs(many['loss'] - one['loss']) > 1e-6:
                complaints.append(f'loss {many["loss"]} on {devices} {more}, '
                                  f'{one["loss"]} on one')
            if not complaints and many['device'] != devices:
                complaints.append(f'device {many["device"]}')
    tap.check('on several devices', complaints)
    # sums in blocks: to 1e-6 of the loss, also after many steps
    blocks = ('--steps', '100', '--blocks', '4')
    one, complaints = train('--device', 'CPU', *blocks)
    for more in (), ('--layers-on', '2'), ('--layers-on', '2', '--zero', '3'):
        if complaints:
            break
        many, complaints = train('--devices', 'CPU:0,CPU:1,CPU:2,CPU:3',
                                 *blocks, *more)
        if (not complaints
                and abs(many['loss'] - one['loss']) > 1e-6 * one['loss']):
            complaints.append(f'loss {many["loss"]} with {more}, '
                              f'{one["loss"]} on one')
    tap.check('with sums in blocks', complaints)
    tap.check('refuses --device with --devices', expect_json_error(
        run('demo', 'mnist', '--device', 'CPU', '--devices', 'CPU:0,CPU:1',
            '--json'), 2, 'given twice'))


def check_refusals(tap):
    for args, part in (
            (('mnist', '--model', 'rnn'), 'neither mlp nor conv'),
            (('minst',), "no demo 'minst'"),
            ((), 'there are: mnist, llama'),
            (('mnist', '--batch', '0'), '--batch 0'),
            (('mnist', '--steps', 'x'), "--steps 'x'"),
            (('mnist', '--batch', '9001'), '9000 images'),
            (('mnist', '--device', 'CPU:x'), 'CPU:x')):
        tap.check(f'refuses {" ".join(args)}', expect_json_error(
            run('demo', *args, '--json'), 2, part))
    for device in ('NV:0', 'AMD', 'CPU:9'):
        tap.check(f'no silent fallback from {device}', expect_json_error(
            run('demo', 'mnist', '--device', device, '--json'), 3,
            device.split(':')[0]))


def check_simulated(tap):
    """A few steps on simulated cards agree with the CPU to rounding."""
    for device, model in (('NV@sim:sm_90', 'mlp'), ('NV@sim:sm_90', 'conv'),
                          ('NV@sim:sm_80', 'mlp'), ('NV@sim:sm_120', 'mlp'),
                          ('NV@sim:sm_89', 'mlp'),
                          ('AMD@sim:gfx1100', 'mlp'),
                          ('AMD@sim:gfx942', 'conv'),
                          ('AMD@sim:gfx90a', 'mlp'),
                          ('AMD@sim:gfx1030', 'mlp'),
                          ('AMD@sim:gfx1201', 'mlp')):
        name = f'{model} on {device} as on the CPU'
        args = ('--steps', '3', '--batch', '16', '--seed', '3', '--model',
                model)
        if SMALL and (device, model) != ('NV@sim:sm_90', 'mlp'):
            tap.skip(name, 'one is enough with sanitizers')
            continue
        want, complaints = train(*args, '--device', 'CPU')
        got, more = train(*args, '--device', device)
        complaints += more
        if not complaints:
            print(f'# {name}: loss {got["loss"]} and {want["loss"]}, '
                  f'{got["total_s"]:.1f} s')
            if abs(got['loss'] - want['loss']) > 1e-5 * abs(want['loss']):
                complaints.append(f'loss {got["loss"]}, not {want["loss"]}')
            if abs(got['test_accuracy'] - want['test_accuracy']) > 0.002:
                complaints.append(f'accuracy {got["test_accuracy"]}, not '
                                  f'{want["test_accuracy"]}')
        tap.check(name, complaints)


def idx(shape, data):
    return (struct.pack('>BBBB', 0, 0, 8, len(shape)) +
            b''.join(struct.pack('>i', n) for n in shape) + data)


def write_data(folder, images, labels):
    for name, content in (('t10k-images-idx3-ubyte.gz', images),
                          ('t10k-labels-idx1-ubyte.gz', labels)):
        if content is not None:
            with open(os.path.join(folder, name), 'wb') as file:
                file.write(content)


def check_files(tap):
    n = 1100
    images = gzip.compress(idx((n, 28, 28), bytes(n * 784)), 1)
    labels = gzip.compress(idx((n,), bytes(n)), 1)
    cases = (
        ('no directory', None, None, 't10k-images-idx3-ubyte.gz'),
        ('no labels', images, None, 't10k-labels-idx1-ubyte.gz'),
        ('truncated images', images[:-20], labels, 't10k-images'),
        ('truncated labels', images, labels[:10], 't10k-labels'),
        ('an empty file', b'', labels, 't10k-images'),
        ('images that are text', b'hello world, not images', labels,
         't10k-images'),
        ('labels for other images', images,
         gzip.compress(idx((n - 1,), bytes(n - 1))), '1099 labels'),
        ('images of another size',
         gzip.compress(idx((n, 28, 27), bytes(n * 28 * 27))), labels,
         '28 x 28'),
        ('too few images', gzip.compress(idx((9, 28, 28), bytes(9 * 784))),
         gzip.compress(idx((9,), bytes(9))), '9 images'),
        ('a label of 10', images, gzip.compress(idx((n,), bytes([10] * n))),
         'label 0 is 10'),
    )
    for name, image_file, label_file, part in cases:
        with tempfile.TemporaryDirectory() as folder:
            write_data(folder, image_file, label_file)
            path = folder if image_file else os.path.join(folder, 'absent')
            if name == 'an empty file':
                path = folder
            tap.check(name, expect_json_error(
                run('demo', 'mnist', '--data', path, '--json'), 1, part))
    with tempfile.TemporaryDirectory() as folder:
        write_data(folder, images, labels)
        result, complaints = train('--data', folder, '--steps', '2',
                                   '--batch', '50')
        if not complaints and result['n_train'] != 100:
            complaints.append(f'{result["n_train"]} images to train on')
        tap.check('a small data set', complaints)


def check_memory(tap, device, n_parts):
    """Any allocation may fail: a message, exit code 1, no crash, no leak."""
    args = ('demo', 'mnist', '--json', '--steps', '2', '--batch', '8',
            '--model', 'mlp', '--device', device)
    nth, n_runs, complaints = 1, 0, []
    while not complaints:
        done = run(*args, BELL_FAIL_ALLOC=str(nth))
        if done.returncode == 0:
            break
        complaints = expect_json_error(done, 1, '')
        if not complaints:
            status = json.loads(done.stdout)['error']['status']
            if status != 'out of memory':
                complaints.append(f'status "{status}": {done.stdout}')
        if complaints:
            complaints.insert(0, f'BELL_FAIL_ALLOC={nth}')
        n_runs += 1
        nth = nth + 1 if nth < 20 else nth + nth // n_parts
    print(f'# {n_runs} runs, up to allocation {nth}')
    tap.check(f'out of memory on {device}', complaints)


def main():
    tap = Tap()
    check_results(tap)
    check_devices(tap)
    check_refusals(tap)
    if SIMULATED:
        check_simulated(tap)
    else:
        tap.skip('simulated cards', 'built without them')
    check_files(tap)
    check_memory(tap, 'CPU', 4 if SMALL else 12)
    if SIMULATED:
        check_memory(tap, 'NV@sim:sm_90', 2)
    real = data_dir('mnist')
    for name, args, least in (
            ('mlp on drawn digits', (), 0.95),
            ('conv on drawn digits', ('--model', 'conv'), 0.97),
            ('mlp on MNIST', ('--data', real or ''), 0.96),
            ('conv on MNIST', ('--data', real or '', '--model', 'conv'),
             0.98)):
        if SMALL:
            tap.skip(name, 'full training is for the release build')
        elif 'MNIST' in name and not real:
            tap.skip(name, 'no real data (BELL_TEST_DATA)')
        else:
            check_accuracy(tap, name, args, least)
    tap.finish()


if __name__ == '__main__':
    main()
