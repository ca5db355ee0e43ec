#!/usr/bin/env python3
"""AMD's register specifications against Linux's headers: every field of every
packet and register lies where the tables in tests/headers say, in every
generation; so do opcodes, register addresses and counts.

usage: test_amd_facts.py SOURCE_ROOT
"""
import re
import sys

from common import Tap, read
from test_hwgen import load_hwgen, rows_of

# Generations of amd_pm4.regs, as the tables spell them.
PM4_GENS = {
    'gfx9': ('gfx9-gfx12', 'gfx9-gfx10', 'gfx9 (90a,942,950)',
             'gfx942,gfx950'),
    'gfx10': ('gfx9-gfx12', 'gfx9-gfx10', 'gfx10-gfx12'),
    'gfx11': ('gfx9-gfx12', 'gfx10-gfx12', 'gfx11-gfx12'),
    'gfx12': ('gfx9-gfx12', 'gfx10-gfx12', 'gfx11-gfx12'),
}
REG_GENS = {
    'gfx9': ('gfx90a', 'gfx942'),
    'gfx10': ('gfx1030',),
    'gfx11': ('gfx1100',),
    'gfx12': ('gfx1201', 'gfx12'),
}
# Wider than listed: tinygrad writes all ones. src: docs/hardware/amd-queues.md,
# "Reference streams"
WIDER = {('ACQUIRE_MEM_GFX9', 'SIZE_HI'), ('ACQUIRE_MEM', 'SIZE_HI')}
SDMA_GENS = {'v4': '4.x', 'v5': '5.2', 'v6': '6.0', 'v7': '6.0'}
# Packets that the tables name otherwise.
SDMA_NAMES = {'WRITE_LINEAR': 'WRITE_UNTILED', 'CONST_FILL': 'CONSTANT_FILL',
              'TIMESTAMP_GLOBAL': 'TIMESTAMP_GET_GLOBAL', 'GCR': 'GCR_REQ'}
SDMA_OPS = {'COPY_LINEAR': 'COPY', 'WRITE_LINEAR': 'WRITE',
            'TIMESTAMP_GLOBAL': 'TIMESTAMP', 'GCR': 'GCR_REQ'}


def spec_of(root, hwgen, name, change=('', '')):
    path = f'hcq/amd/regs/{name}.regs'
    text = read(root, path)
    assert change[0] in text, change
    return hwgen.Parser(path).parse(text.replace(*change, 1))


