"""What tools/hwgen.py writes: the header, the descriptor rows and the test
adapters of a parsed specification, as C."""
import os
import re


class Writer:
    """Names and text that header, rows and test share."""

    def __init__(self, spec, include_dir):
        self.spec = spec
        self.prefix = f'{spec.vendor}_{spec.unit}'
        self.upper = self.prefix.upper()
        self.include_dir = include_dir
        self.lines = []

    def put(self, text=''):
        self.lines.extend(text.split('\n'))

    def text(self):
        return '\n'.join(self.lines).rstrip('\n') + '\n'

    def struct(self, item):
        return f'struct {self.prefix}_{item.short.lower()}'

    def func(self, verb, item):
        return f'{self.spec.vendor}_{verb}_{self.spec.unit}_' \
               f'{item.short.lower()}'

    def packing(self, item):
        return f'{self.prefix}_{item.short.lower()}_packing'

    def macro(self, item):
        return f'{self.upper}_{item.short}'

    @property
    def gen_param(self):
        return f'enum {self.prefix}_gen gen, ' if self.spec.gens else ''

    @property
    def gen_arg(self):
        return 'gen, ' if self.spec.gens else ''

    def comment(self, text, indent=''):
        """A block comment of at most 80 columns."""
        words = text.replace('*/', '* /').split()
        lines, line = [], indent + '/*'
        for word in words:
            if len(line) + 1 + len(word) > 76:
                lines.append(line)
                line = indent + ' *'
            line += ' ' + word
        lines.append(line + ' */')
        self.put('\n'.join(lines))

    def begin(self, what):
        spec = self.spec
        name = os.path.basename(spec.path)
        self.comment(f'{what} from {name} by tools/hwgen.py. Do not edit. '
                     + ' '.join(spec.doc))


def c_number(value, n_bits=32):
    return f'0x{value:x}' + ('ull' if n_bits > 32 else 'u')


def multiple(shift):
    return f'multiple of {1 << shift}' if shift < 20 else \
        f'multiple of 2^{shift}'


def value_bits(fields):
    return max(f.n_bits + f.shift for f in fields)


def by_pointer(item):
    """Large blocks are passed by address."""
    return item.n_dw > 8


def c_type(fields):
    wide = value_bits(fields) > 32
    if fields[0].kind == 'bool':
        return 'bool'
    return ('int' if fields[0].kind == 'int' else 'uint') + \
        ('64_t' if wide else '32_t')


