#!/usr/bin/env python3
"""The machine code in hcq/nv/nv_move.c is that of hcq/nv/move/move.ptx, as
ptxas assembles it: instructions, registers, where the parameters are.

usage: test_nv_move.py SOURCE_ROOT [--print]

--print writes the text for nv_move.c instead. Without a ptxas of VERSION, whose
choices the words are: exit code 77.
"""
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(__file__), '..', 'structure'))
from common import Tap, read  # noqa: E402

VERSION = 'V13.0.88'
# The generations, and where the parameters lie in constant bank 0: the size of
# struct nv_cbank_sm80 and its like.
CHIPS = {80: 0x160, 90: 0x210, 100: 0x380, 120: 0x380}
PTX_VERSIONS = {80: '7.0', 90: '7.8', 100: '8.6', 120: '8.7'}
# src: docs/hardware/nvidia-code.md, "Attributes"
ATTRIBUTE_VALUE, REGISTERS, PARAMS_AT = 4, 0x2f, 0x0a
EXIT = 0x94d  # of 12 bits; the code that follows the last one is padding


def find_ptxas():
    for path in (os.environ.get('BELL_PTXAS'), shutil.which('ptxas'),
                 '/usr/local/cuda/bin/ptxas'):
        if path and os.access(path, os.X_OK):
            text = subprocess.run([path, '--version'], capture_output=True,
                                  text=True, check=True).stdout
            if VERSION in text:
                return path
    return None


def sections(data):
    """Name: bytes, of those that a file has."""
    table, = struct.unpack_from('<Q', data, 0x28)
    size, count, names = struct.unpack_from('<HHH', data, 0x3a)
    rows = [struct.unpack_from('<IIQQQQ', data, table + size * i)
            for i in range(count)]
    start = rows[names][4]
    return {data[start + row[0]:].split(b'\0')[0].decode():
            data[row[4]:row[4] + row[5]] for row in rows}


def attribute(info, wanted):
    """The last word of an attribute's value."""
    at = 0
    while at < len(info):
        form, number, n_bytes = struct.unpack_from('<BBH', info, at)
        at += 4
        if form == ATTRIBUTE_VALUE:
            if number == wanted:
                return struct.unpack_from('<I', info, at + n_bytes - 4)[0]
            at += n_bytes
    return None


def assemble(ptxas, root, sm, folder):
    text = read(root, 'hcq/nv/move/move.ptx')
    text = text.replace('.version 7.0', '.version ' + PTX_VERSIONS[sm])
    source, code = os.path.join(folder, 'ptx'), os.path.join(folder, 'cubin')
    with open(source, 'w', encoding='utf-8') as file:
        file.write(text.replace('.target sm_80', f'.target sm_{sm}'))
    subprocess.run([ptxas, f'-arch=sm_{sm}', source, '-o', code], check=True)
    with open(code, 'rb') as file:
        parts = sections(file.read())
    words = [w[0] for w in struct.iter_unpack('<Q', parts['.text.move'])]
    last = max(i for i in range(0, len(words), 2) if words[i] & 0xfff == EXIT)
    return {
        'words': words[:last + 2],
        'n_regs': attribute(parts['.nv.info'], REGISTERS),
        'params': attribute(parts['.nv.info.move'], PARAMS_AT) & 0xffff,
        'banks': {name for name in parts if name.startswith('.nv.constant')},
    }


def committed(text, sm):
    words = re.search(r'sm%d_words\[\] = \{([^}]*)\}' % sm, text)
    row = re.search(r'\{%d, (\d+), ARRAY_LEN\(sm%d_words\)' % (sm, sm), text)
    return [int(w, 0) for w in re.findall(r'0x[0-9a-f]+', words[1])], int(row[1])


def print_text(sm, made):
    print(f'static const uint64_t sm{sm}_words[] = {{')
    for i in range(0, len(made['words']), 2):
        print('    ' + ' '.join(f'0x{w:016x},' for w in made['words'][i:i + 2]))
    print(f'}};\n{{{sm}, {made["n_regs"]}, ARRAY_LEN(sm{sm}_words), '
          f'sm{sm}_words}},')


def main():
    root = sys.argv[1]
    ptxas = find_ptxas()
    if not ptxas:
        print(f'1..0 # SKIP no ptxas {VERSION}')
        sys.exit(77)
    tap = Tap()
    with tempfile.TemporaryDirectory() as folder:
        for sm, params in CHIPS.items():
            made = assemble(ptxas, root, sm, folder)
            if '--print' in sys.argv:
                print_text(sm, made)
                continue
            words, n_regs = committed(read(root, 'hcq/nv/nv_move.c'), sm)
            tap.check(f'sm_{sm}: instructions', [
                f'word {i}: 0x{b:016x} is committed, ptxas says 0x{a:016x}'
                for i, (a, b) in enumerate(zip(made['words'], words)) if a != b]
                + ([] if len(words) == len(made['words']) else
                   [f'{len(words)} words, ptxas says {len(made["words"])}']))
            tap.check(f'sm_{sm}: registers', [] if n_regs == made['n_regs'] else
                      [f'{n_regs}, ptxas says {made["n_regs"]}'])
            tap.check(f'sm_{sm}: parameters at 0x{params:x}, no other constants',
                      [] if made['params'] == params and
                      made['banks'] == {'.nv.constant0.move'} else [str(made)])
    if '--print' not in sys.argv:
        tap.finish()


if __name__ == '__main__':
    main()
