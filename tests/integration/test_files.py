#!/usr/bin/env python3
"""Files of tensors, by `doorbell eval --in w=FILE:NAME`: every type of GGUF
and safetensors against plain Python, and damaged files.

usage: test_files.py DOORBELL [--small] [--sim]
"""
import argparse
import collections
import io
import json
import os
import pickle
import random
import struct
import sys
import tempfile
import types
import zipfile

from cli import Tap, expect, expect_json_error, run
from gguf_write import gguf, gguf_meta, text

SMALL = '--small' in sys.argv


def f32(x):
    return struct.unpack('<f', struct.pack('<f', x))[0]


def half(data, at):
    return struct.unpack_from('<e', data, at)[0]


def nibbles(data):
    return [b & 15 for b in data] + [b >> 4 for b in data]


def fifth(data, at):
    bits, low = struct.unpack_from('<I', data, at)[0], nibbles(data[at + 4:])
    return [q | (bits >> i & 1) << 4 for i, q in enumerate(low)]


def scales_k(b):
    """The 6-bit scales and least values of Q4_K and Q5_K."""
    scales = [b[j] & 63 if j < 4 else b[j + 4] & 15 | b[j - 4] >> 6 << 4
              for j in range(8)]
    least = [b[j + 4] & 63 if j < 4 else b[j + 4] >> 4 | b[j] >> 6 << 4
             for j in range(8)]
    return scales, least


