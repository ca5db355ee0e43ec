"""Sizes that change from run to run: symbols, and functions captured for all
their values."""
import os
import subprocess
import tempfile
import typing
import unittest

import doorbell as bell


class Sizes(unittest.TestCase):
    def setUp(self):
        self.context = bell.Context('CPU')
        self.context.__enter__()
        self.n = bell.symbol('n', 1, 8)

    def tearDown(self):
        self.context.__exit__(None, None, None)

    def test_arithmetic(self):
        n = self.n
        self.assertEqual([repr(s) for s in (n, n + 1, 2 * n, n - 1 + n)],
                         ['n', 'n + 1', '2*n', '2*n - 1'])
        self.assertEqual((n * 3).bounds, (3, 24))
        self.assertEqual([(9 - n).bounds, (n // 2).bounds, (n % 3).bounds],
                         [(1, 8), (0, 4), (0, 2)])
        self.assertEqual((n - n, n + 2 - n), (0, 2))
        self.assertIs(type(n - n), int)
        n.set(5)
        self.assertEqual([int(s) for s in (n, n.min(3), n.max(3), 2 * n % 4)],
                         [5, 3, 5, 2])
        self.assertTrue(n.is_symbol)
        self.assertFalse((n + 1).is_symbol)

    def test_order(self):
        n = self.n
        self.assertTrue(n == n + 0 and n <= 8 and n < 9 and n >= 1 and n > 0)
        self.assertFalse(n == n + 1 or n == 3 or n > 8 or n < 1 or n == 'n')
        self.assertTrue(n != 3)
        self.assertEqual(len({n, n + 1, n + 1}), 2)
        with self.assertRaisesRegex(ValueError, 'depends on the values'):
            n < 3
        with self.assertRaises(TypeError):
            range(n)
        with self.assertRaises(TypeError):
            n * 1.5

    def test_tensors(self):
        n, base = self.n, bell.arange(8)
        x = base[:n]
        self.assertEqual(((x + 1).shape, x.size(0), x.reshape(1, n).shape),
                         ((n,), n, (1, n)))
        y = bell.ones((n, 2)) * n + n.range().reshape(n, 1)
        n.set(3)
        self.assertEqual((x + 0).tolist(), [0, 1, 2])
        self.assertEqual(y.tolist(), [[3, 3], [4, 4], [5, 5]])
        self.assertEqual(bytes(memoryview(base[:n]).cast('B'))[::8], b'\0\1\2')
        self.assertEqual(base[n - 1].item(), 2)
        self.assertEqual(base.narrow(0, n - 1, 1).item(), 2)
        n.set(8)
        self.assertEqual(base[:n].sum().item(), 28)

    def test_refused(self):
        n, base = self.n, bell.arange(8)
        for call in (lambda: base[:n + 1], lambda: base[n:], lambda: n // 0,
                     lambda: n.set(9), lambda: n.set(0), lambda: (n + 1).set(2),
                     lambda: bell.symbol('m', 2, 1), lambda: n * 2 ** 39 * 2,
                     lambda: base[:n] + bell.ones(n + 1)):
            with self.assertRaises(ValueError):
                call()
        with self.assertRaises(IndexError):
            base[:n][n]
        for call in (lambda: bell.full((2,), n), lambda: bell.arange(n),
                     lambda: n.set('a')):
            with self.assertRaises(TypeError):
                call()
        with self.assertRaises(OverflowError):
            n * 2 ** 50

    def test_contexts(self):
        with bell.Context('CPU') as other:
            m, n = bell.symbol('m', 1, 3), self.n
            self.assertTrue(m != n)
            for call in (lambda: m + n, lambda: bell.arange(9)[:n]):
                with self.assertRaises(ValueError):
                    call()
            self.assertEqual(bell.ones(n).context, self.context)
            other.close()
        self.assertIn('closed', repr(m))
        with self.assertRaises(bell.errors.StateError):
            m + 1


class Jit(unittest.TestCase):
    def setUp(self):
        self.n = bell.symbol('n', 1, 64)

    def test_all_values(self):
        n, m = self.n, bell.symbol('m', 2, 6)
        w = bell.randn(8, 3).realize()

        @bell.jit
        def step(x: (n, 8), w, y: typing.Annotated[bell.Tensor, (m, n)]):
            return (x @ w).softmax(-1), {'y': y @ x}, n.value()

        for rows in (5, 7, 64, 1):
            x = bell.randn(rows, 8).realize()
            y = bell.randn(3, rows).realize()
            soft, named, count = step(x, w, y)
            self.assertEqual((soft.shape, named['y'].shape, count.item()),
                             ((rows, 3), (3, 8), rows))
            self.assertLess((soft - (x @ w).softmax(-1)).abs().max().item(), 1e-5)
            self.assertLess((named['y'] - y @ x).abs().max().item(), 1e-4)
            self.assertEqual(step.info(x, w, y)['captures'], 1)
        self.assertEqual(int(n), 1)  # what it was
        for args in ((bell.ones(65, 8), w, bell.ones(3, 65)),
                     (bell.ones(4, 8), w, bell.ones(3, 5)),
                     (bell.ones(4, 7), w, bell.ones(3, 4)),
                     (bell.ones(4), w, bell.ones(3, 4)),
                     (bell.ones(4, 8), w, bell.ones(7, 4))):
            with self.assertRaises(bell.errors.ShapeError):
                step(*args)

    def test_first_call_refused(self):
        n = self.n

        @bell.jit
        def twice(x: (n, n + 1)):
            return x * 2
        with self.assertRaisesRegex(ValueError, '65'):
            twice(bell.ones(65, 66))
        with self.assertRaisesRegex(bell.errors.ShapeError, r'n \+ 1'):
            twice(bell.ones(4, 4))
        self.assertEqual(twice(bell.ones(4, 5)).sum().item(), 40)
        self.assertEqual(twice(bell.ones(2, 3)).shape, (2, 3))

    def test_methods_and_state(self):
        n = self.n

        class Net(bell.nn.Module):
            def __init__(self):
                self.count = bell.zeros(1)
                self.linear = bell.nn.Linear(4, 2)
                self.step = bell.jit(self.run)

            def run(self, x: (n, 4)):
                self.count.assign(self.count + 1)
                return self.linear(x)
        net = Net()
        for rows in (3, 5, 1):
            self.assertEqual(net.step(bell.ones(rows, 4)).shape, (rows, 2))
        self.assertEqual(net.count.item(), 3)

    def test_saved(self):
        n = self.n
        count = bell.zeros(1)

        @bell.jit
        def double(x: (n,)):
            count.assign(count + 1)
            return x * 2
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, 'double.bundle')
            double.save(path, bell.ones(3), targets=['CPU'])
            self.assertEqual(count.item(), 0)  # saving runs nothing
            told = subprocess.run([os.environ['DOORBELL'], 'run', path, '--list'],
                                  capture_output=True, text=True)
            self.assertIn('n', told.stdout)
        self.assertEqual(double(bell.ones(3)).tolist(), [2, 2, 2])


if __name__ == '__main__':
    unittest.main()
