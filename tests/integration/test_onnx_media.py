#!/usr/bin/env python3
"""Images and sounds as inputs of a model: `doorbell run MODEL --in x=cat.png`,
.jpg and .wav; damaged ones.

usage: test_onnx_media.py DOORBELL [--no-png] [--no-jpeg]
"""
import base64
import os
import struct
import sys
import tempfile
import zlib

import onnx_write
from arrays import read_npy
from cli import Tap, expect, run

# 8 x 8 pixels of (200, 100, 50).
JPEG = base64.b64decode(
    '/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDAAIBAQEBAQIBAQECAgICAgQDAgICAgUEBAMEBgUGBgYF'
    'BgYGBwkIBgcJBwYGCAsICQoKCgoKBggLDAsKDAkKCgr/2wBDAQICAgICAgUDAwUKBwYHCgoKCgoK'
    'CgoKCgoKCgoKCgoKCgoKCgoKCgoKCgoKCgoKCgoKCgoKCgoKCgoKCgoKCgr/wAARCAAIAAgDAREA'
    'AhEBAxEB/8QAFAABAAAAAAAAAAAAAAAAAAAABf/EABQQAQAAAAAAAAAAAAAAAAAAAAD/xAAUAQEA'
    'AAAAAAAAAAAAAAAAAAAI/8QAFBEBAAAAAAAAAAAAAAAAAAAAAP/aAAwDAQACEQMRAD8APFc2H//Z')
# 2 rows of 3 pixels.
PIXELS = [[(255, 0, 0), (0, 255, 0), (0, 0, 255)],
          [(10, 20, 30), (0, 0, 0), (255, 255, 255)]]


def png(width=3, height=2):
    def chunk(kind, data):
        return (struct.pack('>I', len(data)) + kind + data +
                struct.pack('>I', zlib.crc32(kind + data)))

    rows = b''.join(b'\0' + bytes(v for pixel in row for v in pixel)
                    for row in PIXELS)
    return (b'\x89PNG\r\n\x1a\n' +
            chunk(b'IHDR', struct.pack('>IIBBBBB', width, height, 8, 2, 0, 0,
                                       0)) +
            chunk(b'IDAT', zlib.compress(rows)) + chunk(b'IEND', b''))


def wav(samples, encoding=1, bits=16, channels=1, more=b''):
    fmt = struct.pack('<HHIIHH', encoding, channels, 16000,
                      16000 * channels * bits // 8, channels * bits // 8,
                      bits)
    return (b'RIFF' + struct.pack('<I', 36 + len(samples)) + b'WAVEfmt ' +
            struct.pack('<I', 16) + fmt + more + b'data' +
            struct.pack('<I', len(samples)) + samples)


class Case:
    def __init__(self, tap, folder):
        self.tap, self.folder = tap, folder

    def path(self, name, data=None):
        path = os.path.join(self.folder, name)
        if data is not None:
            with open(path, 'wb') as file:
                file.write(data)
        return path

    def model(self, *shape, dtype=onnx_write.FLOAT):
        g = onnx_write.Graph('identity')
        g.input('x', shape, dtype)
        g.node('Identity', 'x', out='y')
        g.output('y', shape, dtype)
        g.save(self.path('m.onnx'))
        return self.path('m.onnx')

    def check(self, name, shape, file, want, *more, dtype=onnx_write.FLOAT,
              near=1e-6):
        out = self.path('y.npy')
        complaints = expect(run('run', self.model(*shape, dtype=dtype), '--in',
                                f'x={file}', '--out', f'y={out}', '--device',
                                'CPU', *more), 0)
        if not complaints:
            got = read_npy(out).flat
            if len(got) != len(want) or any(
                    abs(a - b) > near for a, b in zip(got, want)):
                complaints.append(f'{got} in place of {want}')
        self.tap.check(name, complaints)

    def refuse(self, name, shape, file, part, *more, code=1,
               dtype=onnx_write.FLOAT):
        self.tap.check(name, expect(
            run('run', self.model(*shape, dtype=dtype), '--in', f'x={file}',
                '--device', 'CPU', *more), code, err=part))


def planes(of=lambda v, c: v / 255):
    return [of(pixel[c], c) for c in range(3) for row in PIXELS
            for pixel in row]


