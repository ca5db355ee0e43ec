#!/usr/bin/env python3
"""Packers, layouts and descriptor rows from register specifications.

usage: hwgen.py SPEC.regs [--header OUT.h] [--rows OUT.c] [--test OUT.c]
                [--include DIR]

A spec is read line by line; `#` starts a comment, which becomes the
documentation of what the line declares. An item starts in the first column;
the lines indented below it are its fields.

  vendor V             prefix of every C name: V_..., struct V_...
  unit U               second part of every C name; one unit per file
  gens A=1 B=2 ...     generations, oldest first; the number is optional and
                       is what the hardware calls the generation (class id)
  step N               from one word's address to the next one's (1)
  src: TEXT            where the facts of what follows come from
  checked: TEXT        how they were checked, or
  unverified: TEXT     why they are not; either holds until the next one
  const NAME VALUE
  enum NAME            below it: NAME VALUE
  reg NAME ADDRESS [xN+STRIDE] [Ndw] [as SHORT] [GENS]
                       a register or method of N (1) words
  block NAME SIZE [stream KIND] [as SHORT] [GENS]
                       a descriptor or packet; SIZE is Ndw, or 1qw for one
                       64-bit word, or Ndw|Ndw|...: one for each generation,
                       and its fields have columns of BITS: one for each, `-`
                       where there is no such field; what is written behind
                       >>, xN+ and = may be A|B|... too.
                       A stream block is a packet header; what
                       follows it goes to: inc (ascending addresses), noninc
                       (one address), oneinc (one, then the next one), imm
                       (the data is in the header), body (is not addressed);
                       other: a packet without a name, last in its file
  layout NAME NB [as SHORT] [GENS]
                       memory shared with the device, as a C struct; below
                       it: NAME OFFSET u8|u16|u32|u64 [xN] [hex|ENUM]

A field of a reg or block:

  NAME BITS TYPE [>>N] [xN+STRIDE] [=VALUE] [@ROLE[+N]] [patch] [always]
       [unverified] [as SHORT] [GENS]

BITS is hi:lo or one bit, counted over the whole block; several ranges joined
by commas, most significant first, form one value. TYPE is uint, int, bool,
hex or an enum. >>N: the low N bits of the value are zero and not stored.
xN+STRIDE: an array, STRIDE bits apart. =VALUE: always that, no member. ROLE
(of a stream block): count, address, slot, data, parity (X_PARITY makes the
bits of X and itself odd in number); of any register: bind (its
value selects the unit behind the slot). patch: a setter and a getter of its own. always:
the decoder prints it also when it is zero. GENS:
A,B A-B A+ -B; a name may occur again for other generations. SHORT: the name in C.

What comes out is described in docs/reference/regs.md. Standard library only.
"""
import argparse
import re
import sys

sys.dont_write_bytecode = True
from hwgen_emit import Header, Rows, Test  # noqa: E402

MAX_FUNCTION = 40
WORD = re.compile(r'[A-Z][A-Z0-9_]*\Z')
ROLES = ('count', 'address', 'slot', 'data', 'parity', 'bind')
STREAMS = ('inc', 'noninc', 'oneinc', 'imm', 'body', 'other')
KEYWORDS = set('auto break case char const continue default do double else '
               'enum extern float for goto if inline int long register '
               'restrict return short signed sizeof static struct switch '
               'typedef union unsigned void volatile while bool'.split())
UINTS = {'u8': 8, 'u16': 16, 'u32': 32, 'u64': 64}


class SpecError(Exception):
    """What is wrong, with file and line in front."""


