#!/usr/bin/env python3
"""Sizes that a model leaves open: `doorbell run MODEL --shape`, `--symbol`, and
bundles for all sizes within bounds; `--check`.

usage: test_onnx_sizes.py DOORBELL
The model is an encoder as PyTorch exports it (onnx_write.py). Results with a
symbol are those of numbers, to the bit; of few tokens to 1e-6, as sums then
have another order (include/doorbell/dim.h).
"""
import json
import os
import struct
import tempfile

import onnx_write
from arrays import Array, read_npy, write_npy
from cli import Tap, expect, expect_json_error, run, schema_complaints

LENGTHS = (7, 20, 33, 48, 64)  # to the bit
FEW = (1, 2)


class Case:
    def __init__(self, folder):
        self.folder = folder
        self.model = self.path('encoder.onnx')
        onnx_write.encoder().save(self.model)

    def path(self, name):
        return os.path.join(self.folder, name)

    def inputs(self, n):
        ids, mask = self.path(f'ids{n}.npy'), self.path(f'mask{n}.npy')
        write_npy(ids, Array((1, n), [(7 * i + 3) % 50 for i in range(n)],
                             'int64'))
        write_npy(mask, Array((1, n), [int(i <= n // 2) for i in range(n)],
                              'int64'))
        return ('--in', f'input_ids={ids}', '--in', f'attention_mask={mask}')

    def result(self, *args):
        out = self.path('y.npy')
        complaints = expect(run('run', *args, '--out', f'embedding={out}'), 0)
        return complaints, () if complaints else read_npy(out).flat


def check_device(tap, case, device, lengths, few):
    bundle = case.path('m.bundle')
    symbol = ('--shape', 'batch=1', '--symbol', 'seq=1:64')
    tap.check(f'{device}: a bundle for all lengths', expect(
        run('run', case.model, *symbol, '--save', bundle, '--target', device,
            '--device', device), 0))
    for n in (*few, *lengths):
        args = (*case.inputs(n), '--device', device)
        complaints, want = case.result(case.model, *args)
        for name, part in (('one plan', (case.model, *symbol)),
                           ('the bundle', (bundle,))):
            more, got = case.result(*part, *args)
            complaints += more
            apart = max((abs(a - b) for a, b in zip(got, want)), default=0)
            if apart > (1e-6 if n in few else 0) or len(got) != len(want):
                complaints.append(f'{name}: {got[:4]} in place of {want[:4]}')
        tap.check(f'{device}: {n} tokens', complaints)


def check_refusals(tap, case):
    long = ('--in', 'input_ids=1x65:int64', '--in',
            'attention_mask=1x65:int64', '--device', 'CPU')
    tap.check('a size beyond the bound', expect(
        run('run', case.model, '--symbol', 'seq=1:64', *long), 1,
        err="'input_ids': axis 1 has size 65; --symbol seq=1:64"))
    tap.check('the same of a number', expect(
        run('run', case.model, '--shape', 'seq=64,batch=1', *long), 1,
        err="'input_ids': axis 1 has size 65; expected 64"))
    tap.check('a name that no size has', expect(
        run('run', case.model, '--symbol', 'length=1:64', *long), 1,
        err="they have batch, seq"))
    tap.check('bounds the other way around', expect_json_error(
        run('run', case.model, '--symbol', 'seq=9:2', *long, '--json'), 1,
        'in this order'))
    tap.check('a bundle of open sizes', expect(
        run('run', case.model, '--symbol', 'seq=1:64', '--save',
            case.path('n.bundle'), '--device', 'CPU'), 1,
        err="axis 0 is open, called batch"))
    tap.check('a shape of other axes', expect(
        run('run', case.model, '--shape', 'input_ids=2x3x4', *long), 1,
        err='has 2 axes; got 3'))
    tap.check('--symbol of a bundle', expect(
        run('run', 'x.bundle', '--symbol', 'seq=1:2'), 2, err='of a model'))


def check_outputs(tap, case):
    args = (case.model, *case.inputs(7), '--device', 'CPU')
    _, y = case.result(*args)
    good, bad = case.path('good.safetensors'), case.path('bad.safetensors')
    for path, first in ((good, y[0]), (bad, y[0] + 1)):
        head = ('{"embedding":{"dtype":"F32","shape":[1,%d],"data_offsets":'
                '[0,%d]}}' % (len(y), 4 * len(y))).encode()
        with open(path, 'wb') as file:
            file.write(struct.pack('<Q', len(head)) + head +
                       struct.pack(f'<{len(y)}f', first, *y[1:]))
    tap.check('--check of the same', expect(
        run('run', *args, '--check', good), 0,
        out='embedding: largest difference 0,'))
    done = run('run', *args, '--check', bad)
    tap.check('--check of others', expect(done, 1, out='1 elements differ'))
    done = run('run', *args, '--check', bad, '--json')
    tap.check('--check --json',
              expect(done, 1) + schema_complaints('run', done.stdout))
    tap.check('--check with a tolerance', expect(
        run('run', *args, '--check', bad, '--atol', '2'), 0))
    tap.check('--check of no such name', expect(
        run('run', *args, '--check', case.path('ids7.npy')), 1,
        err="the first output is 'embedding'"))


def check_weights(tap, case):
    out = case.path('w.npy')
    complaints = expect(run('eval', 'w * 2', '--in', 'w@' + case.model +
                            ':heads', '--out', out, '--device', 'CPU'), 0)
    if not complaints and read_npy(out).flat != [8]:
        complaints.append(f'{read_npy(out).flat}')
    tap.check('eval of a weight', complaints)
    done = run('run', case.path('m.bundle'), '--list')
    tap.check('weights of a bundle have names', expect(
        done, 0, out='weight  0.up.weight float32 (32, 128)'))
    tap.check('eval of a weight that is not there', expect(
        run('eval', 'w', '--in', 'w@' + case.model + ':nope', '--device',
            'CPU'), 1, err="no tensor 'nope'"))


def check_cost(tap, case):
    sizes = ('--shape', 'batch=2,seq=8')
    for device in 'CPU', 'AMD@null:mi300x':
        done = run('onnx', case.model, '--device', device, *sizes, '--json')
        complaints = expect(done, 0) + schema_complaints('onnx', done.stdout)
        cost = {} if complaints else json.loads(done.stdout)['cost']
        if not complaints and (cost['input_bytes'] != 2 * 2 * 8 * 8 or
                               cost['output_bytes'] != 2 * 32 * 4 or
                               not cost['activation_bytes'] or
                               ('predicted_us' in cost) != ('@' in device)):
            complaints.append(str(cost))
        tap.check(f'memory and time on {device}', complaints)
    tap.check('memory as text', expect(
        run('onnx', case.model, '--device', 'CPU', *sizes), 0,
        out='inputs 256, outputs 256'))
    tap.check('memory of open sizes', expect(
        run('onnx', case.model, '--device', 'CPU'), 1, err='give --shape'))
    tap.check('--shape without --device', expect(
        run('onnx', case.model, *sizes), 2, err='--shape is of --device'))


def main():
    tap = Tap()
    with tempfile.TemporaryDirectory() as folder:
        case = Case(folder)
        check_device(tap, case, 'CPU', LENGTHS, FEW)
        check_device(tap, case, 'NV@sim:sm_90', (20, 64), (7,))
        check_refusals(tap, case)
        check_outputs(tap, case)
        check_weights(tap, case)
        check_cost(tap, case)
    tap.finish()


if __name__ == '__main__':
    main()
