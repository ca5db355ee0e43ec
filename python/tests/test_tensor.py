"""Tensors from Python: made, computed with, subscripted, read. Without NumPy."""
import array
import copy
import math
import operator
import pickle
import unittest

import doorbell as bell


class Making(unittest.TestCase):
    def test_sign_of_nan(self):
        """NaN keep their signs, from Python and back."""
        nan = float('nan')
        for dtype in ('float8_e4m3fn', 'float8_e5m2', 'float16', 'bfloat16',
                      'float32', 'float64'):
            for value in (nan, -nan):
                want = math.copysign(1, value)
                for x in (bell.tensor([value], dtype=dtype),
                          bell.full((2, 1), value, dtype=dtype),
                          bell.full_like(bell.ones(1, dtype=dtype), value)):
                    with self.subTest(dtype=dtype, value=want):
                        self.assertEqual(x.tobytes()[-1] >> 7, want < 0)
                        got = x.reshape(-1)[0].item()
                        self.assertTrue(math.isnan(got))
                        self.assertEqual(math.copysign(1, got), want)

    def test_great_ints(self):
        """Ints beyond int64 are uint64's beside it, floats beside floats, and
        refused beside other integers, as NumPy has it."""
        x, big = bell.tensor([1], dtype='uint64'), 2**63 + 1
        for made, want in ((x + big, big + 1), (big - x, big - 1), (x | big, big),
                           (x ^ big, big - 1), (bell.maximum(x, big), big),
                           (x.clamp(big), big), (bell.where(x > 1, x, big), big),
                           (bell.full((1,), big, dtype='uint64'), big),
                           (bell.full_like(x, big), big),
                           (bell.full((1,), 2**64 - 1, dtype='uint64'), 2**64 - 1)):
            self.assertEqual((made.dtype.name, made.tolist()), ('uint64', [want]))
        self.assertEqual([(x < big).item(), (x == big).item()], [True, False])
        y = x + 0
        y[0] = big
        self.assertEqual(y.tolist(), [big])
        self.assertEqual((bell.tensor([1.]) + 2**70).tolist(), [2.**70])
        for value in (bell.tensor([1]), bell.tensor([True]),
                      bell.tensor([1], dtype='int8')):
            for wrong in (big, -big):
                with self.assertRaises(OverflowError):
                    value + wrong
        for wrong in (2**64, -2**64):
            with self.assertRaises(OverflowError):
                x + wrong
            with self.assertRaises(OverflowError):
                x.maximum(wrong)

    def test_lists(self):
        for data, dtype, shape in (
                ([[1, 2], [3, 4]], 'int64', (2, 2)), (1.5, 'float32', ()),
                ([True, False], 'bool', (2,)), ([1, 2.5], 'float32', (2,)),
                ([], 'float32', (0,)), ([[], []], 'float32', (2, 0)),
                (3, 'int64', ()), (True, 'bool', ()), ((1, 2), 'int64', (2,)),
                ([True, 2], 'int64', (2,)), ([True, 2.5], 'float32', (2,))):
            x = bell.tensor(data)
            self.assertEqual((x.dtype.name, x.shape), (dtype, shape), data)
            want = list(data) if isinstance(data, tuple) else data
            self.assertEqual(x.tolist(), want)

    def test_dtypes(self):
        x = [0, 1, 2, 100]
        for dtype in ('int8', 'uint8', 'int16', 'uint16', 'int32', 'uint32',
                      'int64', 'uint64', 'float16', 'bfloat16', 'float32',
                      'float64', 'float8_e5m2'):
            y = bell.tensor(x, dtype=dtype)
            self.assertIs(y.dtype, getattr(bell, dtype))
            self.assertEqual(y.tolist(), [0, 1, 2, 96] if '8_e' in dtype else x)
        self.assertEqual(bell.tensor([1.9, -1.9], dtype=int).tolist(), [1, -1])
        self.assertIs(bell.tensor([1], dtype=float).dtype, bell.float64)
        self.assertEqual(bell.tensor([2**63], dtype='uint64').tolist(), [2**63])
        self.assertEqual(bell.tensor([0, 0.5], dtype=bool).tolist(),
                         [False, True])

    def test_refused(self):
        for error, data, dtype in (
                (ValueError, [[1, 2], [3]], None), (ValueError, [1, [2]], None),
                (ValueError, [[1], 2], None), (ValueError, [300], 'int8'),
                (ValueError, [-1], 'uint8'), (OverflowError, [2**63], None),
                (OverflowError, [2**64], None), (OverflowError, [-2**64], None),
                (TypeError, ['a'], None), (TypeError, 'a', None),
                (TypeError, None, None), (TypeError, [1], 'float33'),
                (TypeError, [1j], None), (ValueError, [math.nan], 'int32'),
                (ValueError, [math.inf], 'int64')):
            with self.assertRaises(error, msg=repr(data)):
                bell.tensor(data, dtype=dtype)
        deep = 1
        for _ in range(40):
            deep = [deep]
        with self.assertRaises(ValueError):
            bell.tensor(deep)

    def test_buffers(self):
        self.assertEqual(bell.tensor(b'\x01\x02').tolist(), [1, 2])
        x = bell.tensor(array.array('d', [1, 2, 3]))
        self.assertEqual((x.dtype.name, x.tolist()), ('float64', [1, 2, 3]))
        view = memoryview(array.array('i', range(6))).cast('B').cast('i', [2, 3])
        self.assertEqual(bell.tensor(view).tolist(), [[0, 1, 2], [3, 4, 5]])
        self.assertEqual(bell.tensor(memoryview(b'abcd')[::2]).tolist(),
                         [97, 99])

    def test_creation(self):
        self.assertEqual(bell.zeros(2, 3).shape, (2, 3))
        self.assertEqual(bell.zeros((2, 3)).shape, (2, 3))
        self.assertEqual(bell.ones(2, dtype=bell.int32).tolist(), [1, 1])
        self.assertEqual(bell.full((2,), 7).tolist(), [7, 7])
        self.assertEqual(bell.arange(3).tolist(), [0, 1, 2])
        self.assertEqual(bell.arange(1, 2, 0.5).tolist(), [1, 1.5])
        self.assertEqual(bell.eye(2).tolist(), [[1, 0], [0, 1]])
        self.assertEqual(bell.rand(3, dtype='float64').dtype, bell.float64)
        bell.manual_seed(3)
        a = bell.randn(4).tolist()
        bell.manual_seed(3)
        self.assertEqual(bell.randn(4).tolist(), a)