class Field:
    """A row of a reg, block or layout."""

    def __init__(self, line, name, doc):
        self.line, self.name, self.doc = line, name, doc
        self.short = name
        self.parts = []          # (lo, hi), least significant first
        self.kind = 'uint'
        self.enum = None
        self.shift = 0
        self.count, self.stride = 1, 0
        self.is_array = False
        self.const = None
        self.role, self.bias = None, 0
        self.patch = self.always = self.unverified = False
        self.gens = 0

    @property
    def n_bits(self):
        return sum(hi - lo + 1 for lo, hi in self.parts)

    @property
    def member(self):
        return self.short.lower()

    def bits(self):
        """All bit positions, over all array elements."""
        return {i * self.stride + bit for i in range(self.count)
                for lo, hi in self.parts for bit in range(lo, hi + 1)}


class Type:
    """A reg, block or layout."""

    def __init__(self, line, kind, name, doc):
        self.line, self.kind, self.name, self.doc = line, kind, name, doc
        self.short = name
        self.address = 0
        self.count, self.stride = 1, 0
        self.is_array = False
        self.n_dw = 1
        self.size_bytes = 4
        self.columns = None      # words of each generation
        self.is_qword = False
        self.stream = None
        self.gens = 0
        self.src = self.mark = None
        self.fields = []

    def bits(self, gens):
        """How many there are in all of these generations."""
        return min([32 * n for i, n in enumerate(self.columns or ())
                    if gens >> i & 1], default=self.size_bytes * 8)

    def members(self):
        """[name, fields of that name]; constants have no member."""
        groups = {}
        for field in self.fields:
            if field.const is None:
                groups.setdefault(field.name, []).append(field)
        return list(groups.items())


class Spec:
    """A parsed file."""

    def __init__(self, path):
        self.path = path
        self.vendor = self.unit = None
        self.doc = []
        self.gens, self.gen_ids = [], []
        self.step = 1
        self.consts, self.enums, self.types = [], {}, []

    @property
    def all_gens(self):
        return (1 << len(self.gens)) - 1 if self.gens else 1


# ---- reading ------------------------------------------------------------


