#!/usr/bin/env python3
"""C structs and describing tables from a .uapi file.

usage: uapigen.py FILE.uapi --header OUT.h --rows OUT.c [--issued]
       uapigen.py FILE.uapi... --proofs OUT.md

The language is explained at the top of ioctl/nv.uapi. For a struct that is
the same on every branch there is one `struct c_name`. Otherwise the newest
layout has that name and each older one `struct c_name_B`, B being the first
branch that has it. Every size and offset is asserted. The tables
(ioctl/kio_desc.h) say the same to programs: `PREFIX_structs`, and a sorted
`PREFIX_KIND_rows` per kind of number. With --issued only of what has
a proof, which is what the drivers issue: enough for a library without traces
and cassettes. The proofs become a page for people.
"""
import argparse
import os
import re
import sys

C_TYPES = {'u8': ('uint8_t', 1), 'char': ('char', 1), 'u16': ('uint16_t', 2),
           'u32': ('uint32_t', 4), 's32': ('int32_t', 4),
           'u64': ('uint64_t', 8), 'uuid': ('uint8_t', 1)}
MARKS = ('handle', 'status', 'fd', 'clock', 'ptr', 'hex', 'uuid')
SELECT = {'control': 'KIO_SELECT_CONTROL', 'class': 'KIO_SELECT_CLASS',
          'escape': 'KIO_SELECT_ESCAPE'}


class Field:
    """One field on one branch."""

    def __init__(self, name, kind, count, offset, marks):
        self.name, self.kind, self.count = name, kind, count
        self.offset, self.marks = offset, marks

    @property
    def each(self):
        if self.kind == 'struct':
            return int(self.marks['each'])
        return C_TYPES[self.kind][1]

    @property
    def size(self):
        return self.each * (self.count or 1)


class Spec:
    def __init__(self, path):
        self.path, self.line_no = path, 0
        self.branches, self.structs, self.calls = [], [], {}
        self.proofs = {}  # name: (sources, programs)
        self.waits = set()  # names of calls
        with open(path, encoding='utf-8') as file:
            for self.line_no, line in enumerate(file, 1):
                words = line.split('#')[0].split()
                if words:
                    self.take(words, line[0] == ' ')
        self.ids = {s['c_name']: i for i, s in enumerate(self.structs)}

    def fail(self, text):
        sys.exit(f'{self.path}:{self.line_no}: {text}')

    def take(self, words, is_field):
        if is_field:
            self.take_field(words)
        elif words[0] == 'proof':
            self.take_proof(' '.join(words[1:]).split(' | '))
        elif words[0] == 'branches':
            self.branches = words[1:]
        elif words[0] == 'struct':
            size = {}
            for word in words[3:]:
                size.update(self.ranged(word))
            self.structs.append({'name': words[1], 'c_name': words[2],
                                 'size': size, 'fields': [
                                     [] for _ in self.branches]})
        elif len(words) == 4 or words[4:] == ['waits']:
            self.calls.setdefault(words[0], []).append(
                (int(words[1], 0), words[2], words[3]))
            if words[4:]:
                self.waits.add(words[3])
        else:
            self.fail('neither a field, a struct nor a number')

    def take_proof(self, parts):
        if len(parts) != 3 or parts[0] in self.proofs:
            self.fail('not proof NAME | SOURCES | PROGRAMS, or a second one')
        self.proofs[parts[0]] = (parts[1], parts[2])

    def names(self):
        """{name: kind} of all numbered things."""
        return {name: kind for kind, rows in self.calls.items()
                for _, _, name in rows}

    def issued(self):
        """Names of structs that a driver's own calls need: of the calls with
        a proof, and what those point to."""
        todo = [c_name for rows in self.calls.values()
                for _, c_name, name in rows if name in self.proofs]
        found = set()
        while todo:
            c_name = todo.pop()
            if c_name == '-' or c_name in found:
                continue
            found.add(c_name)
            todo += [field.marks['of']
                     for branch in self.structs[self.ids[c_name]]['fields']
                     for field in branch if 'of' in field.marks]
        return found

    def ranged(self, word):
        """{branch index: number} of NUMBER or RANGE:NUMBER."""
        span, _, number = word.rpartition(':')
        first, last = 0, len(self.branches) - 1
        if span:
            low, dash, high = span.partition('-')
            first = self.branches.index(low) if low else 0
            if not dash:
                last = first
            elif high:
                last = self.branches.index(high)
        return {b: int(number) for b in range(first, last + 1)}

    def take_field(self, words):
        match = re.fullmatch(r'(\w+)(?:\[(\d+)\])?', words[1])
        if not match or words[2][0] != '@':
            self.fail('a field is NAME TYPE @OFFSET')
        kind, count = match.group(1), match.group(2)
        count = 16 if kind == 'uuid' else int(count) if count else 0
        marks = {}
        for mark in words[3:]:
            key, _, value = mark.partition('=')
            if not value and key not in MARKS:
                self.fail(f'no mark {key}')
            marks[key] = value
        for word in words[2][1:].split(','):
            for branch, offset in self.ranged(word).items():
                self.structs[-1]['fields'][branch].append(
                    Field(words[0], kind, count, offset, marks))

    def layouts(self, struct):
        """[(suffix, first branch, last branch)], equal neighbours merged."""
        found = []
        for b in range(len(self.branches)):
            struct['fields'][b].sort(key=lambda f: (f.offset, len(f.name)))
            if b not in struct['size']:
                continue
            key = (struct['size'][b],
                   tuple((f.name, f.kind, f.count, f.offset)
                         for f in struct['fields'][b]))
            if found and found[-1][2] == key:
                found[-1][1] = b
            else:
                found.append([b, b, key])
        return [('' if last == len(self.branches) - 1
                 else '_' + self.branches[first], first, last)
                for first, last, _ in found]


