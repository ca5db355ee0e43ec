#!/usr/bin/env python3
"""Writes the tables of Unicode that the tokenizer uses: unicode_class.c,
unicode_canonical.c and unicode_compat.c, which are committed.

usage: unicode_gen.py FOLDER   (with PyPI's unicodedata2 and with perl)
src: the Unicode character database, version 18.0.0, by unicodedata2; grapheme
cluster breaks by perl's own tables.
"""
import os
import re
import subprocess
import sys

import unicodedata2 as ud

GC = ['Cn', 'Cc', 'Cf', 'Co', 'Cs', 'Ll', 'Lm', 'Lo', 'Lt', 'Lu', 'Mc', 'Me',
      'Mn', 'Nd', 'Nl', 'No', 'Pc', 'Pd', 'Pe', 'Pf', 'Pi', 'Po', 'Ps', 'Sc',
      'Sk', 'Sm', 'So', 'Zl', 'Zp', 'Zs']
ALL = [c for c in range(0x110000) if not 0xd800 <= c < 0xe000]
HEAD = '''/* %s
 *
 * Written by unicode_gen.py, from Unicode %s.
 */
#include "tensor/text/unicode.h"

/* clang-format off */
'''


def runs(value, zero):
    """(first, value) where the value of a character changes."""
    found, last = [], None
    for c in range(0x110000):
        v = zero if 0xd800 <= c < 0xe000 else value(c)
        if v != last:
            found.append((c, v))
            last = v
    return found


def array(out, kind, name, numbers):
    out.write(f'const {kind} {name}[] = {{\n')
    line = '   '
    for number in numbers:
        text = f' {number},'
        if len(line) + len(text) > 80:
            out.write(line + '\n')
            line = '   '
        line += text
    out.write(line + '\n};\n')
    out.write(f'const size_t n_{name} = {len(numbers)};\n\n')


def perl(name):
    code = ('binmode STDOUT; for my $c (0..0x10ffff) { next if $c >= 0xd800 '
            '&& $c < 0xe000; print "$c\\n" if chr($c) =~ /\\p{GCB=' + name +
            '}/ }')
    done = subprocess.run(['perl', '-e', code], capture_output=True, text=True,
                          check=True)
    return {int(line) for line in done.stdout.split()}


def full(c, compat):
    """The whole decomposition of a character."""
    text = ud.normalize('NFKD' if compat else 'NFD', chr(c))
    return [] if text == chr(c) else [ord(x) for x in text]


def is_hangul(c):
    return 0xac00 <= c < 0xd7a4


def decompositions(out, name, rows):
    chars, keys, places = [], [], []
    seen = {}
    for c, text in rows:
        key = tuple(text)
        if key not in seen:
            seen[key] = len(chars)
            chars += text
        keys.append(c << 5 | len(text))
        places.append(seen[key])
    array(out, 'uint32_t', f'unicode_{name}_keys', keys)
    array(out, 'uint16_t', f'unicode_{name}_places', places)
    array(out, 'uint32_t', f'unicode_{name}_chars', chars)


def write_class(path):
    with open(path, 'w', encoding='utf-8') as out:
        out.write(HEAD % ('Classes of characters, combining classes, lower '
                          'case, clusters.', ud.unidata_version))
        array(out, 'uint32_t', 'unicode_category_runs',
              [c << 5 | v for c, v in
               runs(lambda c: GC.index(ud.category(chr(c))),
                    GC.index('Cs'))])
        array(out, 'uint32_t', 'unicode_combining_runs',
              [c << 8 | v for c, v in
               runs(lambda c: ud.combining(chr(c)), 0)])
        joins = perl('EX') | perl('ZWJ') | perl('SM')
        before = perl('PP')
        array(out, 'uint32_t', 'unicode_cluster_runs',
              [c << 2 | v for c, v in
               runs(lambda c: 1 if c in joins else 2 if c in before else 0,
                    0)])
        lower = [(c, ord(chr(c).lower())) for c in ALL
                 if c != 0x130 and chr(c).lower() != chr(c)]
        array(out, 'uint32_t', 'unicode_lower_pairs',
              [x for pair in lower for x in pair])
        alphabetic = subprocess.run(
            ['perl', '-e', 'for (0..0x10ffff) { next if $_ >= 0xd800 && $_ < '
             '0xe000; print "$_\\n" if chr($_) =~ /\\p{Alphabetic}/ }'],
            capture_output=True, text=True, check=True).stdout.split()
        other = {int(x) for x in alphabetic}
        array(out, 'uint32_t', 'unicode_alphabetic_runs',
              [c << 1 | v for c, v in
               runs(lambda c: int(c in other and
                                  ud.category(chr(c))[0] not in 'LM'), 0)])


def write_forms(folder):
    canonical = [(c, full(c, False)) for c in ALL
                 if not is_hangul(c) and full(c, False)]
    compat = [(c, full(c, True)) for c in ALL if not is_hangul(c) and
              full(c, True) and full(c, True) != full(c, False)]
    pairs = []
    for c, _ in canonical:
        parts = re.fullmatch(r'([0-9A-F]+) ([0-9A-F]+)',
                             ud.decomposition(chr(c)))
        if parts and ud.normalize('NFC', chr(c)) == chr(c):
            pairs.append((int(parts[1], 16), int(parts[2], 16), c))
    pairs.sort()
    with open(os.path.join(folder, 'unicode_canonical.c'), 'w',
              encoding='utf-8') as out:
        out.write(HEAD % ('Canonical decompositions, and what two characters '
                          'compose to.', ud.unidata_version))
        decompositions(out, 'canonical', canonical)
        array(out, 'uint32_t', 'unicode_pairs',
              [x for pair in pairs for x in pair])
    with open(os.path.join(folder, 'unicode_compat.c'), 'w',
              encoding='utf-8') as out:
        out.write(HEAD % ('Compatibility decompositions, where they are others '
                          'than canonical ones.', ud.unidata_version))
        decompositions(out, 'compat', compat)


def main():
    write_class(os.path.join(sys.argv[1], 'unicode_class.c'))
    write_forms(sys.argv[1])
    for name in ('class', 'canonical', 'compat'):
        path = os.path.join(sys.argv[1], f'unicode_{name}.c')
        with open(path, encoding='utf-8') as file:
            text = file.read()
        with open(path, 'w', encoding='utf-8') as file:
            file.write(text.rstrip('\n') + '\n')


if __name__ == '__main__':
    main()
