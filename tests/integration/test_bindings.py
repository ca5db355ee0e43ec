#!/usr/bin/env python3
"""A binding made from `doorbell eval --list --json` alone: every function of
the table with arguments by position and name, and the C functions behind
them.

usage: test_bindings.py DOORBELL LIBRARY
"""
import ctypes as ct
import json
import sys

from cli import Tap, expect, run


class Value(ct.Structure):
    pass


class ValueUnion(ct.Union):
    _fields_ = [('b', ct.c_bool), ('i', ct.c_int64), ('f', ct.c_double),
                ('dtype', ct.c_int), ('str', ct.c_char_p),
                ('tensor', ct.c_void_p), ('items', ct.POINTER(Value))]


Value._fields_ = [('kind', ct.c_int), ('n_items', ct.c_uint32),
                  ('u', ValueUnion)]


class Arg(ct.Structure):
    _fields_ = [('name', ct.c_char_p), ('value', Value)]


class Tensor:
    def __init__(self, pointer):
        self.pointer = pointer


class DType(int):
    pass


class Binding:
    """The table as methods: binding.softmax(x, axis=-1)."""

    # C types by letter; lists are a pointer and a count
    LETTERS = {'c': ct.c_void_p, 't': ct.c_void_p, 'i': ct.c_int64,
               'n': ct.c_uint32, 'a': ct.c_int, 'f': ct.c_double,
               'b': ct.c_bool, 'y': ct.c_int, 'r': ct.c_int,
               'e': ct.c_char_p}

    def __init__(self, table, library):
        self.lib = ct.CDLL(library)
        self.functions = {f['name']: f for f in table['functions']}
        self.dtypes = {d['name']: d['value'] for d in table['dtypes']}
        self.kinds = {name.split()[-1]: i
                      for i, name in enumerate(table['value_kinds'])}

        class Call(ct.Structure):
            _fields_ = [('function', ct.c_void_p), ('args', ct.POINTER(Arg)),
                        ('n_args', ct.c_uint32),
                        ('results', ct.c_void_p * table['max_results']),
                        ('n_results', ct.c_uint32), ('bad_arg', ct.c_int32)]
        self.call_type = Call
        self.lib.bell_function_find.restype = ct.c_void_p
        self.ctx = ct.c_void_p()
        if self.lib.bell_context_create(b'CPU', ct.byref(self.ctx)):
            raise RuntimeError('no context')

    def value(self, given, keep):
        v = Value()
        if isinstance(given, bool):
            v.kind, v.u.b = self.kinds['bool'], given
        elif isinstance(given, DType):
            v.kind, v.u.dtype = self.kinds['dtype'], given
        elif isinstance(given, int):
            v.kind, v.u.i = self.kinds['int'], given
        elif isinstance(given, float):
            v.kind, v.u.f = self.kinds['float'], given
        elif isinstance(given, str):
            v.kind, v.u.str = self.kinds['string'], given.encode()
            keep.append(v.u.str)
        elif isinstance(given, Tensor):
            v.kind, v.u.tensor = self.kinds['tensor'], given.pointer
        elif isinstance(given, (list, tuple)):
            items = (Value * (len(given) + 1))(
                *[self.value(item, keep) for item in given])
            keep.append(items)
            v.kind, v.n_items, v.u.items = self.kinds['list'], len(given), items
        return v

    def __getattr__(self, name):
        if name not in self.functions:
            raise AttributeError(name)
        row = self.functions[name]

        def function(*args, **named):
            keep = []
            given = [(None, a) for a in args] + \
                [(k.encode(), a) for k, a in named.items()]
            array = (Arg * (len(given) + 1))(
                *[Arg(k, self.value(a, keep)) for k, a in given])
            call = self.call_type(
                function=self.lib.bell_function_find(name.encode()),
                args=array, n_args=len(given))
            if self.lib.bell_function_call(self.ctx, ct.byref(call)):
                raise ValueError(f'{name}: argument {call.bad_arg}')
            results = [Tensor(call.results[i]) for i in range(call.n_results)]
            return results if row['returns_list'] or len(results) > 1 \
                else results[0]
        return function

    def directly(self, name, *args):
        """The C function, arguments in the order of the table's parameters."""
        c = self.functions[name]['c']
        types, values = [], []
        numbers = iter(c['params'])
        for letter in c['args']:
            if letter == 'c':
                types.append(ct.c_void_p)
                values.append(self.ctx)
                continue
            given = args[next(numbers)]
            if letter in 'sl':
                item = ct.c_void_p if letter == 's' else ct.c_int64
                array = (item * (len(given) + 1))(
                    *[g.pointer if letter == 's' else g for g in given])
                types += [ct.POINTER(item), ct.c_uint32]
                values += [array, len(given)]
            else:
                types.append(self.LETTERS[letter])
                values.append(given.pointer if isinstance(given, Tensor)
                              else given)
        function = getattr(self.lib, c['function'])
        function.argtypes, function.restype = types, ct.c_void_p
        return Tensor(function(*values))

    def numbers(self, tensor):
        self.lib.bell_numel.restype = ct.c_uint64
        n = self.lib.bell_numel(ct.c_void_p(tensor.pointer))
        out = (ct.c_double * (n + 1))()
        if self.lib.bell_read_f64(ct.c_void_p(tensor.pointer), out,
                                  ct.c_size_t(n)):
            raise RuntimeError('bell_read_f64')
        return [round(v, 6) for v in out[:n]]