class Header(Writer):
    """Constants, structs, packers."""

    def run(self):
        spec = self.spec
        self.begin('Made')
        path = os.path.splitext(os.path.basename(spec.path))[0]
        guard = 'BELL_' + re.sub(
            r'[/.]', '_', f'{self.include_dir}/{path}.h').upper()
        self.put(f'#ifndef {guard}\n#define {guard}\n')
        self.put('#include <assert.h>\n#include <stdbool.h>\n'
                 '#include <stddef.h>\n#include <stdint.h>\n\n'
                 '#include "hcq/regs.h"\n')
        if spec.gens:
            self.put(f'enum {self.prefix}_gen {{')
            for gen in spec.gens:
                self.put(f'    {self.upper}_GEN_{gen.upper()},')
            self.put(f'    {self.upper}_GEN_COUNT\n}};\n')
        self.put('/* Descriptor rows of everything below. */\n'
                 f'extern const struct regs_unit {self.prefix}_unit;\n')
        for name, value, doc in spec.consts:
            if doc:
                self.comment(doc)
            self.put(f'#define {self.upper}_{name} '
                     + c_number(value, max(value.bit_length(), 1)))
        if spec.consts:
            self.put()
        for _, name, doc, values in spec.enums.values():
            self.enum(name, doc, values)
        for item in spec.types:
            self.type(item)
        self.put('#endif')
        return self.text()

    def enum(self, name, doc, values):
        if doc:
            self.comment(doc)
        self.put(f'enum {self.prefix}_{name.lower()} {{')
        for value_name, value, value_doc in values:
            note = f' /* {value_doc} */' if value_doc else ''
            self.put(f'    {self.upper}_{name}_{value_name} = '
                     f'{c_number(value)[:-1]},{note}')
        self.put('};\n')

    def type(self, item):
        gens = ''
        if item.gens != self.spec.all_gens:
            gens = ' Only ' + ' '.join(
                g for i, g in enumerate(self.spec.gens)
                if item.gens >> i & 1) + '.'
        self.comment(f'{item.name}: {item.doc}{"." if item.doc else ""}{gens} '
                     f'src: {item.src}; {item.mark}')
        if item.kind == 'layout':
            self.layout(item)
        else:
            self.values(item)

    def values(self, item):
        macro = self.macro(item)
        if item.kind == 'reg' and item.is_array:
            self.put(f'#define {macro}(i) ({c_number(item.address)} + '
                     f'{item.stride}u * (i))\n#define {macro}_N {item.count}u')
        elif item.kind == 'reg':
            self.put(f'#define {macro} {c_number(item.address)}')
        if item.n_dw > 1:
            self.put(f'#define {macro}_DW {item.n_dw}u')
            self.put(f'static_assert({macro}_DW * sizeof(uint32_t) == '
                     f'{item.size_bytes}, "{item.name}");')
        if item.columns:
            self.size(item)
        self.struct_of(item)
        self.check(item)
        self.pack(item)
        self.unpack(item)
        self.checked(item)
        if any(f.const is not None for f in item.fields):
            self.match(item)
        for _, fields in item.members():
            if any(f.patch for f in fields):
                self.setter(item, fields)
                self.getter(item, fields)

    def size(self, item):
        """unsigned V_size_U_T(gen): words in a generation."""
        self.put('/* Words in this generation. */\nstatic inline unsigned\n'
                 f'{self.func("size", item)}({self.gen_param[:-2]})\n{{\n'
                 '    static const uint8_t n_dw[] = {'
                 + ', '.join(map(str, item.columns)) + '};\n\n'
                 '    return n_dw[gen];\n}\n')

    def struct_of(self, item):
        if not item.members():
            return
        self.put(f'{self.struct(item)} {{')
        for _, fields in item.members():
            field = fields[0]
            notes = [f.doc for f in fields if f.doc]
            if field.enum:
                notes.insert(0, f'enum {self.prefix}_{field.enum.lower()}')
            for f in fields:
                if f.shift:
                    notes.append(multiple(f.shift))
                    break
            if any(f.unverified for f in fields):
                notes.append('unverified')
            count = f'[{field.count}]' if field.is_array else ''
            self.put(f'    {c_type(fields)} {field.member}{count};')
            if notes:
                self.lines[-1] += ' /* ' + '; '.join(notes) + ' */'
        self.put('};\n')

    def has(self, mask):
        return f'regs_in(gen, {c_number(mask)})'

    def check(self, item):
        """const char *V_check_U_T(gen, v): NULL or what does not fit."""
        if not item.members():
            return
        self.put(f'/* NULL, or which member of v has no place in the '
                 f'{item.kind} and why. */')
        self.put(f'static inline const char *\n{self.func("check", item)}('
                 f'{self.gen_param}const {self.struct(item)} *v)\n{{')
        if self.spec.gens:
            self.put('    (void)gen;')
        self.put('    (void)v;')
        if item.gens != self.spec.all_gens:
            self.put(f'    if (!{self.has(item.gens)})\n        return '
                     f'"{item.name}: absent from this generation";')
        for name, fields in item.members():
            self.check_member(item, name, fields)
        self.put('    return NULL;\n}\n')

    def check_member(self, item, name, fields):
        total_bits = 64 if value_bits(fields) > 32 else 32
        covered, opened = 0, False
        for field in fields:
            covered |= field.gens
            tests = self.range_tests(field, total_bits)
            if field.gens == item.gens:
                for test in tests:
                    self.loop(field, test, '    ')
                continue
            self.put(f'    {"} else " if opened else ""}'
                     f'if ({self.has(field.gens)}) {{')
            opened = True
            for test in tests:
                self.loop(field, test, '        ')
        if opened:
            if covered != item.gens:
                self.put('    } else {')
                self.loop(fields[0], (f'v->{fields[0].member}@',
                                      f'{name}: absent from this generation'),
                          '        ')
            self.put('    }')

    def range_tests(self, field, total_bits):
        """[(condition with @ for the index, message)]"""
        tests, name = [], f'v->{field.member}@'
        if field.kind == 'bool':
            return tests
        n = field.n_bits
        if field.kind == 'int':
            if n < total_bits:
                low, high = -(1 << (n - 1)), (1 << (n - 1)) - 1
                tests.append((f'{name} < {low} || {name} > {high}',
                              f'{field.name}: beyond {n} bits'))
            return tests
        if n + field.shift < total_bits:
            tests.append((f'{name} >> {n + field.shift}',
                          f'{field.name}: beyond {n + field.shift} bits'))
        if field.shift:
            low = (1 << field.shift) - 1
            tests.append((f'{name} & {c_number(low, field.shift)}',
                          f'{field.name}: not a {multiple(field.shift)}'))
        return tests

    def loop(self, field, test, indent):
        condition, message = test
        if field.is_array:
            self.put(f'{indent}for (unsigned i = 0; i < {field.count}; i++)')
            indent += '    '
        index = '[i]' if field.is_array else ''
        self.put(f'{indent}if ({condition.replace("@", index)})\n'
                 f'{indent}    return "{message}";')

    def guarded(self, item, field, lines):
        """lines, under the field's generations if it has its own."""
        if field.gens != item.gens:
            self.put(f'    if ({self.has(field.gens)}) {{')
            for line in lines:
                self.put('        ' + line)
            self.put('    }')
        else:
            for line in lines:
                self.put('    ' + line)

    def or_lines(self, field):
        """Statements that put v's member into w."""
        if field.const is not None:
            lo, hi = field.parts[0]
            if len(field.parts) == 1:
                return [f'regs_or(w, {lo}, {hi - lo + 1}, '
                        f'{c_number(field.const)});']
        lines, done = [], 0
        for lo, hi in field.parts:
            n = hi - lo + 1
            last = (lo, hi) == field.parts[-1]
            for i in range(field.count):
                index = f'[{i}]' if field.is_array else ''
                value = (f'{c_number(field.const)}' if field.const is not None
                         else f'v.{field.member}{index}')
                if field.kind == 'int':
                    value = f'((uint64_t){value} & ' \
                            f'{c_number((1 << field.n_bits) - 1, 64)})'
                down = field.shift + done
                if down:
                    value = f'({value} >> {down})'
                if not last:
                    value = f'({value} & {c_number((1 << n) - 1)})'
                lines.append(f'regs_or(w, {lo + i * field.stride}, {n}, '
                             f'{value});')
            done += n
        return lines

    def pack(self, item):
        struct = self.struct(item)
        members = item.members()
        value = ''
        if members:
            value = f'const {struct} *p' if by_pointer(item) else f'{struct} v'
        single = item.n_dw == 1 or item.is_qword
        out = '' if single else f'uint32_t w[{item.n_dw}]'
        params = ', '.join(p for p in (self.gen_param.rstrip(', '), value, out)
                           if p) or 'void'
        result = 'uint64_t' if item.is_qword else \
            'uint32_t' if item.n_dw == 1 else 'void'
        self.put(f'static inline {result}\n{self.func("pack", item)}'
                 f'({params})\n{{')
        if single:
            self.put(f'    uint32_t w[{item.n_dw}] = {{0}};')
        self.put()
        if self.spec.gens:
            self.put('    (void)gen;')
        if members:
            at = 'p' if by_pointer(item) else '&v'
            self.put(f'    assert(!{self.func("check", item)}('
                     f'{self.gen_arg}{at}));')
        if not single:
            n_dw = f'{self.func("size", item)}(gen)' if item.columns \
                else item.n_dw
            self.put(f'    for (unsigned i = 0; i < {n_dw}; i++)\n'
                     '        w[i] = 0;')
        for field in item.fields:
            lines = self.or_lines(field)
            if by_pointer(item):
                lines = [line.replace('v.', 'p->') for line in lines]
            self.guarded(item, field, lines)
        if item.is_qword:
            self.put('    return w[0] | (uint64_t)w[1] << 32;')
        elif single:
            self.put('    return w[0];')
        self.put('}\n')

    def unpack(self, item):
        if not item.members():
            return
        struct = self.struct(item)
        word = 'uint64_t word' if item.is_qword else \
            'uint32_t word' if item.n_dw == 1 else 'const uint32_t *w'
        self.put(f'static inline {struct}\n{self.func("unpack", item)}'
                 f'({self.gen_param}{word})\n{{')
        if item.is_qword:
            self.put('    const uint32_t w[2] = {(uint32_t)word, '
                     '(uint32_t)(word >> 32)};')
        elif item.n_dw == 1:
            self.put('    const uint32_t w[1] = {word};')
        self.put(f'    {struct} v = {{0}};\n')
        if self.spec.gens:
            self.put('    (void)gen;')
        for _, fields in item.members():
            for field in fields:
                lines = [
                    self.get_line(field, i, c_type(fields))
                    for i in range(field.count)]
                self.guarded(item, field, lines)
        self.put('    return v;\n}\n')

    def get_line(self, field, i, kind):
        index = f'[{i}]' if field.is_array else ''
        terms, done = [], field.shift
        for lo, hi in field.parts:
            term = f'regs_bits(w, {lo + i * field.stride}, {hi - lo + 1})'
            terms.append(f'{term} << {done}' if done else term)
            done += hi - lo + 1
        value = ' | '.join(terms)
        if field.kind == 'bool':
            return f'v.{field.member}{index} = {value} != 0;'
        if field.kind == 'int':
            value = f'regs_signed({value}, {field.n_bits})'
        return f'v.{field.member}{index} = ({kind})({value});'

    def checked(self, item):
        """bell_status V_try_U_T(gen, v, out)"""
        if not item.members():
            return
        pointer = by_pointer(item)
        if pointer:
            self.put(f'extern const struct regs_packing {self.packing(item)};')
        single = item.n_dw == 1 or item.is_qword
        value = f'const {self.struct(item)} *v' if pointer \
            else f'{self.struct(item)} v'
        out = f'uint{64 if item.is_qword else 32}_t *out_w'
        self.put('/* The same, refusing what the packer only asserts. */\n'
                 'BELL_MUST_CHECK static inline bell_status\n'
                 f'{self.func("try", item)}({self.gen_param}{value}, {out})\n'
                 '{')
        if pointer:
            self.put(f'    return regs_try(&{self.packing(item)}, '
                     f'{"gen" if self.spec.gens else "0"}, v, out_w);\n}}\n')
            return
        self.put(f'    const char *bad = {self.func("check", item)}('
                 f'{self.gen_arg}&v);\n')
        self.put(f'    if (bad)\n        return regs_refuse('
                 f'"{self.prefix}", "{item.name}", bad);')
        call = f'{self.func("pack", item)}({self.gen_arg}v'
        self.put(f'    *out_w = {call});' if single
                 else f'    {call}, out_w);')
        self.put('    return BELL_OK;\n}\n')

    def match(self, item):
        """bool V_match_U_T(gen, w): the constant fields are there."""
        word = 'const uint32_t *w'
        self.put('/* Whether the words have the constants of this block. */')
        self.put(f'static inline bool\n{self.func("match", item)}('
                 f'{self.gen_param}{word})\n{{\n    bool same = true;\n')
        if self.spec.gens:
            self.put('    (void)gen;')
        for field in item.fields:
            if field.const is None:
                continue
            done, lines = 0, []
            for lo, hi in field.parts:
                n = hi - lo + 1
                want = field.const >> done & ((1 << n) - 1)
                lines.append(f'same &= regs_bits(w, {lo}, {n}) == '
                             f'{c_number(want)};')
                done += n
            self.guarded(item, field, lines)
        self.put('    return same;\n}\n')

    def setter(self, item, fields):
        """One field of a block that is packed already."""
        first, kind = fields[0], c_type(fields)
        gen = self.gen_param if item.columns else ''
        index = 'unsigned i, ' if first.is_array else ''
        self.put(f'static inline void\n{self.func("set", item)}_'
                 f'{first.member}({gen}uint32_t *w, {index}{kind} value)\n{{')
        if first.is_array:
            self.put(f'    assert(i < {first.count});')
        for field in fields:
            if item.columns:
                self.put(f'    {"" if field is first else "} else "}'
                         f'if ({self.has(field.gens)}) {{')
            self.set_lines(field)
        if item.columns:
            self.put('    } else {\n        assert(!value);\n    }')
        self.put('}\n')

    def set_lines(self, field):
        if field.shift:
            self.put(f'    assert(!(value & '
                     f'{c_number((1 << field.shift) - 1)}));')
        at = f' + i * {field.stride}u' if field.is_array else ''
        done = field.shift
        for lo, hi in field.parts:
            n = hi - lo + 1
            value = f'(uint64_t)value >> {done}' if done else 'value'
            if (lo, hi) != field.parts[-1]:
                value = f'({value}) & {c_number((1 << n) - 1, 64)}'
            self.put(f'    regs_set(w, {lo}{at}, {n}, {value});')
            done += n

    def getter(self, item, fields):
        """One field of a packed block; 0 where the generation has none."""
        first, kind = fields[0], c_type(fields)
        gen = self.gen_param if item.columns else ''
        index = ', unsigned i' if first.is_array else ''
        self.put(f'static inline {kind}\n{self.func("get", item)}_'
                 f'{first.member}({gen}const uint32_t *w{index})\n{{')
        if first.is_array:
            self.put(f'    assert(i < {first.count});')
        for field in fields:
            at = f' + i * {field.stride}u' if field.is_array else ''
            done, terms = field.shift, []
            for lo, hi in field.parts:
                bits = f'regs_bits(w, {lo}{at}, {hi - lo + 1})'
                terms.append(f'{bits} << {done}' if done else bits)
                done += hi - lo + 1
            if item.columns:
                self.put(f'    if ({self.has(field.gens)})')
            self.put(f'    return ({kind})({" | ".join(terms)});')
        if item.columns:
            self.put('    return 0;')
        self.put('}\n')

    def layout(self, item):
        macro = self.macro(item)
        struct = self.struct(item)
        self.put(f'{struct} {{')
        at = n_pads = 0
        for field in sorted(item.fields, key=lambda f: f.parts[0][0]):
            lo, hi = field.parts[0]
            if lo // 8 > at:
                self.put(f'    uint8_t pad{n_pads}[{lo // 8 - at}];')
                n_pads += 1
            count = f'[{field.count}]' if field.is_array else ''
            note = f' /* {field.doc} */' if field.doc else ''
            self.put(f'    uint{hi - lo + 1}_t {field.member}{count};{note}')
            at = lo // 8 + (hi - lo + 1) // 8 * field.count
        if at < item.size_bytes:
            self.put(f'    uint8_t pad{n_pads}[{item.size_bytes - at}];')
        self.put('};')
        self.put(f'static_assert(sizeof({struct}) == {item.size_bytes}, '
                 f'"{item.name}");')
        for field in item.fields:
            lo = field.parts[0][0] // 8
            self.put(f'#define {macro}_{field.name} {c_number(lo)}\n'
                     f'static_assert(offsetof({struct}, {field.member}) == '
                     f'{macro}_{field.name}, "{field.name}");')
        self.put()


