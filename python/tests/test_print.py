"""Printing: values as NumPy prints them, computed only where `print` asks."""
import unittest

import doorbell as bell

try:
    import numpy as np
except ImportError:
    np = None


class Lazy(unittest.TestCase):
    def test_not_computed(self):
        x = bell.ones(2, 3) + bell.tensor([1., 2., 3.])
        self.assertEqual(repr(x),
                         'tensor(shape=(2, 3), dtype=float32, not computed)')
        self.assertFalse(x.is_realized)
        x.realize()
        self.assertEqual(repr(x), 'tensor([[2., 3., 4.],\n        [2., 3., 4.]])')

    def test_print(self):
        x = bell.ones(2).requires_grad_()
        loss = (x * x).sum()
        self.assertEqual(f'{loss}', 'tensor(2.)')
        self.assertEqual(str(x), 'tensor([1., 1.], requires_grad=True)')
        self.assertIn('not computed', repr(loss))
        loss.backward()
        self.assertEqual(x.grad.tolist(), [2., 2.])

    def test_ends(self):
        self.assertEqual(repr(bell.tensor([1, 2])), 'tensor([1, 2])')
        self.assertEqual(repr(bell.tensor([1, 2], dtype='int8')),
                         'tensor([1, 2], dtype=int8)')
        self.assertEqual(repr(bell.tensor([1.]).requires_grad_()),
                         'tensor([1.], requires_grad=True)')
        self.assertEqual(repr(bell.tensor([])), 'tensor([])')
        self.assertEqual(repr(bell.tensor([[]])), 'tensor([], shape=(1, 0))')
        self.assertEqual(repr(bell.tensor(1.5)), 'tensor(1.5)')
        self.assertEqual(repr(bell.float32), 'doorbell.float32')
        self.assertEqual(f'{bell.tensor([True])}', 'tensor([ True])')


@unittest.skipUnless(np, 'NumPy is not installed (python3-numpy)')
class AsNumPy(unittest.TestCase):
    def random(self, rng, kind, shape):
        if kind == 0:
            return rng.standard_normal(shape).astype('float32')
        if kind == 1:
            return rng.standard_normal(shape) * 10.0**rng.integers(-6, 9, shape)
        if kind == 2:
            return rng.integers(-1000, 1000, shape)
        if kind == 3:
            return rng.integers(0, 2, shape).astype(bool)
        if kind == 4:
            return (rng.integers(-50, 50, shape) / 8).astype('float32')
        a = np.asarray(rng.standard_normal(shape).astype('float16'))
        if a.ndim:
            a.flat[0] = [np.nan, np.inf, -np.inf, 0.0, -0.0][rng.integers(0, 5)]
        return a

    def test_random(self):
        rng = np.random.default_rng(5)
        for k in range(600):
            shape = tuple(rng.integers(1, 6, rng.integers(0, 4)))
            if k % 50 == 7:
                shape = tuple(rng.integers(1, 80, 2))
            a = np.asarray(self.random(rng, k % 6, shape))
            got = repr(bell.tensor(a))
            want = np.array2string(a, separator=', ', prefix='tensor(',
                                   threshold=1000)
            self.assertTrue(got.startswith('tensor(' + want),
                            f'{got}\n{want}')


@unittest.skipUnless(np, 'NumPy is not installed (python3-numpy)')
class WithNumPy(unittest.TestCase):
    def test_to_and_from(self):
        a = np.arange(6, dtype='float32').reshape(2, 3)
        x = bell.tensor(a)
        a[0, 0] = 7
        self.assertEqual(x.tolist(), [[0, 1, 2], [3, 4, 5]])
        self.assertEqual(bell.tensor(a.T[::-1]).tolist(), a.T[::-1].tolist())
        for dtype in ('bool', 'int8', 'uint16', 'int64', 'uint64', 'float16',
                      'float64'):
            b = np.array(bell.tensor(a.astype(dtype)))
            self.assertEqual((b.dtype.name, b.tolist()),
                             (dtype, a.astype(dtype).tolist()))
        np.array(x)[0] = 1  # a copy of its own
        self.assertEqual(np.asarray(x, dtype='float64').dtype.name, 'float64')
        with self.assertRaises((TypeError, ValueError)):
            np.asarray(x.bfloat16())

    def test_dlpack(self):
        x = bell.tensor([[1., 2.], [3., 4.]])
        if not hasattr(np, 'from_dlpack'):
            self.skipTest('NumPy before 1.22')
        a = np.from_dlpack(x)
        self.assertEqual((a.tolist(), a.dtype.name), (x.tolist(), 'float32'))
        b = np.arange(6, dtype='int16').reshape(2, 3).T
        y = bell.from_dlpack(b)
        b[0, 0] = 9
        self.assertEqual((y.tolist(), y.dtype), ([[0, 3], [1, 4], [2, 5]],
                                                 bell.int16))

    def test_mixed(self):
        a, x = np.ones((2, 3), 'float32'), bell.ones(3)
        for y in (a + x, x + a, x * np.float32(2), np.float32(2) * x,
                  x + np.int64(1), np.float64(1) + x):
            self.assertIsInstance(y, bell.Tensor)
        self.assertEqual((a @ x).tolist(), [3, 3])
        self.assertEqual(x[np.array([0, 2])].shape, (2,))
        self.assertEqual(x[np.int64(1)].item(), 1)
        self.assertEqual(x[np.array([True, False, True])].shape, (2,))
        self.assertEqual(bell.maximum(x, a).shape, (2, 3))
        self.assertEqual(bell.zeros(np.int64(2)).shape, (2,))
        self.assertIs(bell.zeros(2, dtype=np.dtype('int32')).dtype, bell.int32)
        self.assertIs(bell.zeros(2, dtype=np.int32).dtype, bell.int32)
        self.assertEqual(bell.tensor([np.float32(1), 2]).dtype, bell.float32)
        with self.assertRaises(TypeError):
            bell.tensor(np.array([1j]))

    def test_html(self):
        """Notebooks ask for it; it computes nothing and closes what it opens."""
        x = bell.arange(1200).reshape(12, 100)
        self.assertEqual(x._repr_html_(), f'<pre>{x!r}</pre>')
        self.assertFalse(x.is_realized)
        html = x.realize()._repr_html_()
        self.assertIn('<caption>int64 [12, 100] on CPU', html)
        self.assertEqual((html.count('<tr>'), html.count('<td>')), (7, 49))
        self.assertIn('<td>1199</td>', html)
        for tag in ('table', 'tr', 'td', 'caption'):
            self.assertEqual(html.count(f'<{tag}>'), html.count(f'</{tag}>'))
        self.assertIn('<td>1.5</td>', bell.tensor([1.5, -2.])._repr_html_())
        for shape in ((), (0, 3), (1, 1, 1)):
            self.assertIn('<pre>', bell.zeros(shape).realize()._repr_html_())


if __name__ == '__main__':
    unittest.main()