def hole(field, after, pad, out):
    """Names the bytes before the next field, so that an initializer, which
    leaves padding as the stack has it, makes them 0: the kernel sees them."""
    end = field.offset + field.size
    if after and '.' not in after.name and after.offset > end:
        out.append(f'{pad}uint8_t hole_{end}[{after.offset - end}];')


def members(fields, prefix, indent, out):
    """C members of the fields whose names start with prefix, in order."""
    pad = '    ' * indent
    i = 0
    while i < len(fields):
        field = fields[i]
        rest = field.name[len(prefix):]
        if field.kind == 'struct':
            inner = field.name + '[0].'
            last = i + 1
            while last < len(fields) and fields[last].name.startswith(inner):
                last += 1
            out.append(f'{pad}struct {{')
            members(fields[i + 1:last], inner, indent + 1, out)
            out.append(f'{pad}}} {rest}[{field.count}];')
            i = last
        elif '.' in rest:
            inner = prefix + rest.split('.')[0] + '.'
            last = i
            while last < len(fields) and fields[last].name.startswith(inner):
                last += 1
            out.append(f'{pad}struct {{')
            members(fields[i:last], inner, indent + 1, out)
            out.append(f'{pad}}} {rest.split(".")[0]};')
            i = last
        else:
            count = f'[{field.count}]' if field.count else ''
            out.append(f'{pad}{C_TYPES[field.kind][0]} {rest}{count};')
            i += 1
            if indent == 1:
                hole(field, fields[i] if i < len(fields) else None, pad, out)