def main():
    tap = Tap()
    done = run('eval', '--list', '--json')
    tap.check('the table as JSON', expect(done, 0))
    table = json.loads(done.stdout)
    kinds = {'tensor', 'tensors', 'tensors*', 'int', 'float', 'number', 'bool',
             'str', 'ints', 'ints*', 'ints/str', 'floats', 'dtype', 'data'}
    bad = []
    for f in table['functions']:
        names = [p['name'] for p in f['params']]
        shown = [p.split('=')[0].lstrip('*') for p in
                 f['signature'].split('(', 1)[1][:-1].split(', ') if p]
        if names != shown or not {p['kind'] for p in f['params']} <= kinds:
            bad.append(f'{f["signature"]}: {f["params"]}')
        if f['c'] and (
                len(f['c']['args'].lstrip('c')) != len(f['c']['params']) or
                not all(0 <= i < len(names) for i in f['c']['params'])):
            bad.append(f'{f["name"]}: {f["c"]}')
    if len(table['functions']) < 180 or \
            sum(bool(f['c']) for f in table['functions']) < 120:
        bad.append('few functions')
    tap.check('every row has what a binding needs', bad)

    b = Binding(table, sys.argv[2])
    missing = [f['name'] for f in table['functions']
               if f['c'] and not hasattr(b.lib, f['c']['function'])]
    tap.check('the library exports every C function', missing)
    x = b.tensor([[1.0, 2.0, 4.0], [3.0, 5.0, 9.0]])
    want = {
        'sum': (b.sum(x, 1, dtype=DType(b.dtypes['float64'])), [7, 17]),
        'var': (b.var(x, axis=1, keepdim=True), [2.333333, 9.333333]),
        'cat': (b.cat([x, x], dim=1), [1, 2, 4, 1, 2, 4, 3, 5, 9, 3, 5, 9]),
        'reshape': (b.reshape(x, 3, 2), [1, 2, 4, 3, 5, 9]),
        'gelu': (b.gelu(b.tensor([0.0, 1.0]), approximate='tanh'),
                 [0, 0.841192]),
        'split': (b.split(x, [1, 2], 1)[1], [2, 4, 5, 9]),
    }
    tap.check('calls by name', [
        f'{name}: {b.numbers(got)}, not {numbers}'
        for name, (got, numbers) in want.items() if b.numbers(got) != numbers])
    want = {
        'var': (b.directly('var', x, [1], 0.0, True), [1.555556, 6.222222]),
        'zeros': (b.directly('zeros', [2], b.dtypes['int32']), [0, 0]),
        'cat': (b.directly('cat', [x, x], 0), [1, 2, 4, 3, 5, 9] * 2),
        'tril': (b.directly('tril', x, 0), [1, 0, 0, 3, 5, 0]),
        'mse_loss': (b.directly('mse_loss', x, b.mul(x, 2.0), 1), [136]),
    }
    tap.check('calls of the C functions', [
        f'{name}: {b.numbers(got)}, not {numbers}'
        for name, (got, numbers) in want.items() if b.numbers(got) != numbers])
    try:
        b.softmax(x, 'one')
        complaints = ['softmax took a string for an axis']
    except ValueError as error:
        complaints = [] if str(error) == 'softmax: argument 1' else [str(error)]
    tap.check('a refusal names the argument', complaints)
    tap.finish()


if __name__ == '__main__':
    main()