class Operators(unittest.TestCase):
    def test_values(self):
        a, b = [5, -7, 3], [2, 3, -4]
        x, y = bell.tensor(a), bell.tensor(b)
        for op in ('add', 'sub', 'mul', 'floordiv', 'mod', 'truediv', 'and_',
                   'or_', 'xor', 'lt', 'le', 'eq', 'ne', 'gt', 'ge'):
            fn = getattr(operator, op)
            want = [fn(u, v) for u, v in zip(a, b)]
            for got, many in ((fn(x, y), want), (fn(x, 3), [fn(u, 3) for u in a]),
                              (fn(7, y), [fn(7, v) for v in b])):
                for u, v in zip(got.tolist(), many):
                    self.assertAlmostEqual(u, v, 6, op)
        self.assertEqual((x << 1).tolist(), [10, -14, 6])
        self.assertEqual((x ** 2).tolist(), [25, 49, 9])
        self.assertEqual((2 ** bell.tensor([1, 2])).tolist(), [2, 4])
        self.assertEqual((-x).tolist(), [-5, 7, -3])
        self.assertEqual(abs(x).tolist(), [5, 7, 3])
        self.assertEqual((~x).tolist(), [-6, 6, -4])
        self.assertEqual((+x).tolist(), a)
        self.assertEqual([t.tolist() for t in divmod(x, 2)],
                         [[2, -4, 1], [1, 1, 1]])
        self.assertEqual((x @ y).item(), sum(u * v for u, v in zip(a, b)))

    def test_dtypes(self):
        ints, floats = bell.tensor([1, 2]), bell.tensor([1., 2.])
        half = floats.half()
        for got, want in ((ints + 1, 'int64'), (ints + 1.0, 'float32'),
                          (floats + 1, 'float32'), (half + 1.5, 'float16'),
                          (half + floats, 'float32'), (ints / 2, 'float32'),
                          (ints > 1, 'bool'), (ints + True, 'int64')):
            self.assertEqual(got.dtype.name, want)

    def test_foreign(self):
        x = bell.tensor([1, 2])
        self.assertFalse(x is None or x == None)  # noqa: E711
        for op in (operator.add, operator.lt, operator.matmul):
            with self.assertRaises(TypeError):
                op(x, 'a')
            with self.assertRaises(TypeError):
                op(object(), x)
        with self.assertRaises(TypeError):
            pow(x, 2, 3)
        with self.assertRaises(OverflowError):
            x + 10**400  # noqa: B018
        self.assertEqual((x + array.array('q', [1, 1])).tolist(), [2, 3])

    def test_numbers(self):
        x = bell.tensor([2.5])
        self.assertEqual((float(x), int(x), bool(x), x.item()), (2.5, 2, True, 2.5))
        self.assertEqual([10, 20, 30][bell.tensor(1)], 20)
        self.assertEqual(int(bell.tensor(2**62 + 1)), 2**62 + 1)
        self.assertIs(bell.tensor(True).item(), True)
        with self.assertRaises(TypeError):
            [1][x]  # noqa: B018
        for call in (bool, float, int, bell.Tensor.item):
            with self.assertRaises(ValueError):
                call(bell.tensor([1, 2]))


