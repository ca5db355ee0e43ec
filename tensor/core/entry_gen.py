#!/usr/bin/env python3
"""Shells of the public calls: see entry.h.

usage: entry_gen.py HEADER... -o OUT   the shells of the first header's functions
       entry_gen.py HEADER... --names OUT
       entry_gen.py HEADER... --rows OUT
A shell is written for each public function that is given an object of the
library, by its parameters' types alone, so a new function has one as well. One
whose context cannot be found by them is an error, unless it is listed here.
--names writes what the bodies are called to the linker; --rows one line for
each function with a shell, "name kind", for tests.
"""
import argparse
import os
import re
import sys

# Functions without a shell, and why they need none.
OPEN = {
    'bell_context_of': 'a handle is of one context for ever',
    'bell_is_error': 'the error tensor is one for ever',
    'bell_module_state': 'looks at handles alone, which are atomic',
    'bell_params_add_module': 'looks at handles alone',
    'bell_params_add_state': 'looks at handles alone',
    'bell_state_add_number': 'a list of its caller',
    'bell_state_find': 'a list of its caller',
    'bell_state_fini': 'a list of its caller',
}
# How many results a list has where a parameter does not say so.
RESULTS = {
    'bell_custom_many': 'desc ? desc->n_out : 0',
    'bell_custom_kernel': 'desc ? desc->n_out : 0',
}
# The context may be gone when they return.
ENDS = {'bell_context_destroy'}
INDENT = '    '

OBJECTS = {
    'bell_context': 'TENSOR_IS_CONTEXT',
    'bell_file': 'TENSOR_IS_FILE',
    'bell_jit': 'TENSOR_IS_JIT',
    'bell_lm': 'TENSOR_IS_LM',
    'bell_lm_session': 'TENSOR_IS_LM_SESSION',
    'bell_loader': 'TENSOR_IS_LOADER',
    'bell_onnx': 'TENSOR_IS_ONNX',
    'bell_optimizer': 'TENSOR_IS_OPTIMIZER',
}
COMMENT = re.compile(r'/\*.*?\*/|//[^\n]*', re.S)
FUNCTION = re.compile(
    r'BELL_API\b([^;{}]*?)\b(bell_\w+)\s*\(([^;]*?)\)\s*;', re.S)
# A comma that is in no parentheses, as those of a function's type are.
COMMA = re.compile(r',\s*(?![^()]*\))')
POINTER = re.compile(r'^(?:const )?struct (\w+) \*$')
LIST = 'struct bell_tensor *const *'
COUNTS = ('uint32_t', 'size_t')


class Param:
    """The parameter's text, name, and type, an array's as a pointer."""

    def __init__(self, text):
        self.text = text
        match = re.match(r'(.*?)\(\*(\w+)\)', text) or \
            re.match(r'(.*?)(\w+)(?:\[\w*\])?$', text)
        self.kind, self.name = match[1].strip(), match[2]
        pointer = POINTER.match(self.kind)
        self.object = pointer[1] if pointer else None


