#!/usr/bin/env python3
"""What NumPy, PyTorch, safetensors and gguf wrote, read by `doorbell eval`, and
the other way round: the files of tests/integration/formats, and where the
packages are installed, new ones.

usage: test_formats.py DOORBELL FORMATS_FOLDER
"""
import gzip
import json
import os
import random
import struct
import subprocess
import sys
import tempfile

from cli import Tap, expect, run

FORMATS = sys.argv[2]
X = [i / 2 for i in range(24)]


def pick(*indices):
    return [X[i] for i in indices]


TURNED = [X[12 * j + 4 * k + i] for i in range(4) for j in range(2)
          for k in range(3)]
# shape, values
ARRAYS = {
    'x': ((2, 3, 4), X), 'f': ((2, 3, 4), X), 'i': ((3,), [3, -1, 2**40]),
    's': ((), [2.5]), 'none': ((0, 3), []), 'b': ((2,), [True, False]),
    'big': ((4,), [0, 1, 2, 3]),
}
E4M3 = [0, .5, 1, 1.5, 2, 2.5, 3, 3.5, 4, 4.5, 5, 5.5, 6, 6.5, 7, 7.5, 8, 8, 9,
        10, 10, 10, 11, 12]
TENSORS = {
    'net.w': ((2, 3, 4), X), 'net.part': ((2, 2), pick(18, 19, 22, 23)),
    'net.turned': ((4, 2, 3), TURNED), 'net.repeated': ((3, 4), X[:4] * 3),
    'half': ((2, 3, 4), X), 'brain': ((2, 3, 4), X),
    'int8': ((2, 3, 4), [int(v) for v in X]),
    'bool': ((2, 3, 4), [v > 5 for v in X]), 'e4m3': ((2, 3, 4), E4M3),
    'uint32': ((2,), [1, 4000000000]), 'none': ((0, 3), []),
    'scalar': ((), [2.5]), 'parameter': ((3, 4), X[:12]), 'list.0': ((1,), [7]),
    'list.1.in': ((1,), [8]),
}


def read(path):
    """Shape and values of an input, and complaints."""
    done = run('eval', 'x', '--in', f'x={path}', '--json', '--device', 'CPU')
    complaints = expect(done, 0)
    if complaints:
        return (), [], complaints
    found = json.loads(done.stdout)
    values = found['values']
    for _ in found['shape'][1:]:
        values = [v for row in values for v in row]
    return tuple(found['shape']), \
        values if found['shape'] else [values], []


def check_file(tap, what, path, want):
    complaints = []
    for name, (shape, values) in want.items():
        got_shape, got, more = read(f'{path}:{name}' if name else path)
        complaints += more
        if not more and (got_shape, got) != (shape, values):
            complaints.append(f'{name}: {got_shape} {got}')
    tap.check(what, complaints)


def refuses(tap, what, path, *parts):
    done = run('eval', 'x', '--in', f'x={path}', '--device', 'CPU')
    complaints = [f'{part!r} is not said: {done.stderr}' for part in parts
                  if part not in done.stderr]
    if done.returncode not in (1, 2, 3, 6):
        complaints.append(f'exit code {done.returncode}')
    tap.check(f'refuses {what}', complaints)


def check_folder(tap, folder, whose):
    def at(name):
        return os.path.join(folder, name)
    check_file(tap, f'{whose} .npz', at('stored.npz'), ARRAYS)
    check_file(tap, f'{whose} deflated .npz', at('deflated.npz'), ARRAYS)
    check_file(tap, f'{whose} .npy', at('fortran.npy'), {'': ARRAYS['f']})
    check_file(tap, f'{whose} .pth', at('net.pth'), TENSORS)
    check_file(tap, f'{whose} .pth of protocol 5', at('protocol5.pth'), TENSORS)
    check_file(tap, f'{whose} .pt of a tensor', at('one.pt'),
               {'': TENSORS['half']})
    refuses(tap, f'{whose} module', at('module.pth'),
            'holds a torch.nn.modules.linear.Linear')
    refuses(tap, f'{whose} function', at('call.pth:net'),
            'of type', 'print')
    refuses(tap, f'{whose} object', at('stored.npz:object'), 'of type')
    refuses(tap, f'a name that {whose} lacks', at('net.pth:net.v'),
            "no tensor 'net.v'")
    refuses(tap, f'{whose} tensors without a name', at('net.pth'),
            'has 15 tensors')


def safetensors(tensors):
    header, data = {}, b''
    for name, values in tensors.items():
        header[name] = {'dtype': 'F32', 'shape': [len(values)],
                        'data_offsets': [len(data), len(data) +
                                         4 * len(values)]}
        data += struct.pack(f'<{len(values)}f', *values)
    header = json.dumps(header).encode()
    return struct.pack('<Q', len(header)) + header + data


