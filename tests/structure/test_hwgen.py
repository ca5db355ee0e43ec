#!/usr/bin/env python3
"""The register specifications: errors of the language; agreement with the
vendor's headers.

usage: test_hwgen.py SOURCE_ROOT language|facts

The headers' tables are in tests/headers.
"""
import csv
import os
import re
import subprocess
import sys
import tempfile

from common import Tap, read

HEAD = 'vendor v\nunit u\ngens a=1 b=2 c\nsrc: s\nchecked: c\n'

# [text after HEAD (or a whole file), line of the error, part of its message]
WRONG = [
    ('rge R 0\n', 6, 'unknown item'),
    ('reg R\n', 6, 'reg has 1 arguments'),
    ('reg R 1\n', 6, 'R has no fields'),
    ('reg r 1\n', 6, 'not in upper case'),
    ('reg R one\n F 0 bool\n', 6, 'the address is not a number'),
    ('reg R 0 d+\n F 0 bool\n', 6, 'does not belong here: d+'),
    ('reg R 0 c-a\n F 0 bool\n', 6, 'ends before it begins'),
    ('reg R 0 x4+0\n F 0 bool\n', 6, 'the stride is smaller'),
    ('reg R 0 65dw\n F 0 bool\n', 6, 'at most 64 words'),
    ('reg R 0\n F 0 bool\nreg R 4\n F 0 bool\n', 8, 'R a second time'),
    ('reg R 0\n F 0 bool\nreg S 4 as R\n F 0 bool\n', 8, 'R a second time'),
    ('reg AN_EXTRAORDINARILY_LONG_NAME_FOR_THIS 0\n F 0 bool\n', 6,
     'longer than 40 characters'),
    ('reg R 0\n F 32 bool\n', 7, 'beyond the 32 bits'),
    ('reg R 0\n F 0:3 uint\n', 7, 'the high bit comes first'),
    ('reg R 0\n F 3-0 uint\n', 7, 'not a range of bits'),
    ('reg R 0\n F 3:0\n', 7, 'a field is NAME BITS TYPE'),
    ('reg R 0\n F 3:0 float\n', 7, 'not a type'),
    ('reg R 0\n F 3:0 bool\n', 7, 'a bool of 4 bits'),
    ('reg R 0\n F 0 int\n', 7, 'two bits or more'),
    ('reg R 0\n F 3:0 uint =16\n', 7, '16 does not fit'),
    ('reg R 0\n F 3:0 uint\n G 5:3 uint\n', 8, 'overlaps F of line 7'),
    ('reg R 0\n F 3:0,2:1 uint\n', 7, 'overlaps itself'),
    ('reg R 0\n F 3:0 uint x4+3\n', 7, 'overlaps itself'),
    ('reg R 0\n F 3:0 uint x9+4\n', 7, 'beyond the 32 bits'),
    ('reg R 0\n F 1:0 uint -b\n F 5:0 uint b+\n', 8, 'F a second time'),
    ('reg R 0\n F 1:0 uint a\n F 5:0 hex b+\n', 8, 'declared otherwise'),
    ('reg R 0 a\n F 1:0 uint b\n', 7, 'in generations without R'),
    ('reg R 0 3dw\n F 63:0 uint >>8\n', 7, 'more than 64 bits'),
    ('reg R 0\n F 0 bool @count\n', 7, 'heads no stream'),
    ('reg R 0\n F 0 bool @where\n', 7, 'not a role'),
    ('reg R 0\n INT 1:0 uint\n', 7, 'int is a word of C'),
    ('reg R 0\n F 1:0 uint patch a\n', 7, 'patch in some generations'),
    ('block B 1dw|2dw\n F 0 0 bool\n', 6, 'not a size for each'),
    ('block B 1dw|2qw|3dw\n F 0 0 0 bool\n', 6, 'not a size for each'),
    ('reg R 0 1dw|2dw|3dw\n F 0 0 0 bool\n', 6, 'does not belong here'),
    ('block B 1dw|2dw|3dw\n F 0 0 bool\n', 7, '3 columns of BITS'),
    ('block B 1dw|2dw|3dw\n F - - - bool\n', 7, 'no bits anywhere'),
    ('block B 1dw|2dw|3dw\n F 32 0 0 bool\n', 7, 'beyond the 32 bits'),
    ('block B 1dw|2dw|3dw\n F - 0 96 bool\n', 7, 'beyond the 96 bits'),
    ('block B 1dw|2dw|3dw\n F 3:0 0 0 bool\n', 7, 'a bool of 4 bits'),
    ('block B 1dw|2dw|3dw\n F 3:0 1:0 0 uint =1|5|0\n', 7, '5 does not fit'),
    ('block B 1dw|2dw|3dw\n F 0 1 2 hex >>1|2\n', 7, 'not a value for each'),
    ('block B 1dw|2dw|3dw\n F 0 - 2 uint x2+1|1|1\n G - 0 3 uint\n', 8,
     'overlaps F of line 7'),
    (' F 0 bool\n', 6, 'without an item above'),
    ('block B 0dw\n F 0 bool\n', 6, 'not a size of a block'),
    ('block B 8B\n F 0 bool\n', 6, 'not a size of a block'),
    ('block B 1dw stream up\n F 0 bool\n', 6, 'not a kind of stream'),
    ('block B 1dw stream inc\n F 7:0 uint @count\n', 6, 'lacks @address'),
    ('layout L 6B\n F 0 u32\n', 6, 'not a multiple of its widest'),
    ('layout L 8B\n F 2 u32\n', 7, 'not aligned'),
    ('layout L 8B\n F 0 u32\n G 2 u16\n', 8, 'overlaps F'),
    ('layout L 8B\n F 0 u128\n', 7, 'u8|u16|u32|u64'),
    ('enum E\n', 6, 'E has no values'),
    ('enum E\n A 0\n A 1\n', 8, 'A a second time'),
    ('enum E\n A 0x80000000\n', 7, 'does not fit into an enum'),
    ('const C\n', 6, 'const has 1 arguments'),
    ('gens d\n', 6, 'gens comes once'),
    ('step 9\n', 6, 'step is 1 to 8'),
    ('src:\n', 6, 'without a text'),
    ('vendor v\nunit u\nreg R 0\n F 0 bool\n', 3, 'no src:'),
    ('reg R 0\n F 0 bool\n', 1, 'vendor and unit come first'),
    ('# nothing\n', 3, 'no vendor and unit'),
]