class Rows(Writer):
    """The descriptor rows of a unit."""

    def run(self):
        spec = self.spec
        self.begin('Rows made')
        name = os.path.splitext(os.path.basename(spec.path))[0]
        self.put(f'#include "{self.include_dir}/{name}.h"\n')
        used = {f.enum for item in spec.types for f in item.fields}
        for enum, (_, _, _, values) in spec.enums.items():
            if enum not in used:
                continue
            low = enum.lower()
            self.put(f'static const struct regs_value {low}_values[] = {{')
            for value_name, value, _ in values:
                self.put(f'    {{"{value_name}", {value}}},')
            self.put('};\n'
                     f'static const struct regs_enum {low}_enum = {{'
                     f'{low}_values, {len(values)}}};\n')
        for index, item in enumerate(spec.types):
            self.put(f'static const struct regs_field fields_{index}[] = {{')
            for field in item.fields:
                self.field(field)
            self.put('};\n')
        self.put('static const struct regs_type types[] = {')
        for index, item in enumerate(spec.types):
            self.put(f'    {{.name = "{item.name}", .fields = fields_{index}, '
                     f'.n_fields = {len(item.fields)}, '
                     f'.kind = REGS_{item.kind.upper()}, '
                     f'.address = {c_number(item.address)}, '
                     f'.count = {item.count}, .stride = {item.stride}, '
                     f'.n_dw = {item.n_dw}, '
                     f'.stream = REGS_{(item.stream or "none").upper()}, '
                     f'.gens = {c_number(item.gens)}'
                     + (f', .gen_dw = (const uint8_t[]){{'
                        f'{", ".join(map(str, item.columns))}}}'
                        if item.columns else '') + '},')
        self.put('};\n')
        if spec.gens:
            self.put('static const char *const gen_names[] = {'
                     + ', '.join(f'"{g}"' for g in spec.gens) + '};\n'
                     'static const uint32_t gen_ids[] = {'
                     + ', '.join(c_number(i) for i in spec.gen_ids) + '};\n')
        gens = ('.gen_names = gen_names, .gen_ids = gen_ids, '
                if spec.gens else '')
        self.put(f'const struct regs_unit {self.prefix}_unit = {{\n'
                 f'    .name = "{self.prefix}", {gens}'
                 f'.n_gens = {len(spec.gens)},\n'
                 f'    .types = types, .n_types = {len(spec.types)}, '
                 f'.step = {spec.step}}};')
        for item in spec.types:
            if item.kind != 'layout' and item.members() and by_pointer(item):
                self.put_rows(item)
        return self.text()

    def put_rows(self, item):
        """What the checked packer of a large block goes by."""
        low, names = item.short.lower(), {}
        assert len(self.spec.gens) <= 8, item.name
        self.put(f'\nstatic const struct regs_put {low}_puts[] = {{')
        n_rows = 0
        for field in item.fields:
            if field.const is not None:
                n_rows += self.put_parts(item, field, names)
        for name, fields in item.members():
            covered = 0
            for field in fields:
                covered |= field.gens
                n_rows += self.put_parts(item, field, names)
            if covered != item.gens:
                self.put_row(item, fields[0], names, name=name, absent=True,
                             gens=item.gens & ~covered)
                n_rows += 1
        text = ' '.join(f'"{name}\\0"' for name in names)
        self.put(f'}};\nstatic const char {low}_names[] = {text};\n'
                 f'const struct regs_packing {self.packing(item)} = {{\n'
                 f'    .unit = "{self.prefix}", .type = "{item.name}", '
                 f'.names = {low}_names,\n    .puts = {low}_puts, '
                 f'.n_puts = {n_rows}, .n_dw = {{'
                 + ', '.join(map(str, item.columns or [item.n_dw] * max(
                     len(self.spec.gens), 1)))
                 + f'}}, .gens = {c_number(item.gens)}}};')

    def put_parts(self, item, field, names):
        down = field.shift
        for lo, hi in field.parts:
            self.put_row(item, field, names, lo=lo, n_bits=hi - lo + 1,
                         down=down)
            down += hi - lo + 1
        return len(field.parts)

    def put_row(self, item, field, names, name=None, absent=False, lo=0,
                n_bits=0, down=0, gens=None):
        row = [f'.lo = {lo}', f'.n_bits = {n_bits}', f'.down = {down}',
               f'.gens = {c_number(field.gens if gens is None else gens)}']
        if field.const is not None:
            assert field.const < 1 << 16, field.name
            row.append(f'.member = {field.const}, .count = 1')
        else:
            struct = self.struct(item)
            key = name or field.name
            if key not in names:
                names[key] = sum(len(other) + 1 for other in names)
            index = '[0]' if field.is_array else ''
            row += [f'.name = {names[key]}',
                    f'.member = offsetof({struct}, {field.member})',
                    '.member_bytes = sizeof('
                    f'(({struct} *)0)->{field.member}{index})',
                    f'.count = {field.count}, .stride = {field.stride}']
            if not absent:
                row.append(f'.limit = {field.n_bits + field.shift}, '
                           f'.shift = {field.shift}')
                if field.kind == 'int':
                    row.append('.is_int = true')
        self.put('    {' + ', '.join(row) + '},')

    def field(self, field):
        parts = ', '.join(f'{{{lo}, {hi - lo + 1}}}' for lo, hi in field.parts)
        row = [f'.name = "{field.name}"', f'.kind = REGS_{field.kind.upper()}',
               f'.parts = {{{parts}}}', f'.n_parts = {len(field.parts)}',
               f'.count = {field.count}', f'.stride = {field.stride}',
               f'.gens = {c_number(field.gens)}']
        if field.enum:
            row.append(f'.values = &{field.enum.lower()}_enum')
        if field.shift:
            row.append(f'.shift = {field.shift}')
        if field.is_array:
            row.append('.is_array = true')
        if field.const is not None:
            row.append(f'.is_const = true, .value = '
                       f'{c_number(field.const, 64)}')
        if field.always:
            row.append('.always = true')
        if field.role:
            row.append(f'.role = REGS_ROLE_{field.role.upper()}, '
                       f'.bias = {field.bias}')
        self.put('    {' + ', '.join(row) + '},')


