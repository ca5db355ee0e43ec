#!/usr/bin/env python3
"""Writes the opcode table of the simulated AMD chips (sim/amd/isa/isa_rows.def).

    tools/amdisa.py            write it
    tools/amdisa.py --check    compare; 1: it differs, 77: no LLVM 19

LLVM 19's disassembler is asked what every number of every format is on every
chip; names become operations by the rules below. A name that no rule knows
has no row: the interpreter calls such an instruction unknown.
"""
import ctypes
import itertools
import pathlib
import re
import sys

FOLDER = pathlib.Path(__file__).resolve().parent.parent / 'sim' / 'amd' / 'isa'
CHIPS = {'gfx906': 9, 'gfx908': 9, 'gfx90a': 9, 'gfx942': 9, 'gfx1012': 10,
         'gfx1030': 10, 'gfx1100': 11, 'gfx1150': 11, 'gfx1201': 12}
LIBRARIES = ('libLLVM.so.19.1', 'libLLVM-19.so.1', 'libLLVM-19.so')


# ---- every number of every format -------------------------------------------


class Disassembler:
    def __init__(self, lib, chip):
        self.lib = lib
        self.text = ctypes.create_string_buffer(512)
        self.context = lib.LLVMCreateDisasmCPU(
            b'amdgcn-amd-amdhsa', chip.encode(), None, 0, None, None)

    def __call__(self, word):
        data = word.to_bytes(16, 'little')
        n = self.lib.LLVMDisasmInstruction(self.context, data, 16, 0,
                                           self.text, 512)
        return self.text.value.decode() if n else ''


def load_llvm():
    for name in LIBRARIES:
        try:
            lib = ctypes.CDLL(name)
            break
        except OSError:
            pass
    else:
        return None
    try:
        for part in ('TargetInfo', 'TargetMC', 'Disassembler'):
            getattr(lib, 'LLVMInitializeAMDGPU' + part)()
    except AttributeError:
        return None
    pointer = ctypes.c_void_p
    lib.LLVMCreateDisasmCPU.restype = pointer
    lib.LLVMCreateDisasmCPU.argtypes = [
        ctypes.c_char_p, ctypes.c_char_p, pointer, ctypes.c_int, pointer,
        pointer]
    lib.LLVMDisasmInstruction.restype = ctypes.c_size_t
    lib.LLVMDisasmInstruction.argtypes = [
        pointer, ctypes.c_char_p, ctypes.c_uint64, ctypes.c_uint64,
        ctypes.c_char_p, ctypes.c_size_t]
    return lib


def formats(gfx):
    """Name: how many numbers, the fixed bits, where the number is, and fields
    with values to try (LLVM refuses values that an operation does not take).
    src: docs/hardware/amd-code.md, "Instruction formats"."""
    null = {9: 0x7f, 10: 0x7d}.get(gfx, 0x7c)
    vop3 = 0xd0000000 if gfx == 9 else 0xd4000000
    vop3p = 0xd3800000 if gfx == 9 else 0xcc000000
    rows = {
        'SOP1': (256, 0xbe800000, 8, {16: (12, 0, 106), 0: (4, 0, 128)}),
        'SOP2': (96, 0x80000000, 23, {16: (12, 0, 106), 8: (8, 0),
                                      0: (4, 0, 128)}),
        'SOPC': (128, 0xbf000000, 16, {8: (8, 0), 0: (4, 0, 128)}),
        'SOPK': (28, 0xb0000000, 23, {16: (12, 0, 124, 125), 0: (8, 0)}),
        'SOPP': (128, 0xbf800000, 16, {0: (0, 8)}),
        'VOP1': (256 if gfx < 12 else 128, 0x7e000000, 9,
                 {17: (12, 0), 0: (260, 0)}),
        'VOP2': (62, 0, 25, {17: (12,), 9: (8,), 0: (260, 4)}),
        'VOPC': (256, 0x7c000000, 17, {9: (8,), 0: (260,)}),
        'VOP3': (1024, vop3, 16, {8: (0, 20), 0: (12, 0), 50: (288, 16, 0),
                                  41: (264, 8, 0), 32: (260, 4, 0)}),
        'VOP3P': (128, vop3p, 16, {14: (1, 0), 59: (3, 0), 0: (12,),
                                   50: (288, 0), 41: (264, 0), 32: (260,)}),
        'DS': (256, 0xd8000000, 17 if gfx == 9 else 18,
               {0: (8, 0), 32: (2, 0), 40: (4, 0), 48: (8, 0), 56: (12, 0)}),
    }
    buffer = {32: (2, 0), 40: (4, 0), 48: (1, 0), 56: (0x80, 0)}
    flat = {32: (2, 0), 40: (4, 0), 48: (null, 0), 56: (12, 0)}
    if gfx == 9:
        rows['SMEM'] = (256, 0xc0000000, 18,
                        {32: (16,), 17: (1, 0), 6: (12, 0), 0: (2, 0)})
    elif gfx < 12:
        rows['SMEM'] = (256, 0xf4000000, 18,
                        {57: (null, 0), 32: (16, 0), 6: (12, 0), 0: (2, 0)})
    else:
        rows['SMEM'] = (64, 0xf4000000, 13,
                        {57: (null, 0), 32: (16, 0), 6: (12, 0), 0: (2, 0)})
    if gfx < 12:
        segment = 0x8000 if gfx < 11 else 0x20000
        returns = 16 if gfx < 11 else 14
        rows['GLOBAL'] = (128, 0xdc000000 | segment, 18,
                          flat | {returns: (0, 1)})
        rows['MUBUF'] = (128 if gfx < 11 else 256, 0xe0000000, 18,
                         buffer | {12 if gfx < 11 else 54: (1, 0)})
    else:
        rows['GLOBAL'] = (256, 0xee000000, 14,
                          {0: (null,), 32: (12, 0), 55: (4, 0), 64: (2, 0),
                           52: (0, 1)})
        rows['MUBUF'] = (256, 0xc4000000, 14,
                         {0: (null,), 32: (12, 0), 41: (8, 0), 62: (1, 0),
                          64: (2, 0), 72: (8, 0), 52: (0, 1)})
    return rows