class Parser:
    """One pass over the lines."""

    def __init__(self, path, name=None):
        self.spec = Spec(path)
        self.name = name or path
        self.line = 0
        self.item = None
        self.src = self.mark = None
        self.seen = set()
        self.comments = []

    def fail(self, message, line=None):
        raise SpecError(f'{self.name}:{line or self.line}: {message}')

    def parse(self, text):
        for self.line, raw in enumerate(text.split('\n'), 1):
            code, _, doc = raw.partition('#')
            doc = doc.strip()
            if not code.strip():
                self.comment(raw, doc)
                continue
            tokens = code.split()
            if code[0] in ' \t':
                self.inner(tokens, doc)
            else:
                self.finish_item()
                self.outer(code.rstrip(), tokens, doc)
            self.comments = []
        self.line += 1
        self.finish_item()
        if not self.spec.vendor or not self.spec.unit:
            self.fail('no vendor and unit')
        return self.spec

    def comment(self, raw, doc):
        """Comment lines belong to the item that follows them."""
        if not raw.strip():
            if self.line > 1 and not self.spec.vendor and self.comments:
                self.spec.doc = self.comments
            self.comments = []
        else:
            self.comments.append(doc)

    def docs(self, doc):
        return ' '.join(self.comments + [doc]).strip()

    def number(self, text, what):
        try:
            return int(text, 0)
        except ValueError:
            self.fail(f'{what} is not a number: {text}')

    def word(self, text, what):
        if not WORD.match(text):
            self.fail(f'{what} is not in upper case: {text}')
        return text

    def arguments(self, tokens, at_least, at_most=None):
        n = len(tokens) - 1
        if n < at_least or (at_most is not None and n > at_most):
            self.fail(f'{tokens[0]} has {n} arguments, wants '
                      f'{at_least}' + ('' if at_least == at_most else ' or more'))

    def unique(self, name):
        if name in self.seen:
            self.fail(f'{name} a second time')
        self.seen.add(name)

    # -- items

    def outer(self, code, tokens, doc):
        key = tokens[0]
        if key in ('src:', 'checked:', 'unverified:'):
            text = code[len(key):].strip()
            if not text:
                self.fail(f'{key} without a text')
            if key == 'src:':
                self.src = text
            else:
                self.mark = f'{key} {text}'
        elif key in ('vendor', 'unit'):
            self.arguments(tokens, 1, 1)
            if not re.match(r'[a-z][a-z0-9_]*\Z', tokens[1]):
                self.fail(f'{key} is not in lower case: {tokens[1]}')
            if self.spec.vendor and not self.spec.doc and self.comments:
                self.spec.doc = self.comments
            setattr(self.spec, key, tokens[1])
        elif key == 'gens':
            self.generations(tokens)
        elif key == 'step':
            self.arguments(tokens, 1, 1)
            self.spec.step = self.number(tokens[1], 'the step')
            if not 1 <= self.spec.step <= 8 or self.spec.types:
                self.fail('step is 1 to 8, before the first register')
        elif key == 'const':
            self.arguments(tokens, 2, 2)
            name = self.word(tokens[1], 'the name')
            self.unique(name)
            self.spec.consts.append(
                (name, self.number(tokens[2], name), self.docs(doc)))
        elif key == 'enum':
            self.arguments(tokens, 1, 1)
            name = self.word(tokens[1], 'the name')
            self.unique(name)
            self.item = ('enum', name, self.docs(doc), [], self.line)
        elif key in ('reg', 'block', 'layout'):
            self.type(tokens, doc)
        else:
            self.fail(f'unknown item: {key}')

    def generations(self, tokens):
        self.arguments(tokens, 1, 32)
        if self.spec.types or self.spec.gens:
            self.fail('gens comes once, before the first register')
        for token in tokens[1:]:
            name, _, value = token.partition('=')
            if not re.match(r'[a-z][a-z0-9_]*\Z', name):
                self.fail(f'a generation is not in lower case: {name}')
            if name in self.spec.gens:
                self.fail(f'{name} a second time')
            self.spec.gens.append(name)
            self.spec.gen_ids.append(self.number(value, name) if value else 0)

    def gens_of(self, token):
        """The mask that a list of generations stands for, or None."""
        gens, mask = self.spec.gens, 0
        for part in token.split(','):
            match = re.match(r'([a-z][a-z0-9_]*)?([-+])?([a-z][a-z0-9_]*)?\Z',
                             part)
            if not match or not part:
                return None
            first, sign, last = match.groups()
            if any(g and g not in gens for g in (first, last)):
                return None
            low = gens.index(first) if first else 0
            if not sign:
                high = low
            elif sign == '+':
                if last or not first:
                    return None
                high = len(gens) - 1
            else:
                high = gens.index(last) if last else len(gens) - 1
            if high < low:
                self.fail(f'{part} ends before it begins')
            mask |= (1 << (high + 1)) - (1 << low)
        return mask

    def column(self, token, i):
        """What a token says of generation i: the i-th of A|B|C after >>, =
        or xN+, which may have one for all."""
        match = re.match(r'(>>|=|x\d+\+)(.*\|.*)\Z', token)
        if not match:
            return token
        values = match[2].split('|')
        if len(values) != len(self.spec.gens):
            self.fail(f'not a value for each generation: {token}')
        return match[1] + values[i]

    def array(self, token):
        match = re.match(r'x(\d+)(?:\+(0x[0-9a-f]+|\d+))?\Z', token)
        if not match or int(match[1]) < 2:
            return None
        return int(match[1]), int(match[2] or '0', 0)

    def type(self, tokens, doc):
        spec = self.spec
        if not spec.vendor or not spec.unit:
            self.fail('vendor and unit come first')
        if not self.src or not self.mark:
            self.fail('no src: and checked: (or unverified:) before this')
        self.arguments(tokens, 2)
        item = Type(self.line, tokens[0], self.word(tokens[1], 'the name'),
                    self.docs(doc))
        self.unique(item.name)
        item.src, item.mark = self.src, self.mark
        item.gens = spec.all_gens
        rest = tokens[2:]
        if item.kind == 'reg':
            item.address = self.number(rest.pop(0), 'the address')
        else:
            self.size(item, rest.pop(0))
        while rest:
            token = rest.pop(0)
            if token == 'as' and rest:
                item.short = self.word(rest.pop(0), 'the short name')
            elif token == 'stream' and rest and item.kind == 'block':
                item.stream = rest.pop(0)
                if item.stream not in STREAMS:
                    self.fail(f'not a kind of stream: {item.stream}')
            elif re.match(r'\d+dw\Z', token) and item.kind == 'reg':
                self.size(item, token)
            elif self.array(token) and item.kind == 'reg':
                item.count, item.stride = self.array(token)
                item.is_array = True
            elif self.gens_of(token) is not None:
                item.gens = self.gens_of(token)
            else:
                self.fail(f'does not belong here: {token}')
        if item.short != item.name:
            self.unique(item.short)
        for verb in ('pack', 'unpack', 'check', 'try'):
            self.function(f'{verb}_{spec.unit}_{item.short.lower()}')
        if item.kind == 'reg' and item.n_dw > 64:
            self.fail('a register has at most 64 words')
        if item.is_array and item.stride < item.n_dw * spec.step:
            self.fail('the stride is smaller than the register')
        self.item = item

    def function(self, name):
        name = f'{self.spec.vendor}_{name}'
        if len(name) > MAX_FUNCTION:
            self.fail(f'{name} is longer than {MAX_FUNCTION} characters; '
                      f'give a shorter name with `as`')

    def size(self, item, token):
        if '|' in token and item.kind == 'block':
            sizes = re.findall(r'(\d+)dw(?:\||\Z)', token)
            if len(sizes) != token.count('|') + 1 or \
                    len(sizes) != len(self.spec.gens):
                self.fail(f'not a size for each generation: {token}')
            item.columns = [int(n) for n in sizes]
            token = f'{max(item.columns)}dw'
        match = re.match(r'(\d+)(dw|qw|B)\Z', token)
        unit = match and match[2]
        if not match or int(match[1]) == 0 or (
                (unit == 'B') != (item.kind == 'layout')) or (
                unit == 'qw' and match[1] != '1'):
            self.fail(f'not a size of a {item.kind}: {token}')
        item.is_qword = unit == 'qw'
        item.size_bytes = int(match[1]) * {'dw': 4, 'qw': 8, 'B': 1}[unit]
        item.n_dw = (item.size_bytes + 3) // 4

    # -- fields

    def inner(self, tokens, doc):
        if self.item is None:
            self.fail('a field without an item above it')
        if isinstance(self.item, tuple):
            self.enum_value(tokens, doc)
        elif self.item.kind == 'layout':
            self.layout_field(tokens, doc)
        else:
            self.field(tokens, doc)

    def enum_value(self, tokens, doc):
        if len(tokens) != 2:
            self.fail('a value of an enum is NAME VALUE')
        if not re.match(r'[A-Z0-9_]+\Z', tokens[0]):
            self.fail(f'the name is not in upper case: {tokens[0]}')
        value = self.number(tokens[1], tokens[0])
        if not 0 <= value <= 0x7fffffff:
            self.fail(f'{tokens[0]} does not fit into an enum')
        values = self.item[3]
        if tokens[0] in [v[0] for v in values]:
            self.fail(f'{tokens[0]} a second time')
        values.append((tokens[0], value, self.docs(doc)))

    def layout_field(self, tokens, doc):
        if len(tokens) < 3 or tokens[2] not in UINTS:
            self.fail('a field of a layout is NAME OFFSET u8|u16|u32|u64')
        field = Field(self.line, self.word(tokens[0], 'the name'),
                      self.docs(doc))
        offset = self.number(tokens[1], 'the offset')
        n_bits = UINTS[tokens[2]]
        if offset * 8 % n_bits:
            self.fail(f'{field.name} is not aligned to its size')
        field.parts = [(offset * 8, offset * 8 + n_bits - 1)]
        field.gens = self.item.gens
        for token in tokens[3:]:
            if self.array(token):
                field.count, field.is_array = self.array(token)[0], True
                field.stride = n_bits
            else:
                self.field_kind(field, token)
        self.add(field)

    def field_kind(self, field, token):
        if token in ('uint', 'int', 'bool', 'hex'):
            field.kind = token
        elif token in self.spec.enums:
            field.kind, field.enum = 'enum', token
        else:
            self.fail(f'not a type: {token}')

    def field(self, tokens, doc):
        n = len(self.spec.gens) if self.item.columns else 1
        if len(tokens) < 2 + n:
            self.fail('a field is NAME BITS TYPE' if n == 1 else
                      f'a field is NAME, {n} columns of BITS, TYPE')
        fields = {}  # generations that agree share one
        for i, bits in enumerate(tokens[1:1 + n]):
            if bits != '-' or not self.item.columns:
                key = bits, *(self.column(t, i) for t in tokens[1 + n:])
                fields[key] = fields.get(key, 0) | 1 << i
        if not fields:
            self.fail(f'{tokens[0]} has no bits anywhere')
        for (bits, *rest), gens in fields.items():
            field = self.one_field(tokens[0], bits, rest, doc)
            if self.item.columns:
                field.gens = gens
            self.add(field)

    def one_field(self, name, bits, rest, doc):
        field = Field(self.line, self.word(name, 'the name'), self.docs(doc))
        for part in reversed(bits.split(',')):
            match = re.match(r'(\d+)(?::(\d+))?\Z', part)
            if not match:
                self.fail(f'not a range of bits: {part}')
            hi, lo = int(match[1]), int(match[2] or match[1])
            if hi < lo:
                self.fail(f'{part}: the high bit comes first')
            field.parts.append((lo, hi))
        self.field_kind(field, rest.pop(0))
        field.gens = self.item.gens
        while rest:
            token = rest.pop(0)
            if token == 'as' and rest:
                field.short = self.word(rest.pop(0), 'the short name')
            else:
                self.attribute(field, token)
        return field

    def attribute(self, field, token):
        if re.match(r'>>\d+\Z', token):
            field.shift = int(token[2:])
        elif self.array(token):
            field.count, field.stride = self.array(token)
            field.is_array = True
        elif token.startswith('='):
            field.const = self.number(token[1:], field.name)
        elif token.startswith('@'):
            match = re.match(r'@([a-z]+)([+-](?:0x[0-9a-f]+|\d+))?\Z', token)
            if not match or match[1] not in ROLES:
                self.fail(f'not a role: {token}')
            field.role, field.bias = match[1], int(match[2] or '0', 0)
            if field.role != 'bind' and not self.item.stream:
                self.fail(f'{token} in a block that heads no stream')
        elif token in ('patch', 'always', 'unverified'):
            setattr(field, token, True)
        elif self.gens_of(token) is not None:
            field.gens = self.gens_of(token)
            if field.gens & ~self.item.gens:
                self.fail(f'{field.name} in generations without '
                          f'{self.item.name}')
        else:
            self.fail(f'does not belong here: {token}')

    def add(self, field):
        item = self.item
        n_bits = field.n_bits
        if field.member in KEYWORDS:
            self.fail(f'{field.member} is a word of C; give a name with `as`')
        if n_bits + field.shift > 64:
            self.fail(f'{field.name} has more than 64 bits')
        if len(field.parts) > 3:
            self.fail(f'{field.name} has more than 3 ranges')
        if field.kind == 'bool' and (n_bits != 1 or field.shift):
            self.fail(f'{field.name} is a bool of {n_bits} bits')
        if field.kind == 'int' and (field.shift or n_bits < 2):
            self.fail(f'{field.name}: an int has two bits or more, no shift')
        if field.const is not None and (
                field.const < 0 or field.const >> n_bits or field.shift or
                field.is_array or field.patch):
            self.fail(f'{field.name}: {field.const} does not fit')
        bits = field.bits()
        per_element = sum(hi - lo + 1 for lo, hi in field.parts)
        if len(bits) != per_element * field.count:
            self.fail(f'{field.name} overlaps itself')
        if max(bits) >= item.bits(field.gens):
            self.fail(f'{field.name} is beyond the {item.bits(field.gens)} '
                      f'bits of {item.name}')
        for other in item.fields:
            if not other.gens & field.gens:
                continue
            if other.name == field.name:
                self.fail(f'{field.name} a second time')
            if other.bits() & bits:
                self.fail(f'{field.name} overlaps {other.name} of line '
                          f'{other.line}')
        for other in item.fields:
            same = [(f.kind, f.enum, f.count, f.short, f.const is None)
                    for f in (other, field)]
            if other.name != field.name and other.short == field.short:
                self.fail(f'{field.short} is the short name of {other.name}')
            if other.name == field.name and same[0] != same[1]:
                self.fail(f'{field.name} is declared otherwise in line '
                          f'{other.line}')
        if field.patch:
            if field.gens != item.gens and not item.columns:
                self.fail(f'{field.name}: patch in some generations only')
            self.function(f'set_{self.spec.unit}_{item.short.lower()}_'
                          f'{field.member}')
        item.fields.append(field)

    def finish_item(self):
        item, self.item = self.item, None
        if item is None:
            return
        if isinstance(item, tuple):
            if not item[3]:
                self.fail(f'{item[1]} has no values', item[4])
            self.spec.enums[item[1]] = item[:4]
            return
        if not item.fields:
            self.fail(f'{item.name} has no fields', item.line)
        roles = [f.role for f in item.fields
                 if f.role and f.role != 'parity']
        if len(set(roles)) != len(roles):
            self.fail(f'{item.name} has a role twice', item.line)
        for field in item.fields:
            of = re.sub('_PARITY$', '', field.name)
            if field.role == 'parity' and (
                    of == field.name or
                    of not in [f.name for f in item.fields]):
                self.fail(f'{field.name} is the parity of no field',
                          field.line)
        if item.stream == 'other' and 'count' not in roles:
            self.fail(f'{item.name} needs @count', item.line)
        if item.stream and item.stream not in ('body', 'other'):
            wanted = {'address', 'data' if item.stream == 'imm' else 'count'}
            if wanted - set(roles):
                self.fail(f'{item.name} lacks @' +
                          ' @'.join(sorted(wanted - set(roles))), item.line)
        if item.kind == 'layout':
            widest = max(hi - lo + 1 for f in item.fields
                         for lo, hi in f.parts)
            if item.size_bytes * 8 % widest:
                self.fail(f'the size of {item.name} is not a multiple of its '
                          f'widest field', item.line)
        self.spec.types.append(item)


def read_spec(path, name=None):
    with open(path, encoding='utf-8') as file:
        return Parser(path, name).parse(file.read())


def main():
    options = argparse.ArgumentParser(
        description='Packers, layouts and descriptor rows from a register '
                    'specification.')
    options.add_argument('spec')
    options.add_argument('--header', help='structs and packers')
    options.add_argument('--rows', help='descriptor rows')
    options.add_argument('--test', help='adapters for the round-trip test')
    options.add_argument('--include', help='how the header is included',
                         default='hcq/nv/regs')
    args = options.parse_args()
    try:
        spec = read_spec(args.spec)
    except (OSError, SpecError) as error:
        sys.exit(f'hwgen: {error}')
    for path, writer in ((args.header, Header), (args.rows, Rows),
                         (args.test, Test)):
        if path:
            with open(path, 'w', encoding='utf-8') as file:
                file.write(writer(spec, args.include).run())


if __name__ == '__main__':
    main()