# Rows of tests/headers/nvidia-qmd.csv that no spec line stands for.
QMD_LEFT_OUT = re.compile(r'.*RESERVED|QMD_SPARE_')
V5_LEFT_OUT = re.compile(r'DEPENDENT_QMD[01]_(?!POINTER)|'
                         r'DEPENDENT_QMD_POINTER|TPC_DISABLE_MASK')
# What the table calls otherwise than the spec, which has one name for all
# versions.
QMD_NAMES = (
    (r'RELEASE_(?!SEMAPHORE)(\w+)\[(\d)\]', r'RELEASE\2_\1'),
    (r'RELEASE(\d)_(ADDR|PAYLOAD_)(?:ESS)?', r'RELEASE_SEMAPHORE\1_\2'),
    (r'CTA_RASTER_', 'GRID_'),
    (r'REGISTER_COUNT_V\Z', 'REGISTER_COUNT'),
    (r'QMD_VERSION\Z', 'QMD_MINOR_VERSION'),
    (r'CONSTANT_BANK_PREFETCH', 'CONSTANT_BUFFER_PREFETCH'),
)
V3_DEPENDENT = re.compile(r'DEPENDENT_QMD(\d)_(ENABLE|ACTION|PREFETCH)\Z')
# Fields of tests/headers/nvidia-classes.csv that we leave out: a second form
# of a tag, protected memory.
CLASS_LEFT_OUT = re.compile(r'RESERVED_|BY_TAG_|VPRMODE|COPY_TYPE')


def load_hwgen(root):
    sys.dont_write_bytecode = True
    sys.path.insert(0, os.path.join(root, 'tools'))
    import hwgen
    return hwgen


