#!/usr/bin/env python3
"""Calls of every public function that is given an object of the library, or
another pointer.

usage: misuse_gen.py HEADER... > misuse_calls.h

Of each a C function that makes the call with what a struct misuse says: its
number k is NULL where the k-th pointer is told to be.
"""
import re
import sys

SKIP = {'bell_context_create': 'makes a context',
        'bell_interrupt_set': 'takes a function that is called later',
        'bell_log_set': 'takes a function that is called later',
        'bell_onnx_call': "takes a model as a jit's user: test_onnx.c"}
TENSOR = re.compile(r'^(const )?struct bell_tensor \*$')
LIST = re.compile(r'^struct bell_tensor \*const \*$')
# Opaque kinds of objects, in the order of misuse_kinds, and members of struct
# misuse; then those that are the caller's own.
KINDS = {'bell_context': 'ctx', 'bell_jit': 'jit', 'bell_loader': 'loader',
         'bell_optimizer': 'optimizer', 'bell_file': 'file',
         'bell_onnx': 'onnx', 'bell_lm': 'lm', 'bell_lm_session': 'session'}
WHOLE = {'bell_state': 'state', 'bell_module_type': 'type'}
COMMA = re.compile(r',\s*(?![^()]*\))')
NUMBERS = {'bool': 'false', 'int': '0', 'double': '0.5', 'size_t': '8'}


def without_comments(text):
    text = re.sub(r'/\*.*?\*/', '', text, flags=re.S)
    return re.sub(r'//[^\n]*', '', text)


def functions(text):
    for match in re.finditer(
            r'BELL_API\b([^;{}]*?)\b(bell_\w+)\s*\(([^;]*?)\)\s*;', text, re.S):
        result = ' '.join(match[1].replace('BELL_MUST_CHECK', '').split())
        params = ' '.join(match[3].split())
        yield result, match[2], \
            [] if params == 'void' else COMMA.split(params)


def kind(param):
    if '(*' in param:
        return 'function *'
    match = re.match(r'(.*?)(\w+)(\[\w*\])?$', param)
    kind = match[1].strip()
    return kind + ' *' if match[3] else kind


def is_tensor(kind):
    return TENSOR.match(kind) or LIST.match(kind)


def object_of(kind):
    match = re.match(r'(?:const )?struct (\w+) \*$', kind)
    return match[1] if match else None


def value(kind, tensors, pointers, whole):
    """What to pass for a parameter; counts tensors and pointers."""
    if TENSOR.match(kind):
        tensors.append(kind)
        return f'misuse_tensor(m, {len(tensors) - 1})'
    if not kind.endswith('*') and not LIST.match(kind):
        if kind.startswith('enum '):
            return f'({kind})0'
        if kind.startswith('struct '):
            return f'({kind}){{0}}'
        return NUMBERS.get(kind, '1')
    if LIST.match(kind):
        tensors.append(kind)
        text = f'misuse_list(m, {len(tensors) - 1})'
    elif object_of(kind) in KINDS:
        return f'm->{KINDS[object_of(kind)]}'
    elif kind == 'const struct bell_index_item *':
        tensors.append(kind)
        text = f'misuse_items(m, {len(tensors) - 1})'
    elif kind == 'const char *':
        text = '"x"'
    elif kind == 'const int64_t *':
        text = 'misuse_ones'
    elif kind == 'function *':
        return 'NULL'
    elif object_of(kind) in WHOLE:
        text = f'misuse_whole(m, {len(pointers)}, ' \
            f'm->{WHOLE[object_of(kind)]})'
    elif kind in ('void *', 'const void *'):
        text = f'misuse_whole(m, {len(pointers)}, m->module)'
    else:
        if object_of(kind) and object_of(kind) not in whole:
            return 'NULL'
        text = f'misuse_room(m, {len(pointers)})'
    pointers.append(kind)
    return f'misuse_pointer(m, {len(pointers) - 1}, {text})'


def main():
    texts = [without_comments(open(name).read()) for name in sys.argv[1:]]
    whole = set(re.findall(r'struct (\w+) \{', ' '.join(texts)))
    rows = []
    for text in texts:
        for result, name, params in functions(text):
            kinds = [kind(param) for param in params]
            if name in SKIP or not any(
                    k.endswith('*') or is_tensor(k) for k in kinds):
                continue
            tensors, pointers = [], []
            call = ', '.join(
                value(k, tensors, pointers, whole) for k in kinds)
            call = f'{name}({call})'
            print(f'static bool\ncall_{name}(struct misuse *m)\n{{')
            gives = TENSOR.match(result + ('' if result.endswith('*') else ' '))
            if result == 'bell_status':
                print(f'    return {call} != BELL_OK;')
            elif gives:
                print(f'    return bell_is_error(m->result = {call});')
            else:
                print(f'    (void)m;\n    (void){call};\n    return false;')
            print('}\n')
            has_ctx = any(object_of(k) == 'bell_context' for k in kinds)
            bits = sum(1 << i for i, k in enumerate(KINDS)
                       if k in map(object_of, kinds))
            wholes = sum(1 << i for i, k in enumerate(pointers)
                         if object_of(k) in WHOLE or k == 'const void *' and
                         'bell_module_type' in map(object_of, kinds))
            has_object = any(
                re.match(r'(const )?struct (?!bell_tensor|bell_context'
                         r'|bell_index_item)\w+ \*$', k) for k in kinds)
            rows.append(f'    {{"{name}", call_{name}, {len(tensors)}, '
                        f'{len(pointers)}, {str(has_ctx).lower()}, '
                        f'{str(has_object).lower()}, {bits}, {wholes}, '
                        f'{str(bool(gives)).lower()}}},')
    print('static const struct misuse_call misuse_calls[] = {')
    print('\n'.join(rows))
    print('};')


main()