def header(spec, prefix):
    guard = f'BELL_IOCTL_{prefix.upper()}_UAPI_H'
    out = [f'/* Made from {os.path.basename(spec.path)} by uapigen.py. */',
           f'#ifndef {guard}', f'#define {guard}', '', '#include <assert.h>',
           '#include <stddef.h>', '#include <stdint.h>', '']
    for rows in spec.calls.values():
        seen = set()
        for number, _, name in rows:
            if name not in seen:
                out.append(f'#define {name} {number:#x}u')
            seen.add(name)
        out.append('')
    out.append(f'enum {prefix}_struct_id {{')
    out += [f'    {prefix.upper()}_S_{s["c_name"].upper()},' for s in spec.structs]
    out += [f'    {prefix.upper()}_S_COUNT', '};', '']
    for s in spec.structs:
        for suffix, first, last in spec.layouts(s):
            c_name = s['c_name'] + suffix
            fields = s['fields'][first]
            out.append(f'/* {s["name"]}, {spec.branches[first]} to '
                       f'{spec.branches[last]} */')
            out.append(f'struct {c_name} {{')
            members(fields, '', 1, out)
            out.append('};')
            out.append(f'static_assert(sizeof(struct {c_name}) == '
                       f'{s["size"][first]}, "{c_name}");')
            out += [f'static_assert(offsetof(struct {c_name}, {f.name}) == '
                    f'{f.offset}, "{c_name}.{f.name}");' for f in fields]
            out.append('')
    out.append('#endif')
    return out


def field_kind(field):
    if 'clock_if' in field.marks:
        return 'KIO_FIELD_SAMPLE'
    if 'uuid' in field.marks:
        return 'KIO_FIELD_BYTES'
    for mark in MARKS:
        if mark in field.marks:
            return 'KIO_FIELD_' + mark.upper()
    return {'struct': 'KIO_FIELD_STRUCT', 'char': 'KIO_FIELD_TEXT',
            'uuid': 'KIO_FIELD_BYTES', 's32': 'KIO_FIELD_INT'}.get(
                field.kind, 'KIO_FIELD_UINT')


def pointer(spec, fields, field):
    """The initializer of a struct kio_pointee."""
    names = [f.name for f in fields]
    marks = field.marks
    length = marks.get('bytes') or marks.get('n') or marks.get('pins')
    parts = []
    if length in names:
        parts.append(f'.length_field = {names.index(length)}')
        parts.append(f'.each_bytes = {marks.get("each", 1)}')
    else:
        parts.append('.length_field = KIO_NO_FIELD')
        parts.append(f'.each_bytes = {length or 0}')
    if 'pins' in marks:
        parts.append('.select = KIO_SELECT_PINNED')
    elif 'as' in marks:
        kind, _, selector = marks['as'].partition(':')
        parts.append(f'.select = {SELECT[kind]}')
        parts.append(f'.select_field = {names.index(selector)}')
    elif 'of' in marks:
        parts.append('.select = KIO_SELECT_STRUCT')
        parts.append(f'.struct_id = {spec.ids[marks["of"]]}')
    return '{' + ', '.join(parts) + '}'


def rows(spec, prefix, issued):
    wanted = spec.issued() if issued else spec.ids
    assert len(spec.ids) < 1 << 15  # a struct kio_number's struct_id
    assert len(spec.branches) <= 16  # bits of a struct kio_layouts
    out = [f'/* Made from {os.path.basename(spec.path)} by uapigen.py. */',
           '#include "ioctl/kio_desc.h"',
           f'#include "ioctl/{prefix}_tables.h"', '']
    table, descs = [], []
    for s in spec.structs:
        first_desc, starts, has = len(descs), 0, 0
        for suffix, first, last in spec.layouts(s):
            if s['c_name'] not in wanted:
                continue
            c_name = s['c_name'] + suffix
            fields = s['fields'][first]
            lines, pointees = [], []
            for field in fields:
                assert field.offset + field.size < 1 << 16, field.name
                kind = field_kind(field)
                ptr = int(field.marks.get('clock_if', 0))
                assert lines or not ptr, field.name
                if 'ptr' in field.marks and len(field.marks) > 1:
                    pointees.append(f'    {pointer(spec, fields, field)},')
                    ptr = len(pointees)
                lines.append(f'    {{"{field.name}", {field.offset}, '
                             f'{field.size}, {field.each}, {kind}, {ptr}}},')
            out.append(f'static const struct kio_field {c_name}_fields[] = {{')
            out += lines + ['};']
            leads = 'NULL'
            if pointees:
                leads = f'{c_name}_pointees'
                out.append(f'static const struct kio_pointee {leads}[] = {{')
                out += pointees + ['};']
            descs.append(f'    {{"{s["name"]}", {c_name}_fields, '
                         f'{s["size"][first]}, {len(fields)}, {leads}}},')
            starts |= 1 << first
            has |= (2 << last) - (1 << first)
        table.append(f'    {{{first_desc}, {starts:#x}, {has:#x}}},')
    out += ['', 'static const struct kio_struct descs[] = {'] + descs + ['};']
    out += [f'const struct kio_structs {prefix}_structs = {{', '    descs,',
            '    (const struct kio_layouts[]){'] + table + ['    },']
    out.append(f'    {len(spec.structs)}}};')
    for kind, calls in spec.calls.items():
        calls = [c for c in calls if not issued or c[2] in spec.proofs]
        out += ['', f'const struct kio_number {prefix}_{kind}_rows[] = {{']
        for number, c_name, name in sorted(calls):
            ident = '-1' if c_name == '-' else str(spec.ids[c_name])
            waits = 'true' if name in spec.waits else 'false'
            out.append(f'    {{{number:#x}u, {ident}, {waits}, "{name}"}},')
        out += ['};', f'const uint32_t {prefix}_n_{kind}_rows = {len(calls)};']
    return out