# ---- the language -------------------------------------------------------


def language(root, tap):
    hwgen = load_hwgen(root)
    for text, line, message in WRONG:
        whole = text if text.startswith(('vendor', '#')) or line == 1 \
            else HEAD + text
        try:
            hwgen.Parser('x.regs').parse(whole)
            said = 'nothing'
        except hwgen.SpecError as error:
            said = str(error)
        good = said.startswith(f'x.regs:{line}: ') and message in said
        tap.check(f'refused: {message}',
                  [] if good else [f'{text!r}: said {said}'])
    tap.check('the program says so and exits with 1',
              list(program(root, hwgen)))
    tap.check('masks of generations', list(masks(hwgen)))


def program(root, hwgen):
    with tempfile.TemporaryDirectory() as folder:
        spec = os.path.join(folder, 'x.regs')
        with open(spec, 'w', encoding='utf-8') as file:
            file.write(HEAD + 'reg R 0\n  F 40 bool\n')
        done = subprocess.run(
            [sys.executable, hwgen.__file__, spec, '--header',
             os.path.join(folder, 'x.h')],
            capture_output=True, text=True, check=False)
        if done.returncode != 1 or 'x.regs:7: F is beyond' not in done.stderr:
            yield f'exit {done.returncode}: {done.stderr}'
        if os.path.exists(os.path.join(folder, 'x.h')):
            yield 'a header in spite of the error'


def masks(hwgen):
    for text, want in (('a', 1), ('b+', 6), ('-b', 3), ('a-b', 3),
                       ('a,c', 5), ('a-c', 7), ('c+', 4)):
        spec = hwgen.Parser('x').parse(HEAD + f'reg R 0 {text}\n F 0 bool\n')
        if spec.types[0].gens != want:
            yield f'{text}: {spec.types[0].gens:#x}'


# ---- the headers --------------------------------------------------------


def rows_of(root, name):
    with open(os.path.join(root, 'tests', 'headers', name),
              encoding='utf-8') as file:
        return list(csv.DictReader(file))


def enum_of(text):
    return {name: int(value, 0) for name, value in
            (token.rsplit('=', 1) for token in text.split() if '=' in token)}


def enum_complaints(spec, field, where, listed):
    """Values of a field's enum against those that the facts list for it."""
    if field.kind != 'enum' or not listed:
        return
    listed = {name.lstrip('_'): value for name, value in listed.items()}
    for name, value, _ in spec.enums[field.enum][3]:
        said = listed.get(name, listed.get(f'{name}_32'))
        if said != value:
            yield f'{where}: {name} is {said}, not {value}'


class Qmd:
    """Launch descriptors against tests/headers/nvidia-qmd.csv."""

    def __init__(self, spec, rows):
        self.spec, self.rows, self.n_compared = spec, rows, 0

    def complaints(self):
        for item in self.spec.types:
            for gen, major in enumerate(self.spec.gen_ids):
                yield from self.block(item, gen, f'{major}.0')

    @staticmethod
    def our_name(row):
        """The row's field as the spec would name it."""
        name = row['field']
        if row['version'] == '3.0':
            name = V3_DEPENDENT.sub(r'DEPENDENT_QMD_\2[\1]', name)
        for pattern, ours in QMD_NAMES:
            name = re.sub(pattern, ours, name)
        return name

    def block(self, item, gen, version):
        table, used = {}, set()
        for row in self.rows:
            if row['version'] == version:
                ends = int(row['bit_lo']), int(row['bit_hi'])
                table.setdefault(ends, []).append(row)
                other = re.search(r'differs in c9c0: (\d+):(\d+)',
                                  row['notes'])
                if other:
                    table.setdefault((int(other[2]), int(other[1])),
                                     []).append(row)
        for field in item.fields:
            if not field.gens >> gen & 1:
                continue
            for i in range(field.count):
                for ends in self.words(field, i):
                    match = [r for r in table.get(ends, []) if
                             self.same(field, i, self.our_name(r))]
                    if not match:
                        yield (f'{version} {field.name}[{i}] '
                               f'{ends[1]}:{ends[0]} is not in the table')
                        continue
                    used.add(match[0]['field'])
                    self.n_compared += 1
                    values = re.search(r'values: ([^;]*)', match[0]['notes'])
                    yield from enum_complaints(
                        self.spec, field, f'{version} {field.name}',
                        enum_of(values[1]) if values else {})
        for row in self.rows:
            name = row['field']
            if row['version'] == version and name not in used and \
                    not QMD_LEFT_OUT.match(name) and not (
                        version == '5.0' and V5_LEFT_OUT.match(name)):
                yield f'{item.name} lacks {name} of {version}'

    @staticmethod
    def words(field, i):
        """The ranges of element i, words above 32 bits by themselves."""
        for lo, hi in field.parts:
            lo, hi = lo + i * field.stride, hi + i * field.stride
            while lo <= hi:
                end = hi if hi - lo < 32 else lo + 31
                yield lo, end
                lo = end + 1

    @staticmethod
    def same(field, i, name):
        """Name, array index and shift."""
        match = re.match(r'(\w+?)(?:_(?:LOWER|UPPER))?(?:_(SHIFTED)(\d*))?'
                         r'(?:\[(\d+)\])?\Z', name)
        shift = int(match[3] or 8) if match[2] else 0
        return (match[1] == field.name and shift == field.shift and
                (match[4] is None) == (not field.is_array) and
                int(match[4] or 0) == i)


