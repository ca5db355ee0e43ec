"""Functions with gradients of the caller's own, and kernels."""
import gc
import shutil
import unittest

import doorbell as bell

SCAN = '''#include <stdint.h>
void scan(const uint64_t *args, const uint32_t *grid, uint64_t first, uint64_t last)
{
    uint64_t n = args[3];
    for (uint64_t row = first; row < last; row++) {
        float *h = (float *)args[0] + row * n, now = 0;
        const float *a = (const float *)args[1] + row * n;
        const float *x = (const float *)args[2] + row * n;
        for (uint64_t t = 0; t < n; t++)
            h[t] = now = a[t] * now + x[t];
    }
}'''
PTX = '''.version 7.0
.target sm_80
.address_size 64
.visible .entry twice(.param .u64 py, .param .u64 px)
{
    .reg .b32 %r<1>; .reg .f32 %f<1>; .reg .b64 %d<3>;
    ld.param.u64 %d0, [py]; ld.param.u64 %d1, [px];
    mov.u32 %r0, %tid.x; mul.wide.u32 %d2, %r0, 4;
    add.s64 %d0, %d0, %d2; add.s64 %d1, %d1, %d2;
    ld.global.f32 %f0, [%d1]; add.rn.f32 %f0, %f0, %f0;
    st.global.f32 [%d0], %f0; ret;
}
'''


def fail(*unused):
    raise KeyError('mine')


class Functions(unittest.TestCase):
    def setUp(self):
        self.x = bell.tensor([1., 2.]).requires_grad_()

    def test_gradient(self):
        three = bell.custom(lambda x: x * x, lambda grad, out, x: grad * 3 * out)
        three(self.x).sum().backward()
        self.assertEqual(self.x.grad.tolist(), [3, 12])
        cube = bell.custom(lambda x: x * x * x, lambda grad, out, x: grad * 3 * x * x)
        first, = bell.grad(cube(self.x).sum(), self.x)
        second, = bell.grad(first.sum(), self.x)
        self.assertEqual(second.tolist(), [6, 12])

    def test_several(self):
        saved = []

        def forward(a, b):
            saved.append(a.exp())
            return a * b, a > b

        def backward(grads, outs, a, b):
            self.assertIsNone(grads[1])
            self.assertEqual(outs[0].shape, (2,))
            return grads[0] * saved[0], None
        f = bell.custom(forward, backward, results=2, name='f')
        product, more = f(self.x, self.x * 2)
        self.assertEqual(more.tolist(), [False, False])
        product.sum().backward()
        self.assertEqual(self.x.grad.tolist(), saved[0].tolist())
        self.assertEqual(repr(f), '<doorbell.custom f>')

    def test_jit(self):
        calls = []

        def backward(grad, out, x):
            calls.append(1)
            return grad * 5
        f = bell.custom(lambda x: x.round(), backward)

        @bell.jit
        def step(x):
            return bell.grad(f(x).sum(), x)[0]
        for _ in range(3):
            self.assertEqual(step(self.x.detach()).tolist(), [5, 5])
        self.assertEqual(len(calls), 2)  # it counts its results, then captures

    def test_jit_inside(self):
        half = bell.jit(lambda x: x / 2)
        f = bell.custom(lambda x: half(x.round()), lambda grad, out, x: grad)
        for _ in range(3):
            x = bell.tensor([2.2, 4.4])
            self.assertEqual(f(x).tolist(), [1, 2])

    def test_errors(self):
        x = self.x
        with self.assertRaisesRegex(KeyError, 'mine'):
            bell.custom(fail, fail)(x)
        with self.assertRaisesRegex(TypeError, 'forward: a tensor is expected'):
            bell.custom(lambda x: 3, fail)(x)
        with self.assertRaisesRegex(ValueError, 'expected 2 tensors, got 1'):
            bell.custom(lambda x: (x,), fail, results=2)(x)
        with self.assertRaisesRegex(TypeError, 'a tensor is expected'):
            bell.custom(fail, fail)()
        with self.assertRaises(TypeError):
            bell.custom(fail, fail)(1)
        with self.assertRaises(ValueError):
            bell.custom(fail, fail, results=0)
        with bell.Context('CPU'):
            other = bell.ones(2)
            with self.assertRaises(bell.errors.ContextError):
                bell.custom(lambda x: other, fail)(x)
        for backward, error in ((fail, KeyError), (lambda *unused: 1, TypeError),
                                (lambda *unused: (x, x), ValueError)):
            loss = bell.custom(lambda x: x * 2, backward)(x).sum()
            with self.assertRaises(error):
                loss.backward()
            with self.assertRaises(error):
                bell.grad(loss, x)
        self.assertEqual((x + x).tolist(), [2, 4])  # the context is as before

    def test_lives(self):
        """What is dropped ends with the graph, and Python's objects with it."""
        class Big:
            pass
        alive = [0]

        def make():
            big = Big()
            alive[0] += 1
            import weakref
            weakref.finalize(big, lambda: alive.__setitem__(0, alive[0] - 1))
            return bell.custom(lambda x: x * 2, lambda g, o, x, big=big: g)
        context = bell.current_context()
        before = context.info()['tensors']
        for _ in range(3000):
            make()(self.x)
        gc.collect()
        (self.x + 1).tolist()
        self.assertLessEqual(context.info()['tensors'], before)
        self.assertLess(alive[0], 3000)
        with bell.Context('CPU') as other:
            make()(bell.ones(2))
        other.close()
        gc.collect()


