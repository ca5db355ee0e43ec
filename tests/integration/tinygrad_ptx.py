"""tinygrad's NVIDIA backend on simulated cards: its PTX, which NVIDIA's
assembler would turn into machine code, goes into the file that simulated cards
take instead (render/ptx/nv_container.h). All else is tinygrad's own.

usage: python tinygrad_ptx.py SCRIPT ARGS...   (or -c TEXT, or -m MODULE)
with DEV=NV:PTX
"""
import os
import re
import runpy
import struct
import sys

os.environ['PARALLEL'] = '0'  # other processes would compile without this
from tinygrad.runtime.support import compiler_cuda

PARAM_BASE = {80: 0x160, 86: 0x160, 89: 0x160, 90: 0x210, 100: 0x380,
              120: 0x380}
N_REGS = 64  # an estimate: as many as suit 1024 threads
NOBITS, PROGBITS, STRTAB = 8, 1, 3


def attribute(code, *words):
    return struct.pack(f'<BBH{len(words)}I', 4, code, 4 * len(words), *words)


def element_bytes(kind):
    return int(re.sub(r'\D', '', kind)) // 8


def pack(text, sm):
    """The file, with the sections and attributes that tinygrad looks at."""
    entry = re.search(r'\.entry\s+(\w+)', text)[1]
    params = re.findall(r'\.param\s+\.(\w+)\s+\w+', text)
    n_param_bytes = 0
    for kind in params:
        size = element_bytes(kind)
        n_param_bytes = -(-n_param_bytes // size) * size + size
    shared = sum(int(n) * element_bytes(kind) for kind, n in re.findall(
        r'\.shared\s+(?:\.align\s+\d+\s+)?\.(\w+)\s+\w+\[(\d+)\]', text))
    stack = sum(int(n) * element_bytes(kind) for kind, n in re.findall(
        r'\.local\s+(?:\.align\s+\d+\s+)?\.(\w+)\s+\w+\[(\d+)\]', text))
    code = b'BELL PTX' + struct.pack('<II', 1, len(text)) + text.encode()
    base = PARAM_BASE[sm]
    sections = [
        ('', 0, b'', 0),
        ('.nv.info', 0x70000000,
         attribute(0x2f, 0, N_REGS) + attribute(0x12, 0, stack), 0),
        ('.nv.info.' + entry, 0x70000000,
         attribute(0x0a, 0, base | n_param_bytes << 16), 0),
        ('.nv.constant0.' + entry, PROGBITS, bytes(base + n_param_bytes), 0),
        ('.text.' + entry, PROGBITS, code + bytes(-len(code) % 128), 0),
        ('.nv.shared.' + entry, NOBITS, b'', shared),
    ]
    names = b''.join(name.encode() + b'\0' for name, _, _, _ in sections)
    names += b'.shstrtab\0'
    sections.append(('.shstrtab', STRTAB, names, 0))
    body, rows, name_at = b'', b'', 0
    for name, kind, data, size in sections:
        body += bytes(-len(body) % 128)
        rows += struct.pack('<IIQQQQIIQQ', name_at, kind, 0, 0, 64 + len(body),
                            size or len(data), 0, 0, 128, 0)
        body += data
        name_at += len(name) + 1
    return struct.pack('<16sHHIQQQIHHHHHH', b'\x7fELF\x02\x01\x01\x41', 2, 190,
                       1, 0, 0, 64 + len(body), sm, 64, 0, 0, 64,
                       len(sections), len(sections) - 1) + body + rows


class Packer(compiler_cuda.PTXCompiler):
    def __init__(self, arch):
        super().__init__(arch, cache_key='bell_ptx')

    def compile(self, src):
        return pack(super().compile(src).decode(), int(self.arch[3:]))


def main():
    compiler_cuda.NVPTXCompiler = Packer
    sys.argv = sys.argv[1:]
    if sys.argv[0] == '-c':
        exec(compile(sys.argv[1], '<text>', 'exec'), {'__name__': '__main__'})
    elif sys.argv[0] == '-m':
        sys.argv = sys.argv[1:]
        runpy.run_module(sys.argv[0], run_name='__main__', alter_sys=True)
    else:
        runpy.run_path(sys.argv[0], run_name='__main__')


main()