class Test(Writer):
    """Every packer behind one signature, for the round-trip test."""

    def run(self):
        spec = self.spec
        self.begin('Test adapters made')
        name = os.path.splitext(os.path.basename(spec.path))[0]
        self.put('#include "tests/golden/regs_test.h"\n'
                 f'#include "{self.include_dir}/{name}.h"\n')
        rows = []
        for index, item in enumerate(spec.types):
            if item.kind == 'layout' or not item.members():
                continue
            self.adapters(index, item)
            rows.append(f'    {{&{self.prefix}_unit, {index}, check_{index}, '
                        f'try_{index}, pack_{index}, unpack_{index}}},')
        rows = rows or ['    {&' + f'{self.prefix}_unit, 0, NULL, NULL, NULL, '
                        'NULL},']
        self.put(f'const struct regs_test {self.prefix}_tests[] = {{')
        self.put('\n'.join(rows) + '\n};')
        self.put(f'const unsigned {self.prefix}_n_tests = '
                 f'{len(rows) if "NULL" not in rows[0] else 0};')
        return self.text()

    def adapters(self, index, item):
        struct = self.struct(item)
        gen = f'(enum {self.prefix}_gen)gen, ' if self.spec.gens else ''
        single = item.n_dw == 1 or item.is_qword
        self.put(f'static {struct}\nfill_{index}(const uint64_t *v)\n{{\n'
                 f'    {struct} s;\n')
        at = 0
        reads = []
        for _, fields in item.members():
            field, kind = fields[0], c_type(fields)
            for i in range(field.count):
                member = field.member + (f'[{i}]' if field.is_array else '')
                cast = '' if kind == 'bool' else f'({kind})'
                tail = ' != 0' if kind == 'bool' else ''
                self.put(f'    s.{member} = {cast}v[{at}]{tail};')
                reads.append(f'    v[{at}] = (uint64_t)s.{member};')
                at += 1
        self.put('    return s;\n}\n')
        self.put(f'static const char *\ncheck_{index}(unsigned gen, '
                 f'const uint64_t *v)\n{{\n    {struct} s = fill_{index}(v);\n'
                 f'\n    (void)gen;\n'
                 f'    return {self.func("check", item)}({gen}&s);\n}}\n')
        pointer = '&s' if by_pointer(item) else 's'
        call = f'{self.func("pack", item)}({gen}{pointer}'
        body = f'{call}, w);' if not single else \
            f'uint64_t x = {call});\n    w[0] = (uint32_t)x;' + \
            ('\n    w[1] = (uint32_t)(x >> 32);' if item.is_qword else '')
        self.put(f'static void\npack_{index}(unsigned gen, const uint64_t *v, '
                 f'uint32_t *w)\n{{\n    {struct} s = fill_{index}(v);\n'
                 f'\n    (void)gen;\n    {body}\n}}\n')
        call = f'{self.func("try", item)}({gen}{pointer}'
        out = 'uint64_t x = 0;\n    bell_status status = ' + call + ', &x);' \
            '\n    if (status == BELL_OK) {\n        w[0] = (uint32_t)x;\n' \
            '        w[1] = (uint32_t)(x >> 32);\n    }\n    return status;' \
            if item.is_qword else f'return {call}, w);'
        self.put(f'static bell_status\ntry_{index}(unsigned gen, '
                 f'const uint64_t *v, uint32_t *w)\n{{\n'
                 f'    {struct} s = fill_{index}(v);\n\n    (void)gen;\n'
                 f'    {out}\n}}\n')
        word = '(uint64_t)w[1] << 32 | w[0]' if item.is_qword else \
            'w[0]' if item.n_dw == 1 else 'w'
        self.put(f'static void\nunpack_{index}(unsigned gen, const uint32_t '
                 f'*w, uint64_t *v)\n{{\n    {struct} s = '
                 f'{self.func("unpack", item)}({gen}{word});\n'
                 f'\n    (void)gen;\n' + '\n'.join(reads) + '\n}\n')