def pieces(field):
    """The words of a field, each with the range of bits in it."""
    for i in range(field.count):
        for lo, hi in field.parts:
            lo, hi = lo + i * field.stride, hi + i * field.stride
            while lo <= hi:
                end = min(hi, lo // 32 * 32 + 31)
                yield lo // 32, lo % 32, end % 32
                lo = end + 1


class Ranges:
    """Ranges of bits by word, as a table has them."""

    def __init__(self):
        self.ranges, self.unlisted = set(), set()

    def add(self, word, lo, hi):
        if word.isdigit() and lo.isdigit() and hi.isdigit():
            self.ranges.add((int(word), int(lo), int(hi)))

    def skip(self, word):
        """A word whose fields the table does not have."""
        self.unlisted.add(word)

    def has(self, piece):
        """As one field, or as the part of one that spans the word's other
        bits, which are then always zero."""
        word, lo, hi = piece
        return piece in self.ranges or word in self.unlisted or (
            hi == 31 and lo <= 8 and (word, 0, 31) in self.ranges)


def compare(item, gen, i, ranges, where):
    """Complaints about the fields of one generation; the number of pieces."""
    complaints, n = [], 0
    for field in item.fields:
        if not field.gens >> i & 1 or (item.name, field.name) in WIDER:
            continue
        for piece in pieces(field):
            n += 1
            if not ranges.has(piece):
                complaints.append(
                    f'{where}.{field.name} of {gen}: bits '
                    f'{piece[2]}:{piece[1]} of word {piece[0]} are not listed')
    return complaints, n


def const_of(item, name):
    return next((f.const for f in item.fields if f.name == name), None)


def pm4_packets(spec, rows):
    complaints, n = [], 0
    for item in (t for t in spec.types if t.kind == 'block'
                 and t.stream != 'other'):
        opcode = const_of(item, 'OPCODE')
        count = const_of(item, 'COUNT')
        if count not in (None, 0x3fff) and count != item.n_dw - 2:
            complaints.append(f'{item.name}: {item.n_dw} words, count {count}')
        for i, gen in enumerate(spec.gens):
            if not item.gens >> i & 1:
                continue
            ranges = Ranges()
            for row in rows:
                if row['gfx'] not in PM4_GENS[gen]:
                    continue
                if row['packet'] == 'TYPE3 header' or (
                        row['opcode'] and int(row['opcode'], 0) == opcode):
                    ranges.add(row['dword(0=header)'], row['bit_lo'],
                               row['bit_hi'])
            more, n_here = compare(item, gen, i, ranges, item.name)
            complaints += more
            n += n_here
            if not any(row['opcode'] and int(row['opcode'], 0) == opcode and
                       re.sub('_GFX9$|_WORD$', '', item.name) == row['packet']
                       for row in rows):
                complaints.append(f'{item.name}: opcode {opcode:#x} is not it')
    return complaints, n


def reg_fields(row):
    for lo_hi in re.findall(r'\w+\[([\d:]+)\]', row['fields [hi:lo]']):
        hi, _, lo = lo_hi.partition(':')
        yield lo or hi, hi


def pm4_registers(spec, rows):
    complaints, n = [], 0
    for item in (t for t in spec.types if t.kind == 'reg'):
        base = re.sub('_GFX9$', '', item.name)
        for i, gen in enumerate(spec.gens):
            if not item.gens >> i & 1:
                continue
            ranges, names = Ranges(), [set() for _ in range(item.n_dw)]
            for row in rows:
                word = int(row['abs_dword_addr'], 0) - item.address \
                    if row['abs_dword_addr'].startswith('0x') else -1
                if not row['gfx'].startswith(REG_GENS[gen]) or \
                        not 0 <= word < item.n_dw:
                    continue
                names[word].add(row['register'])
                if 'no field data' in row['status']:
                    ranges.skip(word)
                for lo, hi in reg_fields(row):
                    ranges.add(str(word), lo, hi)
            for word, listed in enumerate(names):
                if not any(name.startswith(base) for name in listed):
                    complaints.append(
                        f'{item.name} of {gen}: {item.address + word:#x} is '
                        f'{", ".join(sorted(listed)) or "not listed"}')
            more, n_here = compare(item, gen, i, ranges, item.name)
            complaints += more
            n += n_here
    return complaints, n


def sdma_packets(spec, rows):
    complaints, n = [], 0
    for item in spec.types:
        name = SDMA_NAMES.get(item.name, item.name)
        for i, gen in enumerate(spec.gens):
            if not item.gens >> i & 1:
                continue
            mine = [r for r in rows
                    if r['sdma_version'].startswith(SDMA_GENS[gen])]
            ranges = Ranges()
            for row in mine:
                if row['kind'] == 'PKT' and row['packet_or_opcode'] == name:
                    ranges.add(row['dword'], row['bit_lo'], row['bit_hi'])
            more, n_here = compare(item, gen, i, ranges, item.name)
            complaints += more
            n += n_here
            op = SDMA_OPS.get(item.name, item.name)
            listed = {r['value_or_section'] for r in mine
                      if r['kind'] == 'OP' and r['packet_or_opcode'] == op}
            if listed != {str(const_of(item, 'OP'))}:
                complaints.append(f'{item.name} of {gen}: operation '
                                  f'{const_of(item, "OP")}, listed {listed}')
    return complaints, n


def main():
    root = sys.argv[1]
    hwgen, tap = load_hwgen(root), Tap()
    tables = {name: rows_of(root, f'amd-{name}.csv')
              for name in ('pm4', 'regs', 'sdma')}
    checks = {
        'packets': ('amd_pm4', pm4_packets, 'pm4'),
        'registers': ('amd_pm4', pm4_registers, 'regs'),
        'copies': ('amd_sdma', sdma_packets, 'sdma'),
    }
    for what, (name, check, table) in checks.items():
        complaints, n = check(spec_of(root, hwgen, name), tables[table])
        tap.check(f'{name}: {what}', complaints)
        print(f'# {name}: {what}: {n} ranges compared')
    # The comparison itself: one wrong bit, opcode or address is found.
    for what, change in (
            ('packets', ('EXEC_COUNT 45:32', 'EXEC_COUNT 46:32')),
            ('packets', ('hex =0x3c', 'hex =0x3d')),
            ('packets', ('7dw stream body\n  TYPE       31:30 uint =3\n'
                         '  COUNT      29:16 uint =5',
                         '7dw stream body\n  TYPE       31:30 uint =3\n'
                         '  COUNT      29:16 uint =6')),
            ('packets', ('GLK_WB     56    bool', 'GLK_WB     59    bool')),
            ('registers', ('0x2e12', '0x2e13')),
            ('registers', ('0x2e2d', '0x2e28')),
            ('registers', ('WAVESIZE   26:12', 'WAVESIZE   25:12')),
            ('copies', ('hex =13', 'hex =14')),
            ('copies', ('61:32 uint v6+', '60:32 uint v6+'))):
        name, check, table = checks[what]
        complaints, _ = check(spec_of(root, hwgen, name, change),
                              tables[table])
        tap.check(f'{name}: {change[1].splitlines()[-1].strip()} is noticed',
                  [] if complaints else ['it is not'])
    tap.finish()


if __name__ == '__main__':
    main()