class Classes:
    """Methods, headers and ring entries against the class headers."""

    def __init__(self, spec, rows):
        self.spec, self.n_compared, self.n_inherited = spec, 0, 0
        self.used = set()
        self.tables = {}
        for row in rows:
            table = self.tables.setdefault(row['class'], {})
            at = row['offset'] or row['method']
            at = '0x320' if at.startswith('(0x0320') else at
            at = int(at, 0) if at.startswith('0x') else at
            table.setdefault(at, []).append(row)

    def complaints(self):
        spec = self.spec
        for gen, number in zip(spec.gens, spec.gen_ids):
            if gen not in self.tables or number != int(gen, 16):
                yield f'{gen}: no such class in the table'
        for item in spec.types:
            for i, gen in enumerate(spec.gens):
                if item.kind == 'reg':
                    yield from self.presence(item, i, gen)
                if item.gens >> i & 1:
                    for field in item.fields:
                        if field.gens >> i & 1:
                            yield from self.field(item, field, gen)
                    if item.kind == 'reg' and spec.unit != 'host':
                        yield from self.missing(item, gen)

    def missing(self, item, gen):
        """Fields of a register that the specification lacks."""
        for word in range(item.n_dw):
            at = item.address + 4 * word
            for row in self.tables[gen].get(at, []):
                if (gen, at, row['field']) not in self.used and \
                        not CLASS_LEFT_OUT.match(row['field']):
                    yield f'{item.name} of {gen} lacks {row["field"]}'

    def presence(self, item, i, gen):
        """The host's newer headers list only a part; the others list all."""
        here = item.address in self.tables[gen]
        if self.spec.unit != 'host' and here != bool(item.gens >> i & 1):
            yield f'{item.name} of {gen}: listed {here}'

    def listed(self, at, name):
        """What any class of the unit lists as values of a field."""
        values = {}
        for gen in self.spec.gens:
            for row in self.tables[gen].get(at, []):
                if row['field'] == name:
                    values.update(enum_of(row['enum_values']))
        return values

    def field(self, item, field, gen):
        where = f'{item.name}.{field.name} of {gen}'
        for lo, hi in field.parts:
            for first in range(lo, hi + 1, 32 - lo % 32 if hi // 32 != lo // 32
                               else 32):
                last = min(hi, first // 32 * 32 + 31)
                yield from self.range(item, field, gen, where, first, last)

    def range(self, item, field, gen, where, lo, hi):
        word, pieces = lo // 32, len(field.parts)
        pieces += field.parts[0][1] // 32 - field.parts[0][0] // 32
        prefix = ''
        if item.kind == 'reg':
            at = item.address + 4 * word
        elif item.name.startswith('GP_'):
            at = f'(gpfifo entry dword{word})'
        else:
            at, prefix = '(pushbuffer header)', item.name + '_'
        own = [r for r in self.tables[gen].get(at, []) if
               self.same(item, field, r, prefix, pieces)]
        first = [r for r in self.tables[self.spec.gens[0]].get(at, []) if
                 self.same(item, field, r, prefix, pieces)]
        ends = lo % 32, hi % 32
        match = [r for r in own or (
            first if self.spec.unit == 'host' else [])
            if ends == (int(r['bit_lo']), int(r['bit_hi']))]
        if not match:
            yield f'{where}: bits {ends[1]}:{ends[0]} of {at} are not listed'
            return
        if own:
            self.n_compared += 1
            self.used.add((gen, at, match[0]['field']))
        else:
            self.n_inherited += 1
        listed = self.listed(at, match[0]['field'])
        yield from enum_complaints(self.spec, field, where, listed)
        if field.const and field.const not in listed.values():
            yield f'{where}: {field.const} is not listed'

    @staticmethod
    def same(item, field, row, prefix, pieces):
        name = row['field'].replace(prefix, '', 1)
        return name != '' and row['field'].startswith(prefix) and (
            item.kind != 'reg' or item.name in row['method']) and (
            name.startswith(field.name) or
            (field.name == 'GET' and name == 'GET_HI') or
            (pieces > 1 and name in ('UPPER', 'LOWER', 'VALUE')))


def specs_of(root, hwgen, name, change=('', '')):
    path = f'hcq/nv/regs/{name}.regs'
    return hwgen.Parser(path).parse(read(root, path).replace(*change, 1))


def facts(root, tap):
    hwgen = load_hwgen(root)
    qmd = rows_of(root, 'nvidia-qmd.csv')
    classes = rows_of(root, 'nvidia-classes.csv')
    check = Qmd(specs_of(root, hwgen, 'nv_qmd'), qmd)
    tap.check('nv_qmd.regs', list(check.complaints()))
    print(f'# nv_qmd: {check.n_compared} ranges compared')
    for name in ('nv_host', 'nv_compute', 'nv_ce'):
        check = Classes(specs_of(root, hwgen, name), classes)
        check.spec.types = [t for t in check.spec.types if t.kind != 'layout']
        tap.check(f'{name}.regs', list(check.complaints()))
        print(f'# {name}: {check.n_compared} ranges compared, '
              f'{check.n_inherited} with the first class that lists them')
    # The comparison itself: one wrong bit, value or generation is found.
    for name, change in (
            ('nv_qmd', ('1055:1024 ', '1054:1024 ')),
            ('nv_qmd', ('>>0|6|6 x8+64', '>>0|6|4 x8+64')),
            ('nv_qmd', ('  415:384  ', '  -  ')),
            ('nv_qmd', ('L1_SYSMEMBAR 1', 'L1_SYSMEMBAR 2')),
            ('nv_qmd', ('  GRID_DEPTH_RESUME', '  GRID_DEPTH_RESUM')),
            ('nv_host', ('39:32,31:2  hex', '40:32,31:2  hex')),
            ('nv_host', ('=5\n', '=6\n')),
            ('nv_host', ('ACQ_CIRC_GEQ 3', 'ACQ_CIRC_GEQ 2')),
            ('nv_compute', ('0x2b4', '0x2b8')),
            ('nv_compute', ('cbc0+', 'cdc0+')),
            ('nv_ce', ('17:16 ', '18:16 ')),
            ('nv_ce', ('c7b5+', 'c8b5+'))):
        check = (Qmd if name == 'nv_qmd' else Classes)(
            specs_of(root, hwgen, name, change),
            qmd if name == 'nv_qmd' else classes)
        tap.check(f'{name}: {change[1].strip()} is noticed',
                  [] if list(check.complaints()) else ['it is not'])


def main():
    root, what = sys.argv[1:3]
    tap = Tap()
    {'language': language, 'facts': facts}[what](root, tap)
    tap.finish()


if __name__ == '__main__':
    main()