def numbers(lib, chip):
    """Yields format, number and name."""
    ask = Disassembler(lib, chip)
    for name, (n, fixed, at, fields) in formats(CHIPS[chip]).items():
        tries = [sum(v << s for s, v in zip(fields, values))
                 for values in itertools.product(*fields.values())]
        for number in range(n):
            for bits in tries:
                text = ask(fixed | number << at | bits)
                if text:
                    yield name, number, re.sub(r'_(e32|e64|sdwa|dpp)$', '',
                                               text.split()[0])
                    break


# ---- names to operations -----------------------------------------------------

NOTHING = '''clause delay_alu dcache_discard dcache_discard_x2 icache_inv
sendmsg sendmsghalt set_inst_prefetch_distance inst_prefetch sethalt setprio
sleep sleep_var wakeup wait_idle waitcnt waitcnt_depctr waitcnt_expcnt
waitcnt_lgkmcnt waitcnt_vmcnt waitcnt_vscnt wait_alu wait_event wait_loadcnt
wait_storecnt wait_samplecnt wait_bvhcnt wait_expcnt wait_dscnt wait_kmcnt
wait_loadcnt_dscnt wait_storecnt_dscnt singleuse_vdst incperflevel
decperflevel ttracedata ttracedata_imm prefetch_inst prefetch_inst_pc_rel
prefetch_data prefetch_data_pc_rel nop version'''.split()

# What older chips call the operations of gfx11, and newer ones.
ALIASES = {
    's_ff1_i32_b32': 's_ctz_i32_b32', 's_ff1_i32_b64': 's_ctz_i32_b64',
    's_flbit_i32': 's_cls_i32', 's_flbit_i32_b32': 's_clz_i32_u32',
    's_flbit_i32_b64': 's_clz_i32_u64', 's_flbit_i32_i64': 's_cls_i32_i64',
    's_add_co_u32': 's_add_u32', 's_sub_co_u32': 's_sub_u32',
    's_add_co_i32': 's_add_i32', 's_sub_co_i32': 's_sub_i32',
    's_add_co_ci_u32': 's_addc_u32', 's_sub_co_ci_u32': 's_subb_u32',
    's_addk_co_i32': 's_addk_i32',
    's_min_num_f32': 's_min_f32', 's_max_num_f32': 's_max_f32',
    's_min_num_f16': 's_min_f16', 's_max_num_f16': 's_max_f16',
    'v_addc_co_u32': 'v_add_co_ci_u32', 'v_subb_co_u32': 'v_sub_co_ci_u32',
    'v_subbrev_co_u32': 'v_subrev_co_ci_u32',
    'v_cvt_flr_i32_f32': 'v_cvt_floor_i32_f32',
    'v_cvt_rpi_i32_f32': 'v_cvt_nearest_i32_f32',
    'v_cvt_pkrtz_f16_f32': 'v_cvt_pk_rtz_f16_f32',
    'v_ffbh_i32': 'v_cls_i32', 'v_ffbh_u32': 'v_clz_i32_u32',
    'v_ffbl_b32': 'v_ctz_i32_b32',
    'v_div_fixup_legacy_f16': 'v_div_fixup_f16',
    'v_fma_legacy_f16': 'v_fma_f16', 'v_mad_legacy_i16': 'v_mad_i16',
    'v_mad_legacy_u16': 'v_mad_u16', 'v_exp_legacy_f32': 'v_exp_f32',
    'v_log_legacy_f32': 'v_log_f32', 'v_pipeflush': 's_nop',
    'v_nop': 's_nop', 'v_clrexcp': 's_nop',
    'v_mad_co_u64_u32': 'v_mad_u64_u32', 'v_mad_co_i64_i32': 'v_mad_i64_i32',
    'v_fmac_legacy_f32': 'v_fmac_dx9_zero_f32',
    'v_mul_legacy_f32': 'v_mul_dx9_zero_f32',
    'v_fma_legacy_f32': 'v_fma_dx9_zero_f32',
    'v_mad_legacy_f32': 'v_mad_dx9_zero_f32',
    'v_mac_legacy_f32': 'v_mac_dx9_zero_f32',
    'v_mad_legacy_f16': 'v_mad_f16',
    'v_dot2c_f32_f16': 'v_dot2acc_f32_f16',
}