class Function:
    """A public function, and what its shell does with its parameters."""

    def __init__(self, result, name, params):
        self.result, self.name = result, name
        self.params = [Param(text) for text in COMMA.split(params)] \
            if params != 'void' else []
        self.checks, self.places = [], [] # of objects; of a context
        self.has_list = False
        for i, param in enumerate(self.params):
            self.look_at(param, self.params[i + 1:])

    def look_at(self, param, later):
        if param.object in OBJECTS:
            self.checks.append(f'entry_check("{self.name}", {param.name}, '
                               f'{OBJECTS[param.object]})')
            if param.object == 'bell_context':
                self.places.append(
                    f'(struct bell_context *)(uintptr_t){param.name}')
            elif param.object != 'bell_file':
                self.places.append(f'entry_object({param.name})')
        elif param.object == 'bell_tensor':
            self.places.append(f'handle_owner({param.name})')
        elif param.kind == LIST and later and later[0].kind in COUNTS:
            self.places.append(
                f'entry_tensors({param.name}, {later[0].name})')
        elif param.object == 'bell_state':
            self.places.append(f'entry_state({param.name})')
        elif param.object == 'bell_module_type':
            self.places.append(f'entry_module({param.name}, {later[0].name})')
        else:
            self.has_list |= param.kind == LIST

    def is_wrapped(self):
        if self.name in OPEN:
            return False
        if self.has_list and not self.places:
            sys.exit(f'{self.name}: no parameter tells the context')
        return bool(self.checks or self.places)

    def count(self, param):
        """How many results are put where `param` points to."""
        after = self.params[self.params.index(param) - 1]
        if self.name in RESULTS:
            return RESULTS[self.name]
        if param.name != 'out':
            return '1'
        counts = [p.name for p in self.params if p.kind in COUNTS]
        if len(counts) != 1:
            sys.exit(f'{self.name}: how many results are in {after.name}?')
        return counts[0]

    def refusal(self):
        """What a call that is refused leaves behind, and returns."""
        lines = []
        value = None
        if self.result == 'bell_status':
            value = 'bell_error_last()->status'
        else:
            for param in self.params:
                if param.kind == 'struct bell_tensor **':
                    lines.append(f'entry_errors(at, {param.name}, '
                                 f'{self.count(param)});')
                elif param.name in ('out_info', 'out_stats'):
                    lines.append(f'if ({param.name})\n            '
                                 f'tensor_no_info("{self.name}", {param.name}, '
                                 f'sizeof(*{param.name}));')
            if self.result == 'struct bell_tensor *':
                value = 'entry_error(at)'
            elif self.result.endswith('*'):
                value = 'NULL'
            elif self.result == 'struct bell_dim':
                value = '(struct bell_dim){INT64_MIN}'
            elif self.result != 'void':
                value = f'({self.result})0'
        return lines, value

    def shell(self):
        """Two functions: the way in of the thread that was there last, and any
        other way."""
        params = ', '.join(param.text for param in self.params)
        args = ', '.join(param.name for param in self.params)
        short = self.name.replace('bell_', '', 1)
        has_value = self.result != 'void'
        kind = self.result if self.result.endswith('*') else self.result + ' '
        body = f'{"result = " * has_value}{self.name}({args});'
        after = ['return result;'] * has_value
        declared = [f'{kind}result;'] * has_value
        first = [self.places[0] if self.places else 'NULL'] + \
            [f'at ? at : {place}' for place in self.places[1:]]
        lines, value = self.refusal()
        refused = lines + [f'return {value};' if has_value else 'return;']
        check = ' && '.join(self.checks)
        slow = [
            'struct try_lock_owner *owner = NULL;', *declared,
            'const char *was;', '',
            f'if (!entry_take("{self.name}", at, &owner)) {{',
            *[INDENT + line for line in refused], '}',
            f'was = entry_name("{self.name}", at, owner);', body,
            'entry_name_back(at, was);', 'entry_leave(at, owner);', *after]
        fast = [
            'struct bell_context *at = NULL;',
            'struct try_lock_owner *owner;', *declared, '']
        if check:
            fast += [f'if (!({check})) {{',
                     *[INDENT + line for line in refused], '}']
        fast += [f'at = {place};' for place in first if place != 'NULL']
        fast += [f'owner = entry_enter("{self.name}", at);',
                 'if (__builtin_expect(!owner, 0)) {',
                 f'{INDENT}{"return " * has_value}slow_{short}({args}, at);',
                 *[INDENT + 'return;'] * (not has_value), '}', body,
                 'entry_leave(at, owner);' if self.name in ENDS
                 else 'try_lock_leave_own(owner);', *after]

        def function(before, name, more, lines):
            return [f'{before}{self.result}', f'{name}({params}{more})', '{',
                    *[(INDENT + line).rstrip() for line in lines], '}', '']

        return '\n'.join(
            function('static __attribute__((noinline, cold)) ', 'slow_' + short,
                     ', struct bell_context *at', slow) +
            [f'{kind}shell_{short}({params}) __asm__("{self.name}");', ''] +
            function('BELL_API ', 'shell_' + short, '', fast))


def functions(path):
    with open(path, encoding='utf-8') as file:
        text = COMMENT.sub('', file.read())
    for match in FUNCTION.finditer(text):
        yield Function(' '.join(match[1].replace('BELL_MUST_CHECK', '').split()),
                       match[2], ' '.join(match[3].split()))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('headers', nargs='+')
    parser.add_argument('-o', '--output')
    parser.add_argument('--names')
    parser.add_argument('--rows')
    args = parser.parse_args()
    if args.output:
        args.headers = args.headers[:1]
    wrapped = [f for path in args.headers for f in functions(path)
               if f.is_wrapped()]
    if args.output:
        header = 'doorbell/' + os.path.basename(args.headers[0])
        text = f'#include "{header}"\n\n#include "tensor/core/entry.h"\n\n' + \
            '\n'.join(f.shell() for f in wrapped)
    elif args.names:
        text = ''.join(
            f'#pragma redefine_extname {f.name} '
            f'{f.name.replace("bell_", "tensor_do_", 1)}\n' for f in wrapped)
    else:
        text = ''.join(f'{f.name} {"context" if f.places else "file"}\n'
                       for f in wrapped)
    with open(args.output or args.names or args.rows, 'w',
              encoding='utf-8') as file:
        file.write(text)


main()