def proofs(specs):
    """The page docs/reference/kernel-calls.md."""
    titles = {'escape': "NVIDIA's resource manager: escapes", 'uvm': 'UVM',
              'control': 'Control commands', 'class': 'Classes',
              'kfd': "AMD's KFD", 'drm': 'Render nodes',
              'kgsl': "Qualcomm's KGSL", 'render': 'Render nodes of msm'}
    out = ['# Kernel calls and what proves their arguments', '',
           'Every call that the drivers issue, with each command and class.',
           '',
           '- **kernel**: the function of the kernel that takes the arguments, '
           'as read there.',
           '- **programs**: programs that are known to make the call on real '
           'GPUs. "none" means that no',
           '  public one was found: such a row rests on the reading alone.', '',
           'The page is made from the `proof` rows of these files, which say '
           'where the sources lie:',
           '[ioctl/nv.uapi](../../ioctl/nv.uapi),',
           '[ioctl/amdkfd.uapi](../../ioctl/amdkfd.uapi),',
           '[ioctl/kgsl.uapi](../../ioctl/kgsl.uapi),',
           '[ioctl/msm.uapi](../../ioctl/msm.uapi). A test fails where a row '
           'is missing. To print it again:', '', '```',
           'ioctl/uapigen.py ioctl/nv.uapi ioctl/amdkfd.uapi ioctl/kgsl.uapi '
           'ioctl/msm.uapi --proofs docs/reference/kernel-calls.md', '```']
    for spec in specs:
        kinds = spec.names()
        for kind in spec.calls:
            found = [name for name in spec.proofs if kinds[name] == kind]
            out += ['', f'## {titles[kind]}', '',
                    '| call | kernel | programs |', '|---|---|---|']
            out += [f'| `{name}` | {spec.proofs[name][0]} | '
                    f'{spec.proofs[name][1]} |' for name in found]
    return out


def write(path, lines):
    with open(path, 'w', encoding='utf-8') as file:
        file.write('\n'.join(lines) + '\n')


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('spec', nargs='+')
    parser.add_argument('--header')
    parser.add_argument('--rows')
    parser.add_argument('--issued', action='store_true')
    parser.add_argument('--proofs')
    args = parser.parse_args()
    specs = [Spec(path) for path in args.spec]
    prefix = os.path.splitext(os.path.basename(args.spec[0]))[0]
    if args.header:
        write(args.header, header(specs[0], prefix))
    if args.rows:
        write(args.rows, rows(specs[0], prefix, args.issued))
    if args.proofs:
        write(args.proofs, proofs(specs))


if __name__ == '__main__':
    main()