# gfx942 has underscores, and numbers of blocks, that gfx90a has not.
MATRIX = re.compile(r'v_mfma_(f32|i32|f64)_(\d+)x\d+x(\d+)_?(\d+b_)?'
                    r'(xf32|bf16|f16|f32|f64|i8)(_1k)?$')
# Elements of a lane on gfx90a, which tell how many blocks there are.
PER_LANE = {'f32': 1, 'f64': 1, 'f16': 4, 'i8': 4, 'bf16': 2, 'bf16_1k': 4}

COMPARES = {'f': 0, 'lt': 1, 'eq': 2, 'le': 3, 'gt': 4, 'lg': 5, 'ge': 6,
            'o': 7, 'u': 8, 'nge': 9, 'nlg': 10, 'ngt': 11, 'nle': 12,
            'neq': 13, 'nlt': 14, 'tru': 15, 't': 15, 'ne': 5}

# What a load or store moves: bytes, flags.
WIDTHS = {
    'ubyte': (1, ''), 'u8': (1, ''), 'sbyte': (1, 'SIGNED'),
    'i8': (1, 'SIGNED'), 'ushort': (2, ''), 'u16': (2, ''),
    'sshort': (2, 'SIGNED'), 'i16': (2, 'SIGNED'), 'dword': (4, ''),
    'b32': (4, ''), 'dwordx2': (8, ''), 'b64': (8, ''), 'dwordx3': (12, ''),
    'b96': (12, ''), 'dwordx4': (16, ''), 'b128': (16, ''),
    'dwordx8': (32, ''), 'b256': (32, ''), 'dwordx16': (64, ''),
    'b512': (64, ''), 'byte': (1, ''), 'b8': (1, ''), 'short': (2, ''),
    'b16': (2, ''), 'ubyte_d16': (1, 'LOW'), 'd16_u8': (1, 'LOW'),
    'u8_d16': (1, 'LOW'), 'sbyte_d16': (1, 'SIGNED|LOW'),
    'd16_i8': (1, 'SIGNED|LOW'), 'i8_d16': (1, 'SIGNED|LOW'),
    'short_d16': (2, 'LOW'), 'd16_b16': (2, 'LOW'), 'u16_d16': (2, 'LOW'),
    'ubyte_d16_hi': (1, 'HIGH'), 'd16_hi_u8': (1, 'HIGH'),
    'u8_d16_hi': (1, 'HIGH'), 'sbyte_d16_hi': (1, 'SIGNED|HIGH'),
    'd16_hi_i8': (1, 'SIGNED|HIGH'), 'i8_d16_hi': (1, 'SIGNED|HIGH'),
    'short_d16_hi': (2, 'HIGH'), 'd16_hi_b16': (2, 'HIGH'),
    'u16_d16_hi': (2, 'HIGH'), 'byte_d16_hi': (1, 'HIGH'),
    'd16_hi_b8': (1, 'HIGH'), 'b8_d16_hi': (1, 'HIGH'),
    'b16_d16_hi': (2, 'HIGH'),
}

ATOMIC = re.compile(
    r'(?:global_atomic|flat_atomic|buffer_atomic|ds)_'
    r'(add|sub|rsub|inc|dec|smin|smax|umin|umax|min|max|and|or|xor|swap|'
    r'wrxchg|storexchg|cmpswap|cmpst|cmpstore|pk_add|fmin|fmax|min_num|'
    r'max_num)(_rtn)?(?:_(?!x2)([a-z]+\d+))?(_x2)?$')