class Sequences(unittest.TestCase):
    def setUp(self):
        self.data = [[[100 * i + 10 * j + k for k in range(4)] for j in range(3)]
                     for i in range(2)]
        self.x = bell.tensor(self.data)

    def test_facts(self):
        x = self.x
        self.assertEqual((x.shape, x.ndim, x.numel(), x.nbytes, x.itemsize,
                          x.size(), x.size(-1), x.dim(), len(x)),
                         ((2, 3, 4), 3, 24, 192, 8, (2, 3, 4), 4, 3, 2))
        self.assertEqual((x.T.shape, x.mT.shape), ((4, 3, 2), (2, 4, 3)))
        self.assertEqual([y.tolist() for y in x], self.data)
        self.assertEqual(list(reversed(x))[0].tolist(), self.data[1])
        for call in (len, iter, list):
            with self.assertRaises(TypeError):
                call(bell.tensor(1))
        with self.assertRaises(IndexError):
            x.size(3)

    def test_subscripts(self):
        x, d = self.x, self.data
        for got, want in (
                (x[0], d[0]), (x[-1, 2], d[1][2]), (x[1, 2, 3], d[1][2][3]),
                (x[:, 0], [p[0] for p in d]), (x[..., 1:3][0, 0], d[0][0][1:3]),
                (x[None].shape, (1, 2, 3, 4)), (x[:, None, 1].shape, (2, 1, 4)),
                (x[0, 0, ::-1], d[0][0][::-1]), (x[0, 0, 5:], []),
                (x[0, 0, -3:-1], d[0][0][-3:-1]), (x[0, 0, 3:0:-2], [3, 1]),
                (x[[1, 0]], [d[1], d[0]]), (x[bell.tensor([1])], [d[1]]),
                (x[0, [0, 2], [1, 3]], [1, 23]), (x[x > 110][0], 111),
                (x[[True, False]], [d[0]]), (x[...], d), (x[()], d),
                (x[[]].shape, (0, 3, 4))):
            self.assertEqual(got.tolist() if isinstance(got, bell.Tensor) else got,
                             want)

    def test_subscripts_refused(self):
        x = self.x
        for error, key in ((IndexError, 2), (IndexError, (0, -4)),
                           (IndexError, (0, 0, 0, 0)), (IndexError, 2**70),
                           (ValueError, tuple([None] * 40)), (TypeError, 'a'),
                           (TypeError, 1.5), (TypeError, object()),
                           (ValueError, slice(None, None, 0))):
            with self.assertRaises(error, msg=repr(key)):
                x[key]  # noqa: B018

    def test_assignment(self):
        x = self.x
        y, before = x + 0, x[0]
        x[0, 0] = 7
        x[1, :, 1:3] = bell.tensor([[1, 2], [3, 4], [5, 6]])
        x[1, 0, [0, 3]] = [8, 9]
        x[x > 110] = -1
        x[0, 1, 0] = 2.9
        want = [[[7] * 4, [2, 11, 12, 13], [20, 21, 22, 23]],
                [[8, 1, 2, 9], [110, 3, 4, -1], [-1, 5, 6, -1]]]
        self.assertEqual(x.tolist(), want)
        self.assertEqual(y.tolist(), self.data)
        self.assertEqual(before.tolist(), self.data[0])
        with self.assertRaises(ValueError):
            x[0] = [1, 2, 3]
        with self.assertRaises(TypeError):
            x[0] = 'a'
        with self.assertRaises(TypeError):
            del x[0]
        self.assertEqual(x.tolist(), want)