def write(folder, name, content):
    path = os.path.join(folder, name)
    with open(path, 'wb') as file:
        file.write(content)
    return path


def check_shards(tap, folder):
    write(folder, 'm-1.safetensors', safetensors({'a': [1, 2]}))
    write(folder, 'm-2.safetensors', safetensors({'b': [3], 'c': []}))

    def index(weights):
        return write(folder, 'm.safetensors.index.json', json.dumps(
            {'metadata': {}, 'weight_map': weights}).encode())
    both = {'a': 'm-1.safetensors', 'b': 'm-2.safetensors',
            'c': 'm-2.safetensors'}
    check_file(tap, 'shards', index(both), {
        'a': ((2,), [1, 2]), 'b': ((1,), [3]), 'c': ((0,), [])})
    for what, weights, part in (
            ('a shard elsewhere', {'a': '../m-1.safetensors'},
             'is not the name of a file beside it'),
            ('a shard that is not there', {'a': 'no'}, 'cannot open'),
            ('itself', {'a': 'm.safetensors.index.json'},
             'expected a safetensors file'),
            ('a tensor that the shard lacks', {'b': 'm-1.safetensors'},
             "lacks the tensor 'b'"),
            ('a number for a file', {'b': 1}, 'has no name')):
        refuses(tap, what, index(weights) + ':a', part)
    refuses(tap, 'JSON of something else', write(
        folder, 'o.json', b'{"a": 1}') + ':a', 'weight_map')


def check_others(tap, folder):
    idx = struct.pack('>HBBII', 0, 8, 2, 2, 3) + bytes(range(6))
    want = {'': ((2, 3), list(range(6)))}
    check_file(tap, 'IDX', write(folder, 'a.idx', idx), want)
    check_file(tap, 'IDX in gzip', write(folder, 'a.idx.gz', gzip.compress(idx)),
               want)
    check_file(tap, 'IDX of float32', write(
        folder, 'f.idx', struct.pack('>HBBI2f', 0, 13, 1, 2, .5, -2)),
        {'': ((2,), [.5, -2])})
    rng = random.Random(5)
    rows = [bytes([i]) + rng.randbytes(3072) for i in (3, 9)]
    check_file(tap, 'CIFAR-10', write(folder, 'batch.bin', b''.join(rows)), {
        'labels': ((2,), [3, 9])})
    done = run('eval', 'x.reshape(-1)', '--in',
               f'x={folder}/batch.bin:images', '--out', f'{folder}/o.npy')
    complaints = expect(done, 0)
    with open(f'{folder}/o.npy', 'rb') as file:
        if not complaints and file.read()[-6144:] != rows[0][1:] + rows[1][1:]:
            complaints.append('other bytes')
    tap.check('images of CIFAR-10', complaints)


def check_outputs(tap, folder):
    """Several results, of a jit and not, read again."""
    path = os.path.join(FORMATS, 'stored.npz:x')
    for ending in ('.npz', '.safetensors'):
        for jit in ([], ['--jit']):
            out = f'{folder}/several{ending}'
            complaints = expect(run(
                'eval', '(x.reshape(-1), x[0, 0] + y)', '--in', f'x={path}',
                '--weight', f'y={path}', '--out', out, '--device', 'CPU',
                *jit), 0)
            tap.check(f'several results to {ending} {jit}', complaints)
            check_file(tap, f'several results of {ending} {jit}', out, {
                '0': ((24,), X), '1': ((2, 3, 4), [
                    v + X[i % 4] for i, v in enumerate(X)])})
    out = f'{folder}/one.npz'
    tap.check('one result', expect(run(
        'eval', 'x', '--in', f'x={path}', '--out', out), 0))
    check_file(tap, 'one result by its name', out + ':out', {'': ARRAYS['x']})
    done = run('eval', 'sort(x[0, 0])', '--in', f'x={path}', '--json')
    complaints = expect(done, 0)
    if not complaints and [o['values'] for o in
                           json.loads(done.stdout)['outputs']] != [
                               X[:4], [0, 1, 2, 3]]:
        complaints.append(done.stdout)
    tap.check('several results as JSON', complaints)
    for what, args, part in (
            ('several to .npy', ['--out', f'{folder}/o.npy'], 'of 2 results'),
            ('--grad of several', ['--grad', 'x'], 'of a list of 2'),
            ('--jit with --grad', ['--grad', 'x', '--jit'], 'without --grad')):
        done = run('eval', '(x, x)', '--in', f'x={path}', *args)
        tap.check(f'refuses {what}', [] if part in done.stderr and
                  done.returncode in (1, 2) else [done.stderr])