def with_least(b, q):
    d, m = half(b, 0), half(b, 2)
    scales, least = scales_k(b[4:16])
    return [f32(f32(f32(d * scales[i // 32]) * x) - f32(m * least[i // 32]))
            for i, x in enumerate(q)]


def q4_k(b):
    q = []
    for j in range(4):
        q += nibbles(b[16 + 32 * j:48 + 32 * j])
    return with_least(b, q)


def q5_k(b):
    q = []
    for j in range(4):
        q += nibbles(b[48 + 32 * j:80 + 32 * j])
    return with_least(b, [x | (b[16 + i % 32] >> i // 32 & 1) << 4
                          for i, x in enumerate(q)])


def q6_k(b):
    q, d = [], half(b, 208)
    for h in range(2):
        low, high = b[64 * h:64 * h + 64], b[128 + 32 * h:160 + 32 * h]
        for j in range(4):
            q += [(low[j % 2 * 32 + i] >> j // 2 * 4 & 15 |
                   (high[i] >> 2 * j & 3) << 4) - 32 for i in range(32)]
    scales = struct.unpack_from('<16b', b, 192)
    return [f32(f32(d * scales[i // 16]) * x) for i, x in enumerate(q)]


def twos(b):
    """Numbers of 2 bits, by runs of 32."""
    return [b[h + i] >> 2 * j & 3 for h in range(0, len(b), 32)
            for j in range(4) for i in range(32)]


def q2_k(b):
    d, m = half(b, 80), half(b, 82)
    return [f32(f32(f32(d * (b[i // 16] & 15)) * x) -
                f32(m * (b[i // 16] >> 4)))
            for i, x in enumerate(twos(b[16:80]))]


def q3_k(b):
    d, s = half(b, 108), b[96:108]
    scales = [(s[i % 8] >> i // 8 * 4 & 15 |
               (s[8 + i % 4] >> i // 4 * 2 & 3) << 4) - 32 for i in range(16)]
    return [f32(f32(d * scales[i // 16]) *
                (x - (0 if b[i % 32] >> i // 32 & 1 else 4)))
            for i, x in enumerate(twos(b[32:96]))]


SPACED = (-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89,
          113)


def iq4_xs(b):
    d, high, values = half(b, 0), b[2] | b[3] << 8, []
    for i in range(8):
        scale = (b[4 + i // 2] >> i % 2 * 4 & 15 |
                 (high >> 2 * i & 3) << 4) - 32
        values += [f32(f32(d * scale) * SPACED[q])
                   for q in nibbles(b[8 + 16 * i:24 + 16 * i])]
    return values


def threes(b, n_digits):
    return [((x * 3 ** j & 255) * 3 >> 8) - 1
            for j in range(n_digits) for x in b]


def tq1_0(b):
    q = threes(b[:32], 5) + threes(b[32:48], 5) + threes(b[48:52], 4)
    return [f32(x * half(b, 52)) for x in q]


def mxfp4(b):
    values = (0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12)
    return [f32(values[q] * 2.0 ** (b[0] - 128)) for q in nibbles(b[1:])]


# Number of ggml, bytes and elements of a block, its values.
BLOCKS = {
    'Q4_0': (2, 18, 32, lambda b: [f32((q - 8) * half(b, 0))
                                   for q in nibbles(b[2:])]),
    'Q4_1': (3, 20, 32, lambda b: [f32(f32(q * half(b, 0)) + half(b, 2))
                                   for q in nibbles(b[4:])]),
    'Q5_0': (6, 22, 32, lambda b: [f32((q - 16) * half(b, 0))
                                   for q in fifth(b, 2)]),
    'Q5_1': (7, 24, 32, lambda b: [f32(f32(q * half(b, 0)) + half(b, 2))
                                   for q in fifth(b, 4)]),
    'Q8_0': (8, 34, 32, lambda b: [f32(q * half(b, 0))
                                   for q in struct.unpack('<32b', b[2:])]),
    'Q2_K': (10, 84, 256, q2_k),
    'Q3_K': (11, 110, 256, q3_k),
    'Q4_K': (12, 144, 256, q4_k),
    'Q5_K': (13, 176, 256, q5_k),
    'Q6_K': (14, 210, 256, q6_k),
    'IQ4_NL': (20, 18, 32, lambda b: [f32(SPACED[q] * half(b, 0))
                                      for q in nibbles(b[2:])]),
    'IQ4_XS': (23, 136, 256, iq4_xs),
    'TQ1_0': (34, 54, 256, tq1_0),
    'TQ2_0': (35, 66, 256, lambda b: [f32((q - 1) * half(b, 64))
                                      for q in twos(b[:64])]),
    'MXFP4': (39, 17, 32, mxfp4),
}
HALVES = {'Q2_K': (80, 82), 'Q3_K': (108,), 'TQ1_0': (52,), 'TQ2_0': (64,),
          'MXFP4': (),
          'Q4_1': (0, 2), 'Q5_1': (0, 2), 'Q4_K': (0, 2), 'Q5_K': (0, 2),
          'Q6_K': (208,)}
# Number, struct's letter, the dtype that .npy has for it.
PLAIN = {
    'F32': (0, 'f', '<f4'), 'F16': (1, 'e', '<f2'), 'I8': (24, 'b', '|i1'),
    'I16': (25, 'h', '<i2'), 'I32': (26, 'i', '<i4'), 'I64': (27, 'q', '<i8'),
    'F64': (28, 'd', '<f8'), 'BF16': (30, None, '<f4'),
}


def safetensors(tensors, metas=None):
    header, data = {}, b''
    if metas:
        header['__metadata__'] = metas
    for name, dtype, shape, content in tensors:
        header[name] = {'dtype': dtype, 'shape': shape,
                        'data_offsets': [len(data), len(data) + len(content)]}
        data += content
    header = json.dumps(header).encode()
    return struct.pack('<Q', len(header)) + header + data


class Tensor:
    """A tensor of float32, or of another storage, as torch.save has it."""

    def __init__(self, content, storage='FloatStorage', *metadata):
        self.content, self.storage = content, storage
        self.metadata = metadata


class Call:
    """An object that a call makes when the pickle is loaded."""

    def __init__(self, module, name, args):
        self.of, self.args = (module, name), args


def torch_file(made, protocol=2):
    """A .pth file, with stubs in place of torch."""
    contents, stubs, out = [], {}, io.BytesIO()

    def stub(module, name):
        if (module, name) not in stubs:
            stubs[module, name] = type(name, (), {'__module__': module})
            for part in (module.split('.')[0], module):
                sys.modules.setdefault(part, types.ModuleType(part))
            if not hasattr(sys.modules[module], name):
                setattr(sys.modules[module], name, stubs[module, name])
            stubs[module, name] = getattr(sys.modules[module], name)
        return stubs[module, name]

    class Storage:
        def __init__(self, tensor):
            self.tensor = tensor

    class Pickler(pickle.Pickler):
        def persistent_id(self, obj):
            if not isinstance(obj, Storage):
                return None
            contents.append(obj.tensor.content)
            return ('storage', stub('torch', obj.tensor.storage),
                    str(len(contents) - 1), 'cpu', 1)

        def reducer_override(self, obj):
            if isinstance(obj, Tensor):
                return stub('torch._utils', '_rebuild_tensor_v2'), (
                    Storage(obj), 0, (1,), (1,), False,
                    collections.OrderedDict(), *obj.metadata)
            if isinstance(obj, Call):
                return stub(*obj.of), obj.args
            return NotImplemented

    Pickler(out, protocol).dump(made)
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, 'w') as archive:
        archive.writestr('a/data.pkl', out.getvalue())
        for i, content in enumerate(contents):
            archive.writestr(f'a/data/{i}', content)
    for module in ('torch', 'torch._utils'):
        sys.modules.pop(module, None)
    return whole.getvalue()


def random_blocks(rng, kind, n):
    _, n_bytes, _, _ = BLOCKS[kind]
    blocks = []
    for _ in range(n):
        block = bytearray(rng.randbytes(n_bytes))
        for at in HALVES.get(kind, (0,)):
            struct.pack_into('<e', block, at, rng.uniform(-2, 2))
        if kind == 'MXFP4':
            block[0] = rng.randrange(100, 150)
        blocks.append(bytes(block))
    return blocks


class Files:
    def __init__(self, folder):
        self.folder = folder

    def write(self, name, content):
        path = os.path.join(self.folder, name)
        with open(path, 'wb') as file:
            file.write(content)
        return path

    def read(self, path, name, device, expr='w'):
        """Descriptor, shape and bytes of the values, and complaints."""
        out = os.path.join(self.folder, 'out.npy')
        done = run('eval', expr, '--in', f'w={path}:{name}', '--out', out,
                   '--device', device)
        complaints = expect(done, 0)
        if complaints:
            return None, None, b'', complaints
        with open(out, 'rb') as file:
            data = file.read()
        start = 10 + struct.unpack_from('<H', data, 8)[0]
        header = eval(data[10:start].decode())  # pylint: disable=eval-used
        return header['descr'], header['shape'], data[start:], []


def check_blocks(tap, files, device):
    rng = random.Random(3)
    tensors, want = [], {}
    for kind, (number, _, n_elems, values) in BLOCKS.items():
        blocks = random_blocks(rng, kind, 6)
        tensors.append((f'{kind} one', number, (3, 2 * n_elems),
                        b''.join(blocks)))
        want[kind] = sum((values(block) for block in blocks), [])
    path = files.write('blocks.gguf', gguf(tensors))
    for kind, (_, _, n_elems, _) in BLOCKS.items():
        descr, shape, data, complaints = files.read(path, f'{kind} one',
                                                    device)
        if not complaints:
            if (descr, shape) != ('<f4', (3, 2 * n_elems)):
                complaints.append(f'{descr} {shape}')
            got = struct.unpack(f'<{len(data) // 4}f', data)
            wrong = [i for i, (a, b) in enumerate(zip(got, want[kind]))
                     if a != b]
            if wrong or len(got) != len(want[kind]):
                complaints.append(f'{len(wrong)} of {len(got)} differ: number '
                                  f'{wrong[:3]}')
        tap.check(f'{kind} on {device}', complaints)
    both = [run('eval', 'w', '--in', f'w{sign}{path}:Q4_0 one', '--device',
                device) for sign in '=@']
    tap.check(f'w=FILE:NAME and w@FILE:NAME are one on {device}',
              expect(both[1], 0, out=both[0].stdout))
    done = run('eval', 'sum(w, 1)', '--in', f'w={path}:Q4_K one', '--device',
               device, '--json')
    tap.check(f'computing with blocks on {device}', expect(done, 0))


def check_plain(tap, files):
    rng = random.Random(4)
    for kind, (number, letter, want) in PLAIN.items():
        shapes = ((2, 3, 5), (), (7,), (0, 4))
        tensors = []
        for shape in shapes:
            n = 1
            for size in shape:
                n *= size
            if letter is None:
                content = struct.pack(f'<{n}H', *[rng.randrange(0x7000)
                                                  for _ in range(n)])
            elif letter in 'efd':
                content = struct.pack(f'<{n}{letter}',
                                      *[rng.gauss(0, 1) for _ in range(n)])
            else:
                content = rng.randbytes(n * struct.calcsize(letter))
            tensors.append((f't{shape}', number, shape, content))
        both = (('a.gguf', gguf(tensors)), ('a.safetensors', safetensors(
            [(name, kind, list(shape), content)
             for name, _, shape, content in tensors], {'format': 'pt'})))
        for file_name, content in both:
            path = files.write(file_name, content)
            complaints = []
            for name, _, shape, data in tensors:
                descr, got_shape, got, more = files.read(path, name, 'CPU')
                complaints += more
                if letter is None:
                    data = b''.join(b'\0\0' + data[i:i + 2]
                                    for i in range(0, len(data), 2))
                if not more and (descr, got_shape, got) != (want, shape, data):
                    complaints.append(f'{name}: {descr} {got_shape}')
            tap.check(f'{kind} of {file_name}', complaints)


def refuses(tap, files, what, content, part, ending='.gguf', name='x'):
    path = files.write('bad' + ending, content)
    tap.check(f'refuses {what}', expect_json_error(
        run('eval', 'w', '--in', f'w={path}:{name}', '--json'),
        6 if part in ('GGUF of version', 'not one of', 'of type',
                      'neither an array of NumPy') else 1, part))


def check_refusals(tap, files):
    one = ('x', 0, (2, 2), bytes(16))
    good = gguf([one], [gguf_meta('general.alignment', 4, 'I', 32)])
    for what, content, part in (
            ('another file', b'RIFF' + bytes(100), 'not one of'),
            ('a zip archive that is cut', b'PK\3\4' + bytes(100),
             'without its end'),
            ('an empty file', b'', 'too short'),
            ('another version', gguf([one], version=4), 'GGUF of version'),
            ('too many tensors', good[:8] + b'\xff' * 8 + good[16:],
             'tensors and'),
            ('two of a name', gguf([one, one]), "two tensors are called 'x'"),
            ('data behind the end', good[:-20], 'ends at byte'),
            ('a name that is no text', good.replace(text('x'), text('\x1b')),
             'byte 0x1b'),
            ('33 axes', gguf([('x', 0, (1,) * 33, bytes(4))]), '33 axes'),
            ('too many elements', gguf([('x', 0, (1 << 40, 1 << 40), b'')]),
             'too many elements'),
            ('rows of half a block', gguf([('x', 2, (2, 16), bytes(18))]),
             'not blocks of 32'),
            ('an unknown type', gguf([('x', 21, (256,), bytes(84))]),
             'of type'),
            ('an alignment of 3', gguf([one], [gguf_meta('general.alignment', 4,
                                                    'I', 3)]), 'aligned to 3'),
            ('a key twice', gguf([one], [gguf_meta('a', 4, 'I', 3)] * 2),
             'there twice'),
            ('a value of no type', gguf([one], [gguf_meta('a', 13, 'I', 3)]),
             'type 13'),
            ('a long list', gguf([one], [text('a') + struct.pack(
                '<IIQ', 9, 4, 1 << 62)]), 'are to follow'),
            ('a list of many strings', gguf([one], [text('a') + struct.pack(
                '<IIQ', 9, 8, 1 << 61)]), 'are to follow')):
        if part == 'type 13':
            tap.check(f'refuses {what}', expect_json_error(
                run('eval', 'w', '--in', 'w=' + files.write(
                    'bad.gguf', content) + ':x', '--json'), 6, part))
            continue
        refuses(tap, files, what, content, part)
    refuses(tap, files, 'a name that is not there', good, "no tensor 'y'",
            name='y')
    entry = {'dtype': 'F32', 'shape': [2], 'data_offsets': [0, 8]}
    for what, header, part in (
            ('no JSON', b'{"x": ', 'not a JSON'), ('a list', b'[1, 2]', 'not one of'),
            ('no dtype', {'x': {}}, 'no dtype'),
            ('no shape', {'x': {'dtype': 'F32'}}, 'no shape'),
            ('a size of -1', {'x': dict(entry, shape=[-1])}, 'invalid size'),
            ('a size of 1.5', {'x': dict(entry, shape=[1.5])}, 'invalid size'),
            ('another number of bytes', {'x': dict(entry, shape=[3])},
             'has 8 bytes'),
            ('places behind the end', {'x': dict(entry,
                                                 data_offsets=[4, 12])},
             'not in the file'),
            ('places backwards', {'x': dict(entry, data_offsets=[8, 0])},
             'not in the file'),
            ('a dtype that there is not', {'x': dict(entry, dtype='C64')},
             'of type'),
            ('metadata of numbers', {'__metadata__': {'a': 1}}, 'not text')):
        if isinstance(header, dict):
            header = json.dumps(header).encode()
        refuses(tap, files, what, struct.pack('<Q', len(header)) + header +
                bytes(8), part, '.safetensors')
    refuses(tap, files, 'a long header', struct.pack('<Q', 1 << 40) + b'{' +
            bytes(20), 'header of', '.safetensors')


NAMES = ('Gewicht.größe', '重み', 'w\U0001f600', 'naïve café')


def check_names(tap, files):
    """Names are UTF-8 without control characters."""
    one = struct.pack('<f', 2.5)
    for ending, content in (
            ('.gguf', gguf([(name, 0, (1,), one) for name in NAMES],
                           [gguf_meta('größe', 4, 'I', 3)])),
            ('.safetensors', safetensors([(name, 'F32', [1], one)
                                          for name in NAMES], {'größe': 'ß'})),
            ('.pth', torch_file({name: Tensor(one) for name in NAMES}))):
        path = files.write('names' + ending, content)
        complaints = []
        for name in NAMES:
            complaints += files.read(path, name, 'CPU')[3]
        tap.check(f'names of {ending}', complaints)
    head = b"{'descr': '<f4', 'fortran_order': False, 'shape': (1,)}\n"
    array = b'\x93NUMPY\1\0' + struct.pack('<H', len(head)) + head + one
    for name, code in (('größe', 0), ('a\x1b[31m', 1)):
        whole = io.BytesIO()
        with zipfile.ZipFile(whole, 'w') as archive:
            archive.writestr(name + '.npy', array)
        path = files.write('names.npz', whole.getvalue())
        tap.check(f'the name {name!r} in .npz', expect(
            run('eval', 'w', '--in', f'w={path}:{name}'), code))
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, 'w') as archive:
        archive.writestr('readme.txt', 'what w is')
        archive.writestr('w.npy', array)
    path = files.write('readme.npz', whole.getvalue())
    tap.check('a text beside an array in .npz', expect(
        run('eval', 'w', '--in', f'w={path}:w'), 0) + expect(
            run('eval', 'w', '--in', f'w={path}:readme.txt'), 6,
            err='readme.txt'))
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, 'w') as archive:
        archive.writestr('readme.txt', 'nothing')
    refuses(tap, files, 'a zip archive without an array', whole.getvalue(),
            'neither an array of NumPy')
    for bad in (b'\xc3', b'\xc3(', b'\xff', b'\xe2\x82', b'\xed\xa0\x80',
                b'\xc0\x80', b'\xf4\x90\x80\x80', b'a\n', b'\x7f',
                b'\xc2\x9b', b'\x80'):
        name = struct.pack('<Q', len(bad)) + bad
        content = gguf([('x', 0, (1,), one)]).replace(text('x'), name)
        refuses(tap, files, f'a name of {bad}', content, 'byte 0x')


# By number: src: ggml.h's enum ggml_type.
UNREAD = {9: 'Q8_1', 15: 'Q8_K', 16: 'IQ2_XXS', 17: 'IQ2_XS', 18: 'IQ3_XXS',
          19: 'IQ1_S', 21: 'IQ3_S', 22: 'IQ2_S', 29: 'IQ1_M', 4: '', 31: '',
          40: '', 99: '', 1 << 31: ''}


def check_unread(tap, files):
    """What is not known is listed by its type and refused; the rest is
    read."""
    one = struct.pack('<f', 2.5)

    def check(what, path, unread):
        tap.check(f'the rest of {what}', files.read(path, 'w', 'CPU')[3])
        for name, kind in unread.items():
            done = run('eval', 'w', '--in', f'w={path}:{name}', '--json')
            tap.check(f'{what}: {name} is refused', expect_json_error(
                done, 6, f"'{name}' is of type {kind}"))

    tensors = [(f'q{number}', number, (256,), bytes(256)) for number in UNREAD]
    check('a GGUF', files.write('kinds.gguf', gguf(
        tensors + [('w', 0, (1,), one)])),
          {f'q{number}': f'{kind} (number {number})' if kind
           else f'number {number}' for number, kind in UNREAD.items()})
    check('safetensors', files.write('kinds.safetensors', safetensors(
        [('a', 'F8_E8M0', [3], bytes(3)), ('b', 'C64', [1], bytes(8)),
         ('w', 'F32', [1], one)])), {'a': 'F8_E8M0', 'b': 'C64'})
    for protocol in (2, 4, 5):
        made = {
            'w': Tensor(one), 'c': Tensor(bytes(8), 'ComplexFloatStorage'),
            'deep': [{'set': {1, 2}, 'w': Tensor(one)}, frozenset([3])],
            'sparse': Call('torch._utils', '_rebuild_sparse_tensor',
                           ('layout', (Tensor(one), 3))),
            'quantised': Call('torch._utils', '_rebuild_qtensor',
                              (Tensor(one), (1, 0.5))),
            'device': Call('torch', 'device', ('cpu',)),
            'counter': collections.Counter('aab'), 'large': 1 << 80,
            'bytes': b'abc', 'object': argparse.Namespace(a=1),
            'call': Call('os', 'system', ('false',)),
            'negated': Tensor(one, 'FloatStorage', {'neg': True}),
            'later': Tensor(one, 'FloatStorage', {'neg': False, 'new': 1}),
            'plain': Tensor(one, 'FloatStorage', {'neg': False}),
            (1, 2): Tensor(one), 'parameter': Call(
                'torch._utils', '_rebuild_parameter',
                (Tensor(bytes(8), 'ComplexFloatStorage'), True, None))}
        path = files.write(f'kinds{protocol}.pth',
                           torch_file(made, protocol))
        check(f'a .pth of protocol {protocol}', path, {
            'c': 'torch.ComplexFloatStorage', 'deep.0.set': '',
            'deep.1': '', 'sparse': 'torch._utils._rebuild_sparse_tensor',
            'quantised': 'torch._utils._rebuild_qtensor',
            'device': 'torch.device', 'counter': 'collections.Counter',
            'large': 'builtins.int', 'bytes': '',
            'object': 'argparse.Namespace', 'call': '',
            'negated': 'torch.Tensor with its bit neg or conj set',
            'later': 'torch.Tensor with its bit neg or conj set',
            'parameter': 'torch.ComplexFloatStorage'})
        for name in ('deep.0.w', 'plain', '?14'):
            tap.check(f'a .pth of protocol {protocol}: {name}',
                      files.read(path, name, 'CPU')[3])
    path = files.write('one.pth', torch_file({1, 2}))
    tap.check('refuses a .pth of a set alone', expect_json_error(
        run('eval', 'w', '--in', f'w={path}', '--json'), 6, 'it holds a'))


def check_places(tap, files):
    """The data of safetensors is its tensors', once, and nothing else."""
    def content(*places, n_bytes=8):
        header = json.dumps({f't{i}': {
            'dtype': 'I8', 'shape': [last - first],
            'data_offsets': [first, last]}
            for i, (first, last) in enumerate(places)}).encode()
        return struct.pack('<Q', len(header)) + header + bytes(n_bytes)

    for places in ((0, 8),), ((4, 8), (0, 4)), ((0, 4), (4, 4), (4, 8)), \
            ((0, 0), (0, 8), (8, 8)):
        path = files.write('whole.safetensors', content(*places))
        tap.check(f'tensors at {places}', files.read(path, 't0', 'CPU')[3])
    for what, data in (
            ('a hole', content((0, 3), (5, 8))),
            ('an overlap', content((0, 5), (3, 8))),
            ('one tensor twice', content((0, 8), (0, 8))),
            ('a hole in front', content((2, 8))),
            ('bytes behind', content((0, 7))),
            ('bytes of no tensor', content())):
        refuses(tap, files, what, data,
                'belong to no tensor' if 'bytes' in what else 'expected',
                '.safetensors', 't0')


def check_damage(tap, files):
    """No file, however damaged, does more than be refused."""
    rng = random.Random(6)
    whole = (('.gguf', gguf(
        [('x', 8, (2, 32), bytes(68)), ('y', 0, (3,), bytes(12))],
        [gguf_meta('a', 4, 'I', 3), text('b') + struct.pack('<I', 8) + text('hey'),
         text('c') + struct.pack('<IIQ', 9, 8, 2) + text('p') + text('q')])),
        ('.safetensors', safetensors([('x', 'F32', [2, 2], bytes(16)),
                                      ('y', 'I8', [3], bytes(3))],
                                     {'format': 'pt'})))
    for ending, content in whole:
        complaints = []
        for i in range(40 if SMALL else 150):
            bad = bytearray(content)
            if i % 3 == 0:
                bad = bad[:rng.randrange(len(bad))]
            else:
                for _ in range(rng.randrange(1, 4)):
                    bad[rng.randrange(len(bad))] ^= 1 << rng.randrange(8)
            path = files.write('damaged' + ending, bytes(bad))
            done = run('eval', 'w', '--in', f'w={path}:x', '--json')
            if done.returncode not in (0, 1, 6):
                complaints += [f'{bytes(bad)}', f'exit code {done.returncode}',
                               done.stderr]
                break
        tap.check(f'damaged {ending}', complaints)


def main():
    tap = Tap()
    with tempfile.TemporaryDirectory() as folder:
        files = Files(folder)
        check_blocks(tap, files, 'CPU')
        if '--sim' in sys.argv:
            check_blocks(tap, files, 'NV@sim:sm_90')
            check_blocks(tap, files, 'AMD@sim:gfx1100')
        check_plain(tap, files)
        check_refusals(tap, files)
        check_names(tap, files)
        check_unread(tap, files)
        check_places(tap, files)
        check_damage(tap, files)
    tap.finish()


if __name__ == '__main__':
    main()