class Copies(unittest.TestCase):
    def test_buffer(self):
        x = bell.tensor([[1., 2.], [3., 4.]])
        view = memoryview(x)
        self.assertEqual((view.format, view.shape, view.readonly, view.tolist()),
                         ('f', (2, 2), True, [[1, 2], [3, 4]]))
        x[0] = 9
        self.assertEqual(view.tolist(), [[1, 2], [3, 4]])
        self.assertEqual(bytes(bell.tensor([1, 2], dtype='uint8')), b'\x01\x02')
        self.assertEqual(x.half().tobytes()[-2:], b'\x00\x44')
        with self.assertRaises(BufferError):
            memoryview(x.bfloat16())
        self.assertEqual(memoryview(bell.tensor(3)).tolist(), 3)
        self.assertEqual(memoryview(bell.zeros(0, 2)).shape, (0, 2))

    def test_pickle(self):
        for x in (bell.tensor([[1., 2.]]), bell.tensor([True, False]),
                  bell.tensor(3), bell.tensor([1.5], dtype='bfloat16'),
                  bell.zeros(2, 0), bell.tensor([1.5, 2], dtype='float16'),
                  bell.tensor([[2**63]], dtype='uint64'),
                  bell.ones(3).requires_grad_()):
            for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
                y = pickle.loads(pickle.dumps(x, protocol))
                self.assertEqual((y.dtype, y.shape, y.tolist(), y.requires_grad),
                                 (x.dtype, x.shape, x.tolist(), x.requires_grad))
            buffers = []
            data = pickle.dumps(x, 5, buffer_callback=buffers.append)
            self.assertEqual(len(buffers), 1)
            self.assertEqual(pickle.loads(data, buffers=buffers).tolist(),
                             x.tolist())
        self.assertIs(pickle.loads(pickle.dumps(bell.float32)), bell.float32)

    def test_dlpack(self):
        for dtype in ('float32', 'bfloat16', 'bool', 'uint64', 'float8_e5m2'):
            x = bell.tensor([[1, 0], [1, 1]], dtype=dtype)
            for capsule in (x.__dlpack__(), x.__dlpack__(max_version=(1, 1))):
                y = bell.from_dlpack(capsule)
                self.assertEqual((y.dtype, y.tolist()), (x.dtype, x.tolist()))
                with self.assertRaises(TypeError):
                    bell.from_dlpack(capsule)  # taken
            self.assertEqual(bell.from_dlpack(x).tolist(), x.tolist())
        x.__dlpack__()  # nobody takes it
        self.assertEqual(x.__dlpack_device__(), (1, 0))
        for named in ({'stream': 1}, {'dl_device': (2, 0)}, {'copy': False}):
            with self.assertRaises(BufferError):
                x.__dlpack__(**named)
        for wrong in (3, object()):
            with self.assertRaises(AttributeError):
                bell.from_dlpack(wrong)

    def test_copies(self):
        x = bell.tensor([1., 2.])
        for make in (copy.copy, copy.deepcopy, bell.tensor, bell.Tensor.clone):
            y = make(x)
            y[0] = 5
            self.assertEqual((x.tolist(), y.tolist()), ([1, 2], [5, 2]))
        self.assertTrue(copy.deepcopy(x.requires_grad_()).requires_grad)

    def test_identity(self):
        x, y = bell.tensor([1]), bell.tensor([1])
        self.assertEqual(len({x, y, x}), 2)
        self.assertIs({x: 1}.get(y), None)

    def test_derived(self):
        class Weight(bell.Tensor):
            pass
        w = Weight([1., 2.])
        w.note = 'mine'
        self.assertIsInstance(w, bell.Tensor)
        self.assertEqual(((w + 1).tolist(), (1 - w).tolist(), w[0].item(),
                          bell.relu(w).tolist()), ([2, 3], [0, -1], 1, [1, 2]))
        self.assertIs(type(w + w), bell.Tensor)


if __name__ == '__main__':
    unittest.main()