ATOMIC_NAMES = {'smin': 'MIN', 'umin': 'MIN', 'smax': 'MAX', 'umax': 'MAX',
                'wrxchg': 'SWAP', 'storexchg': 'SWAP', 'cmpst': 'CMPSWAP',
                'cmpstore': 'CMPSWAP', 'pk_add': 'ADD', 'fmin': 'MIN',
                'fmax': 'MAX', 'min_num': 'MIN', 'max_num': 'MAX'}

CACHES = {
    's_dcache_inv': 'INV_SCALAR', 's_dcache_inv_vol': 'INV_SCALAR',
    's_gl1_inv': 'INV_GL1', 's_dcache_wb': '', 's_dcache_wb_vol': '',
    'buffer_gl0_inv': 'INV_VECTOR', 'buffer_gl1_inv': 'INV_GL1',
    'buffer_wbl2': 'WB_L2', 'buffer_inv': 'INV_VECTOR|INV_L2',
    'buffer_invl2': 'INV_L2', 'buffer_wbinvl1': 'INV_VECTOR',
    'buffer_wbinvl1_vol': 'INV_VECTOR',
    'global_inv': 'INV_VECTOR|INV_GL1|INV_L2', 'global_wb': 'WB_L2',
    'global_wbinv': 'INV_VECTOR|INV_GL1|INV_L2|WB_L2',
}


def flags(prefix, names):
    return ' | '.join(prefix + n for n in names.split('|') if n) or '0'


def row_of_memory(form, name):
    if name in CACHES:
        return 'M_CACHE', 0, flags('ISA_CACHE_', CACHES[name]), 'ISA_U32'
    found = re.match(r's_(buffer_)?load_(.*)', name)
    if found:
        width = WIDTHS.get(found[2])
        if not width:
            return None
        return ('S_BUFFER_LOAD' if found[1] else 'S_LOAD', width[0],
                flags('ISA_MEM_', width[1]), 'ISA_U32')
    found = re.match(r'(?:global|buffer)_(load|store)_(.*)', name)
    if found and found[2] in WIDTHS:
        n, what = WIDTHS[found[2]]
        return 'M_' + found[1].upper(), n, flags('ISA_MEM_', what), 'ISA_U32'
    found = re.match(r'ds_(read|load|write|store)(2st64|2|_2addr_stride64|'
                     r'_2addr)?_(.*)', name)
    if found and found[3] in WIDTHS:
        n, what = WIDTHS[found[3]]
        two = found[2] or ''
        both = ('TWO|' if two else '') + ('ST64' if '64' in two else '')
        op = 'LOAD' if found[1] in ('read', 'load') else 'STORE'
        return 'M_' + op, n, flags('ISA_MEM_', both or what), 'ISA_U32'
    found = ATOMIC.match(name)
    if found:
        return row_of_atomic(form, found)
    if name in ('ds_swizzle_b32', 'ds_permute_b32', 'ds_bpermute_b32'):
        return name.upper(), 4, '0', 'ISA_U32'
    return None


def row_of_atomic(form, found):
    what, returns, kind, double = found.groups()
    signed = what in ('smin', 'smax')
    if what == 'pk_add':
        kind = 'pk_' + kind
    elif what in ('fmin', 'fmax'):
        kind = 'f64' if double else 'f32'
    elif kind is None:
        kind = ('i' if signed else 'u') + ('64' if double else '32')
    kind = kind.replace('b', 'u') if kind in ('b32', 'b64') else kind
    if what in ('cmpst', 'cmpstore', 'cmpswap') and kind[0] == 'f':
        return None
    op = ATOMIC_NAMES.get(what, what.upper())
    if op not in ('MIN', 'MAX') and kind[0] == 'i':
        kind = 'u' + kind[1:]
    return ('M_ATOMIC_' + op, 8 if kind.endswith('64') else 4,
            'ISA_MEM_RETURN' if returns else '0', 'ISA_' + kind.upper())


def matrix_name(result, dim, depth, blocks, kind, wide):
    if not blocks and kind in PER_LANE and kind + (wide or '') in PER_LANE:
        n = 64 * PER_LANE[kind + (wide or '')] // (int(dim) * int(depth))
        blocks = f'{n}b_' if n > 1 else ''
    return f'v_mfma_{result}_{dim}x{dim}x{depth}_{blocks or ""}{kind}'