def check_damage(tap, folder):
    """No file, however damaged, does more than be refused."""
    rng = random.Random(8)
    for name in ('stored.npz', 'deflated.npz', 'net.pth', 'fortran.npy'):
        with open(os.path.join(FORMATS, name), 'rb') as file:
            content = file.read()
        complaints = []
        for i in range(60):
            bad = bytearray(content)
            if i % 3 == 0:
                bad = bad[:rng.randrange(len(bad))]
            else:
                for _ in range(rng.randrange(1, 4)):
                    bad[rng.randrange(len(bad))] ^= 1 << rng.randrange(8)
            path = write(folder, 'bad' + name[-4:], bytes(bad))
            tensor = {'.npz': ':x', '.pth': ':net.w', '.npy': ''}[name[-4:]]
            done = run('eval', 'x', '--in', f'x={path}{tensor}')
            if done.returncode not in (0, 1, 2, 3, 6):
                complaints.append(f'{bytes(bad)}: {done.returncode} '
                                  f'{done.stderr}')
                break
        tap.check(f'damaged {name}', complaints)


def check_numpy(tap, folder):
    """What check_outputs made, read by NumPy and safetensors; a file of the
    latter."""
    import numpy as np

    def check(what, got):
        x = np.array(X, np.float32).reshape(2, 3, 4)
        want = {'0': x.reshape(-1), '1': x + x[0, 0]}
        tap.check(what, [f'{k}: {v}' for k, v in got.items()
                         if v.dtype != np.float32 or
                         not np.array_equal(v, want.get(k))] +
                  ([] if len(got) == 2 else [f'{list(got)}']))
        return want
    with np.load(f'{folder}/several.npz') as npz:
        want = check('NumPy reads .npz', dict(npz))
    from safetensors import numpy as st
    check('safetensors reads .safetensors',
          st.load_file(f'{folder}/several.safetensors'))
    st.save_file(dict(want, i=np.array([[3, -1]])), f'{folder}/st.safetensors')
    check_file(tap, "safetensors' .safetensors", f'{folder}/st.safetensors',
               {'0': ((24,), X), 'i': ((1, 2), [3, -1]),
                '1': ((2, 3, 4), want['1'].reshape(-1).tolist())})


def check_gguf(tap, folder):
    """Tensors that the gguf package wrote are what it says they are."""
    import gguf
    import numpy as np
    rng, path, want = np.random.default_rng(3), f'{folder}/all.gguf', {}
    writer = gguf.GGUFWriter(path, 'llama')
    # of those that it reads only: where a block's float16 begin, and how many
    scales = {'Q2_K': (80, 2), 'Q3_K': (108, 1), 'Q4_K': (0, 2),
              'Q5_K': (0, 2), 'Q6_K': (208, 1), 'IQ4_NL': (0, 1),
              'IQ4_XS': (0, 1), 'TQ1_0': (52, 1), 'TQ2_0': (64, 1),
              'MXFP4': (0, 0)}
    for name in ('F32 F16 BF16 Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 '.split() +
                 list(scales)):
        kind = gguf.GGMLQuantizationType[name]
        x = rng.standard_normal((3, 512)).astype(np.float32)
        if name in scales:
            elems, size = gguf.GGML_QUANT_SIZES[kind]
            data = rng.integers(0, 256, (x.size // elems, size), np.uint8)
            at, n = scales[name]
            data[:, at:at + 2 * n] = rng.standard_normal(
                (len(data), n)).astype(np.float16).view(np.uint8)
            if name == 'MXFP4':  # 255 stands for NaN
                data[:, 0] %= 255
            data = data.reshape(3, -1)
        else:
            data = gguf.quants.quantize(x, kind)
        want[name] = gguf.quants.dequantize(data, kind)
        writer.add_tensor(name, data, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    for name, values in want.items():
        out = f'{folder}/{name}.npy'
        complaints = expect(run('eval', 'w + 0', '--in', f'w={path}:{name}',
                                '--out', out, '--device', 'CPU'), 0)
        if not complaints and not np.array_equal(
                np.load(out).astype(np.float32), values):
            complaints = [f'{np.load(out)}\n{values}']
        tap.check(f"gguf's {name}", complaints)


def main():
    tap = Tap()
    with tempfile.TemporaryDirectory() as folder:
        check_folder(tap, FORMATS, "the tests'")
        check_shards(tap, folder)
        check_others(tap, folder)
        check_outputs(tap, folder)
        check_damage(tap, folder)
        try:
            subprocess.run([sys.executable, os.path.join(FORMATS, 'write.py'),
                            folder], check=True, capture_output=True)
            check_folder(tap, folder, "today's")
        except subprocess.CalledProcessError:
            print('# without new files: NumPy or PyTorch is not installed')
        for check in check_numpy, check_gguf:
            try:
                check(tap, folder)
            except ImportError as absent:
                print(f'# not the whole of {check.__name__}: {absent}')
    tap.finish()


if __name__ == '__main__':
    main()