def check_png(case):
    file = case.path('a.png', png())
    case.check('channels first', (1, 3, 2, 3), file, planes())
    case.check('open sizes', ('n', 3, 'h', 'w'), file, planes())
    case.check('channels last', (1, 2, 3, 3), file,
               [v / 255 for row in PIXELS for pixel in row for v in pixel])
    case.check('bytes', (2, 3, 3), file,
               [v for row in PIXELS for pixel in row for v in pixel], dtype=2)
    case.check('0..255', (3, 2, 3), file, planes(lambda v, c: v), '--scale',
               '1')
    mean, std = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
    case.check('mean and deviation', (1, 3, 2, 3), file,
               planes(lambda v, c: (v / 255 - mean[c]) / std[c]), '--mean',
               '0.485,0.456,0.406', '--std', '0.229,0.224,0.225')
    case.check('luma', (1, 1, 2, 3), file,
               [(0.299 * r + 0.587 * g + 0.114 * b) / 255
                for row in PIXELS for r, g, b in row])
    case.check('resized', (1, 3, 4, 6), case.path(
        'b.png', png()), [0] * 72, '--resize', near=1)
    case.refuse('another size', (1, 3, 4, 6), file, '--resize stretches it')
    case.refuse('four channels', (1, 4, 2, 2), file, 'give --shape')
    case.refuse('three numbers', (1, 3, 2, 3), file, 'or three with commas',
                '--mean', '1,2')
    case.refuse('a truncated image', (1, 3, 2, 3),
                case.path('c.png', png()[:60]), 'c.png')
    case.refuse('an image of 2^62 pixels', (1, 3, 'h', 'w'),
                case.path('d.png', png((1 << 31) - 1, (1 << 31) - 1)), 'd.png')


def check_jpeg(case):
    file = case.path('a.jpg', JPEG)
    case.check('a JPEG image', (1, 3, 8, 8), file,
               [v for v in (200, 100, 50) for _ in range(64)], '--scale', '1',
               near=3)
    case.refuse('a truncated JPEG image', (1, 3, 8, 8),
                case.path('b.jpg', JPEG[:100]), 'b.jpg')


def check_wav(case):
    want = [0.5, -0.25, 0.75, -1]
    whole = [int(v * 2 ** 31) for v in want]
    for name, bits, encoding, data in (
            ('8 bits', 8, 1, bytes(int(v * 128) + 128 for v in want)),
            ('16 bits', 16, 1, struct.pack('<4h', *(v >> 16 for v in whole))),
            ('24 bits', 24, 1, b''.join(struct.pack('<i', v)[1:]
                                        for v in whole)),
            ('32 bits', 32, 1, struct.pack('<4i', *whole)),
            ('floats', 32, 3, struct.pack('<4f', *want)),
            ('float64', 64, 3, struct.pack('<4d', *want))):
        case.check(f'a sound, {name}', (1, 'n'),
                   case.path('a.wav', wav(data, encoding, bits)), want)
    data = struct.pack('<4h', *(v >> 16 for v in whole))
    stereo = case.path('s.wav', wav(data, channels=2, more=b'LIST\1\0\0\0a\0'))
    case.check('two channels', (1, 2, 'n'), stereo, [0.5, 0.75, -0.25, -1])
    case.check('scaled', ('n',), case.path('m.wav', wav(data)),
               [v * 32768 for v in want], '--scale', '0.000030517578125')
    case.refuse('channels that are not', (1, 'n'), stereo, '2 channels')
    case.refuse('another length', (1, 5), case.path('m.wav', wav(data)),
                "4 samples of each channel, at 16000 Hz; input 'x' takes 5")
    case.refuse('a truncated sound', (1, 'n'),
                case.path('t.wav', wav(data)[:-3]), 'truncated')
    case.refuse('no sound', (1, 'n'), case.path('n.wav', b'RIFF'), 'not a RIFF')
    case.refuse('an encoding', (1, 'n'),
                case.path('e.wav', wav(data, encoding=2)), 'encoding 2', code=6)


def main():
    tap = Tap()
    with tempfile.TemporaryDirectory() as folder:
        case = Case(tap, folder)
        for kind, check, data in (('png', check_png, png()),
                                  ('jpeg', check_jpeg, JPEG)):
            if f'--no-{kind}' in sys.argv:
                case.refuse(f'without {kind}', (1, 3, 'h', 'w'),
                            case.path(f'a.{kind}', data),
                            'doorbell was built without lib', code=6)
            else:
                check(case)
        check_wav(case)
    tap.finish()


if __name__ == '__main__':
    main()
