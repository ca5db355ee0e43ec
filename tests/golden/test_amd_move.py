#!/usr/bin/env python3
"""The machine code in hcq/amd/amd_move.c is that of hcq/amd/move/*.s, as LLVM
assembles it: instructions, and what the kernel descriptor says.

usage: test_amd_move.py SOURCE_ROOT [--print]

--print writes the text for amd_move.c instead. Without llvm-mc-19 and
llvm-objcopy-19: exit code 77.
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

CHIPS = ('gfx942', 'gfx1100', 'gfx1201')
ASSEMBLER, COPIER = 'llvm-mc-19', 'llvm-objcopy-19'
# Bytes of the descriptor. src: docs/hardware/amd-code.md, "Kernel descriptor"
FIELDS = (('rsrc1', 48), ('rsrc2', 52), ('rsrc3', 44), ('properties', 56))


def words_of(data):
    return list(struct.unpack(f'<{len(data) // 4}I', data))


def assemble(root, chip, folder):
    source = os.path.join(root, 'hcq', 'amd', 'move', f'{chip}.s')
    code = os.path.join(folder, chip)
    subprocess.run([ASSEMBLER, '-triple=amdgcn-amd-amdhsa', f'-mcpu={chip}',
                    '-filetype=obj', source, '-o', code], check=True)
    parts = []
    for section in ('.text', '.rodata'):
        subprocess.run([COPIER, '-O', 'binary', '-j', section, code,
                        code + section], check=True)
        with open(code + section, 'rb') as file:
            parts.append(words_of(file.read()))
    return parts


def committed(text, chip):
    words = re.search(r'%s_words\[\] = \{([^}]*)\}' % chip, text)
    row = re.search(r'amd_move_%s = \{([^}]*)\}' % chip, text)
    return ([int(w, 0) for w in re.findall(r'0x[0-9a-f]+', words[1])],
            {name: int(value, 0) for name, value in
             re.findall(r'\.(\w+) = (0x[0-9a-f]+)', row[1])})


def main():
    root = sys.argv[1]
    if not shutil.which(ASSEMBLER) or not shutil.which(COPIER):
        print(f'1..0 # SKIP no {ASSEMBLER}')
        sys.exit(77)
    tap = Tap()
    with tempfile.TemporaryDirectory() as folder:
        for chip in CHIPS:
            code, descriptor = assemble(root, chip, folder)
            fields = {name: descriptor[at // 4] for name, at in FIELDS}
            if '--print' in sys.argv:
                print(f'static const uint32_t {chip}_words[] = {{')
                print(', '.join(f'0x{w:08x}' for w in code) + '};')
                print(fields_text(chip, fields))
                continue
            words, row = committed(read(root, 'hcq/amd/amd_move.c'), chip)
            tap.check(f'{chip}: instructions', [
                f'word {i}: 0x{b:08x} is committed, LLVM says 0x{a:08x}'
                for i, (a, b) in enumerate(zip(code, words)) if a != b] +
                ([] if len(code) == len(words) else
                 [f'{len(words)} words, LLVM says {len(code)}']))
            tap.check(f'{chip}: descriptor', [
                f'{name}: 0x{row.get(name, 0):x} is committed, LLVM says '
                f'0x{value:x}' for name, value in fields.items()
                if row.get(name, 0) != value])
            tap.check(f'{chip}: neither LDS nor scratch, 48 bytes of arguments',
                      [f'{descriptor[:3]}'] if descriptor[:3] != [0, 0, 48]
                      else [])
    if '--print' not in sys.argv:
        tap.finish()


def fields_text(chip, fields):
    rows = ''.join(f'.{name} = 0x{value:08x},' for name, value in
                   fields.items())
    return (f'const struct amd_move_code amd_move_{chip} = {{{rows}.n_words = '
            f'ARRAY_LEN({chip}_words),.words = {chip}_words,}};\n')


if __name__ == '__main__':
    main()