class Kernels(unittest.TestCase):
    @unittest.skipUnless(shutil.which('cc'), 'no C compiler')
    def test_c(self):
        scan = bell.kernel('scan', [('NV', 'ptx', ''),
                                    bell.KernelCode('CPU', 'c', SCAN, (2,))])
        with bell.device('CPU'):
            a = bell.tensor([[0.5] * 3] * 2)
            x = bell.tensor([[1., 1, 1], [2, 4, 8]])
        h = scan(a, x, results=(x.shape, 'float32'), values=[3])
        self.assertEqual(h.tolist(), [[1, 1.5, 1.75], [2, 5, 10.5]])
        h, = scan(a, x, results=[(x.shape, bell._c.float32)], values=[3])
        self.assertEqual(h[1].tolist(), [2, 5, 10.5])

        def backward(grad, h, a, x):
            later = bell.cat([a[:, 1:], bell.zeros(2, 1)], 1)
            dx = scan(later.flip(1), grad.flip(1), results=(x.shape, 'float32'),
                      values=[3]).flip(1)
            return dx * bell.cat([bell.zeros(2, 1), h[:, :-1]], 1), dx
        f = bell.custom(lambda a, x: scan(a, x, results=(x.shape, 'float32'),
                                          values=[3]), backward)
        with bell.device('CPU'):
            da, dx = bell.grad(f(a, x).sum(), [a, x])
            da, dx = da.tolist(), dx.tolist()
        self.assertEqual(dx, [[1.75, 1.5, 1]] * 2)
        self.assertEqual(da, [[0, 1.5, 1.5], [0, 3, 5]])

    def test_ptx(self):
        try:
            context = bell.Context('NV@sim:sm_80')
        except bell.Error as error:
            self.skipTest(str(error))
        twice = bell.kernel('twice', bell.KernelCode('NV', 'ptx', PTX, 1, (4,)))
        with context:
            x = bell.tensor([1., 2., 3., 4.])
            y = twice(x, results=(4, 'float32'))
            self.assertEqual(y.tolist(), [2, 4, 6, 8])
        context.close()

    def test_errors(self):
        k = bell.kernel('k', bell.KernelCode('CPU', 'c', 'void k(void) {}'))
        with bell.device('CPU'):
            x = bell.ones(2)
            with self.assertRaises(bell.errors.MissingError):
                k(x, results=[])
            with self.assertRaises(bell.errors.ShapeError):
                k(x, results=((0,), 'float32'))
            with self.assertRaises(TypeError):
                k(1, results=((1,), 'float32'))
            with self.assertRaises(ValueError):
                k(x, results=((1,), 'float32'), values=range(100))
            with self.assertRaises(bell.errors.DtypeError):
                k(x, results=((1,), 'float31'))
            with self.assertRaises(bell.errors.NameError):
                bell.kernel('k', ('CPU', 'cc', ''))(results=((1,), 'int8'))
            with self.assertRaises(bell.Error):
                bell.kernel('k', ('NV', 'ptx', ''))(
                    x, results=((1,), 'int8')).realize()


if __name__ == '__main__':
    unittest.main()