def row_of(form, name, known):
    """Operation, a, flags and type; None: the interpreter has none."""
    if form in ('SMEM', 'DS', 'GLOBAL', 'MUBUF'):
        row = row_of_memory(form, name)
        if row:
            return row
    found = re.match(r'v_cmp(x?)_class_(f\d+)$', name)
    if found:
        return ('V_CMP_CLASS', 0, '1' if found[1] else '0',
                'ISA_' + found[2].upper())
    found = re.match(r'v_cmp(x?)_(\w+)_([fiu]\d+)$', name)
    if found:
        return ('V_CMP', COMPARES[found[2]], '1' if found[1] else '0',
                'ISA_' + found[3].upper())
    found = re.match(r's_cmp_(\w+)_(f\d+)$', name)
    if found:
        return 'S_CMP', COMPARES[found[1]], '0', 'ISA_' + found[2].upper()
    found = MATRIX.match(name)
    if found:
        name = matrix_name(*found.groups())
    name = ALIASES.get(name, name)
    name = re.sub(r'^s_(and|or)n([12])_', lambda m: 's_%s_not%d_' % (
        m[1], int(m[2]) - 1), name)
    name = re.sub(r'^s_(and|or)_not1_(b\d+)$', r's_\1_not1_\2', name)
    name = re.sub(r'^v_(add|sub|subrev)_([iu](?:16|32))$', r'v_\1_nc_\2', name)
    name = re.sub(r'^v_(.*)_num_(f\d+)$', r'v_\1_\2', name)
    if name.startswith('s_') and name[2:] in NOTHING:
        name = 's_nop'
    name = name.upper()
    return (name, 0, '0', 'ISA_U32') if name in known else None


# ---- tables --------------------------------------------------------------------

ORDER = ('SOP1', 'SOP2', 'SOPC', 'SOPK', 'SOPP', 'SMEM', 'VOP1', 'VOP2',
         'VOPC', 'VOP3', 'VOP3P', 'DS', 'GLOBAL', 'MUBUF')

HEADER = '''/* Opcode numbers: ISA_ROW(format, operation, a, flags, type, numbers of
 * gfx906, gfx908, gfx90a, gfx942, gfx1012, gfx1030, gfx1100, gfx1150, gfx1201); NONE: the chip has no such
 * operation, or has it fewer times.
 * a: bytes of one lane, or the outcomes of a compare that are true; flags:
 * enum isa_memory_flag, or whether a compare writes EXEC. Operations that are
 * not here are not known to the interpreter.
 * Written by tools/amdisa.py, which asks LLVM 19.
 */
'''


def chip_rows(lib, chip, known):
    rows = {}
    vop1 = (0x140, 0x1c0) if CHIPS[chip] == 9 else (0x180, 0x200)
    for form, number, name in numbers(lib, chip):
        if form == 'VOP3' and (number < 0x140 or vop1[0] <= number < vop1[1]):
            continue  # long forms of other formats
        if form == 'VOP3' and CHIPS[chip] == 9 and number >= 0x380:
            continue  # VOP3P
        row = row_of(form, name, known)
        if row:
            rows[form, number] = row
    return rows


def text_of(tables):
    """A line for each operation of a format, and for each number where one
    chip has several; in the order of the newest chip's numbers."""
    numbers = {}
    for column, rows in enumerate(tables):
        for (form, number), row in sorted(rows.items()):
            key = (ORDER.index(form), *row)
            columns = numbers.setdefault(key, [[] for _ in tables])
            columns[column].append(number)
    lines = []
    for (form, *row), columns in numbers.items():
        for each in itertools.zip_longest(*columns):
            newest = [(-i, n) for i, n in enumerate(each) if n is not None]
            lines.append((form, min(newest), row, each))
    return HEADER + ''.join(
        'ISA_ROW(%s, %s, %s)\n' % (
            ORDER[form], ', '.join(map(str, row)),
            ', '.join('NONE' if n is None else hex(n) for n in each))
        for form, _, row, each in sorted(lines, key=lambda x: x[:2]))


def main():
    lib = load_llvm()
    if not lib:
        print('no LLVM 19')
        return 77
    known = set(re.findall(r'ISA_OP\((\w+)\)',
                           (FOLDER / 'isa_ops.def').read_text()))
    text = text_of([chip_rows(lib, chip, known) for chip in CHIPS])
    path = FOLDER / 'isa_rows.def'
    if '--check' not in sys.argv[1:]:
        path.write_text(text)
    elif not path.exists() or path.read_text() != text:
        print(f'{path.name} is not what LLVM 19 says')
        return 1
    return 0


if __name__ == '__main__':
    sys.exit(main())
