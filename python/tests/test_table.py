"""Every row of the function table as a function and a method."""
import inspect
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

import doorbell as bell


def table():
    done = subprocess.run([os.environ['DOORBELL'], 'eval', '--list', '--json'],
                          capture_output=True, check=True)
    return json.loads(done.stdout)


class Table(unittest.TestCase):
    rows = table()['functions']

    def test_all_are_there(self):
        dtypes = {d['name'] for d in table()['dtypes']}
        for row in self.rows:
            kinds = [p['kind'] for p in row['params']]
            for name in [row['name'], *row['aliases'].split()]:
                if row['name'] not in dtypes:
                    self.assertTrue(callable(getattr(bell, name)) or
                                    isinstance(getattr(bell, name), bell.DType))
                if kinds[:1] == ['tensor'] and name != 'mT':
                    self.assertTrue(callable(getattr(bell.Tensor, name)), name)

    def test_signatures(self):
        for row in self.rows:
            function = getattr(bell, row['name'])
            if isinstance(function, bell.DType) or row['name'] == 'tensor':
                continue
            want = [p['name'] for p in row['params']]
            got = inspect.signature(function)
            self.assertEqual(list(got.parameters), want, row['name'])
            self.assertIn(row['doc'], function.__doc__)
            if row['params'][0]['kind'] == 'tensor' and row['name'] not in (
                    'mT', 'to', 'where'):
                method = inspect.signature(getattr(bell.Tensor, row['name']))
                self.assertEqual(list(method.parameters)[1:], want[1:])

    def test_direct_rows(self):
        """direct.def lists rows of the table as the table has them."""
        with open(os.path.join(os.path.dirname(__file__), '..', 'direct.def'),
                  encoding='utf-8') as file:
            listed = re.findall(r'^T[TA]?\((\w+), (\w+)\)$', file.read(), re.M)
        self.assertEqual(bell._c._direct_rows(), [name for name, _ in listed])
        functions = {row['name']: row['c']['function'] for row in self.rows
                     if row['c']}
        self.assertEqual(dict(listed), {name: functions[name]
                                        for name, _ in listed})

    def test_direct_and_by_name_agree(self):
        x = bell.tensor([[1.0, 0.5], [0.25, 1.0]])
        y = bell.tensor([[0.5, 2.0], [1.0, 0.75]])
        ints = bell.tensor([[3, 1], [2, 5]])
        n = 0
        for row in self.rows:
            c, name = row['c'], row['name']
            names = [p['name'] for p in row['params']]
            if not c or c['params'] != list(range(len(c['params']))) or \
                    not hasattr(bell, name) or name in ('to', 'bitcast'):
                continue
            function = getattr(bell, name)
            if isinstance(function, bell.DType):
                continue
            given = {'t': [x], 'tt': [x, y], 'ta': [x, 1]}.get(c['args'])
            if not given or 'rand' in name:
                continue
            for a in (given, [ints] + [ints if g is y else g for g in given[1:]]):
                named = dict(zip(names[1:], a[1:])) or None
                try:
                    plain = function(*a)
                except bell.Error as error:
                    with self.assertRaises(type(error)):
                        function(**dict(zip(names, a)))
                    continue
                other = function(**dict(zip(names, a)))
                self.assertEqual(plain.dtype, other.dtype, name)
                self.assertEqual(repr(plain.tolist()), repr(other.tolist()), name)
                if hasattr(bell.Tensor, name) and callable(
                        getattr(bell.Tensor, name)):
                    method = getattr(a[0], name)
                    again = method(*a[1:]) if not named else method(**named)
                    self.assertEqual(repr(again.tolist()), repr(plain.tolist()))
                n += 1
        self.assertGreater(n, 150)

    def test_stubs(self):
        """doorbell/_c.pyi is what tools/python_stubs.py writes."""
        here = os.path.dirname(os.path.abspath(__file__))
        with tempfile.TemporaryDirectory() as folder:
            made = os.path.join(folder, '_c.pyi')
            subprocess.run([sys.executable, os.path.join(
                here, '..', '..', 'tools', 'python_stubs.py'),
                os.environ['DOORBELL'], made], check=True)
            with open(made, encoding='utf-8') as a, open(os.path.join(
                    here, '..', 'doorbell', '_c.pyi'), encoding='utf-8') as b:
                self.assertEqual(a.read(), b.read())

    def test_arguments(self):
        x = bell.tensor([[3., 1.], [2., 4.]])
        self.assertEqual(x.sum(axis=1, keepdims=True).tolist(), [[4], [6]])
        self.assertEqual(x.sum((0, 1)).item(), 10)
        self.assertEqual(x.reshape(4).tolist(), x.reshape([4]).tolist())
        self.assertEqual(x.reshape((1, -1)).shape, (1, 4))
        self.assertIs(x.sum(dtype='float64').dtype, bell.float64)
        self.assertIs(x.to('int32').dtype, bell.int32)
        self.assertIs(x.to(dtype=bell.int8).dtype, bell.int8)
        self.assertIs(bell.to(x, 'float16').dtype, bell.float16)
        self.assertIs(x.long().dtype, bell.int64)
        self.assertEqual(bell.cat([x, x], dim=1).shape, (2, 4))
        self.assertEqual([p.shape for p in x.split(1)], [(1, 2), (1, 2)])
        self.assertEqual(bell.where(x > 2, x, 0.0).tolist(), [[3, 0], [0, 4]])
        self.assertEqual(x.where(x > 2, -1).tolist(), [[3, -1], [-1, 4]])
        self.assertEqual(bell.einsum('ij->j', x).tolist(), [5, 5])
        self.assertEqual(x.rearrange('a b -> (b a)').tolist(), [3, 2, 1, 4])
        self.assertEqual(bell.clamp(x, max=3).tolist(), [[3, 1], [2, 3]])
        self.assertEqual(bell.stack((x, x)).shape, (2, 2, 2))
        self.assertEqual(bell.meshgrid(x[0], x[1], indexing='xy')[0].shape,
                         (2, 2))
        n = 200
        self.assertEqual(bell.cat([x] * n).shape, (2 * n, 2))

    def test_results(self):
        x = bell.tensor([[3., 1.], [2., 4.]])
        best = x.max(1)
        self.assertEqual((best.values.tolist(), best.indices.tolist()),
                         ([3, 4], [0, 1]))
        values, places = x.sort(dim=1)
        self.assertEqual(values.tolist(), [[1, 3], [2, 4]])
        self.assertEqual(places.tolist(), [[1, 0], [0, 1]])
        self.assertEqual(x.max().item(), 4)
        self.assertEqual(x.topk(1).values.shape, (2, 1))
        u, s, vh = bell.svd(x)
        self.assertLess(abs((u * s @ vh - x)).max().item(), 1e-5)
        self.assertIsInstance(bell.split(x, 2), tuple)
        self.assertEqual(bell.nonzero(x > 2).tolist(), [[0, 0], [1, 1]])

    def test_refusals(self):
        x = bell.tensor([1., 2.])
        for error, call in (
                (TypeError, lambda: x.softmax(dimension=0)),
                (ValueError, lambda: x.softmax(0, 1, 2, 3)),
                (IndexError, lambda: x.softmax(3)),
                (ValueError, lambda: x.softmax('a')),
                (TypeError, lambda: x.softmax(object())),
                (TypeError, lambda: x.to('float33')),
                (TypeError, lambda: bell.zeros(2, dtype='float33')),
                (ValueError, lambda: x.reshape(3)),
                (ValueError, lambda: bell.relu()),
                (ValueError, lambda: bell.cat([])),
                (TypeError, lambda: bell.relu(*[x] * 70))):
            with self.assertRaises(error):
                call()
        self.assertEqual(x.tolist(), [1, 2])


if __name__ == '__main__':
    unittest.main()
