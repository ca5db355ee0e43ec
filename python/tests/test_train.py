"""Gradients, layers, optimisers, captured functions, files."""
import math
import os
import random
import struct
import subprocess
import sys
import tempfile
import unittest

import doorbell as bell
from doorbell import nn, optim

HERE = os.path.dirname(os.path.abspath(__file__))


class Gradients(unittest.TestCase):
    def test_backward(self):
        w = bell.tensor([1., 2.]).requires_grad_()
        self.assertTrue(w.requires_grad)
        self.assertIsNone(w.grad)
        (w * w).sum().backward()
        (w * 3).sum().backward()
        self.assertEqual(w.grad.tolist(), [5, 7])
        w.grad = None
        self.assertIsNone(w.grad)
        with self.assertRaises(ValueError):
            w.grad = w
        with self.assertRaises(bell.errors.ShapeError):
            (w * w).backward()
        with self.assertRaises(TypeError):
            bell.tensor([1]).requires_grad_()
        w.requires_grad = False
        self.assertFalse(w.requires_grad)

    def test_grad(self):
        x, y = bell.tensor([1., 2.]), bell.tensor([3., 4.])
        a, b = bell.grad((x * y * x).sum(), [x, y])
        self.assertEqual((a.tolist(), b.tolist()), ([6, 16], [1, 4]))
        first = bell.grad((x * x * x).sum(), x)[0]
        self.assertEqual(bell.grad(first.sum(), x)[0].tolist(), [6, 12])
        self.assertEqual(bell.grad(x * x, x, vector=y)[0].tolist(), [6, 16])
        with self.assertRaises(TypeError):
            bell.grad(x.sum(), [1])

    def test_vjp(self):
        x, y = bell.tensor([1., 2.]), bell.tensor([3., 4.])
        value, back = bell.vjp(lambda p: {'a': p['u'] * p['v'], 'b': [p['u']]},
                               {'u': x, 'v': y})
        self.assertEqual(value['a'].tolist(), [3, 8])
        got, = back({'a': x, 'b': [y]})
        self.assertEqual((got['u'].tolist(), got['v'].tolist()),
                         ([6, 12], [1, 4]))
        # Each input is one of its own, and the function's own tensors none.
        _, back = bell.vjp(lambda a, b: a * b * x, x, x)
        self.assertEqual([g.tolist() for g in back(y)], [[3, 16], [3, 16]])
        # Gradients of gradients, also of what vjp was given.
        _, back = bell.vjp(lambda a: a * a * a, x)
        first, = back(bell.ones(2))
        self.assertEqual(bell.grad(first.sum(), x)[0].tolist(), [6, 12])
        with self.assertRaises(TypeError):
            back([x])

    def test_no_grad(self):
        w = bell.tensor([1., 2.]).requires_grad_()
        with bell.no_grad():
            c = w * w

        @bell.no_grad()
        def square(x):
            return x * x
        ((c + square(w)) * w).sum().backward()
        self.assertEqual(w.grad.tolist(), [2, 8])
        self.assertFalse(bell.current_context().no_grad)


class Layers(unittest.TestCase):
    def net(self):
        return nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU(),
                             nn.Flatten(), nn.Linear(8, 3))

    def test_names(self):
        self.assertEqual(list(self.net().state_dict()), [
            '0.weight', '0.bias', '1.weight', '1.bias', '1.running_mean',
            '1.running_var', '4.weight', '4.bias'])

        class Block(nn.Module):
            def __init__(self):
                self.up = nn.Linear(2, 4, bias=False)
                self.layers = nn.ModuleList([nn.LayerNorm(4), nn.RMSNorm(4)])
                self.attn = nn.MultiheadAttention(4, 2)
                self.table = nn.Embedding(5, 4)
                self.scale = nn.Parameter([1.0])

            def forward(self, x):
                return x
        block = Block()
        self.assertEqual([name for name, _ in block.named_parameters()], [
            'scale', 'up.weight', 'layers.0.weight', 'layers.0.bias',
            'layers.1.weight', 'attn.in_proj_weight', 'attn.in_proj_bias',
            'attn.out_proj.weight', 'attn.out_proj.bias', 'table.weight'])
        self.assertIn('(up): Linear(in_features=2', repr(block))
        with self.assertRaises(NotImplementedError):
            nn.Module()(1)

    def test_shapes(self):
        for layer, shape, want in (
                (nn.Conv1d(2, 3, 3, padding=1), (1, 2, 5), (1, 3, 5)),
                (nn.Conv2d(2, 4, 3, stride=2, groups=2), (1, 2, 7, 7),
                 (1, 4, 3, 3)),
                (nn.Conv3d(1, 2, 2), (1, 1, 3, 3, 3), (1, 2, 2, 2, 2)),
                (nn.ConvTranspose2d(2, 3, 2, stride=2), (1, 2, 3, 3),
                 (1, 3, 6, 6)),
                (nn.GroupNorm(2, 4), (1, 4, 3), (1, 4, 3)),
                (nn.MultiheadAttention(8, 2), (2, 3, 8), (2, 3, 8)),
                (nn.MaxPool2d(2), (1, 1, 4, 4), (1, 1, 2, 2)),
                (nn.AvgPool2d(2), (1, 1, 4, 4), (1, 1, 2, 2)),
                (nn.Softmax(), (2, 3), (2, 3)), (nn.GELU(), (2,), (2,))):
            self.assertEqual(layer(bell.ones(shape)).shape, want)
        self.assertEqual(nn.Embedding(5, 4)(bell.tensor([1, 2])).shape, (2, 4))
        x = nn.LayerNorm(4)(bell.tensor([1., 2., 3., 6.]))
        self.assertAlmostEqual(x.sum().item(), 0, 5)

    def test_modes(self):
        net = nn.Sequential(nn.Dropout(0.5), nn.BatchNorm1d(3, momentum=0.5))
        x = bell.tensor([[1., 2., 3.], [3., 2., 7.]])
        y = net[1](x)
        self.assertEqual([round(v, 3) for v in y[0].tolist()], [-1, 0, -1])
        self.assertEqual(net[1].running_mean.tolist(), [1, 1, 2.5])
        self.assertEqual(net[1].running_var.tolist(), [1.5, 0.5, 4.5])
        net.eval()
        self.assertEqual(net[0](x).tolist(), x.tolist())
        self.assertEqual(net[1].running_mean.tolist(), [1, 1, 2.5])
        self.assertTrue(net.train()[0].training)

    def test_state(self):
        a, b = self.net(), self.net()
        x = bell.rand(2, 1, 4, 4)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, 'net.safetensors')
            bell.save(path, a.state_dict())
            file = bell.load(path)
            self.assertEqual(sorted(file), sorted(a.state_dict()))
            b.load_state_dict(file)
        a.eval(), b.eval()
        self.assertEqual(a(x).tolist(), b(x).tolist())
        with self.assertRaises(KeyError):
            b.load_state_dict({'0.weight': x})
        with self.assertRaises(ValueError):
            b.load_state_dict({'0.weight': x}, strict=False)
        self.assertEqual(len(b.requires_grad_(False).parameters()), 0)


class Optimisers(unittest.TestCase):
    def fit(self, make, steps=60):
        w = bell.tensor([[3., -2.], [1., 4.]]).requires_grad_()
        opt = make([w])
        for _ in range(steps):
            loss = ((w - 1) ** 2).sum()
            opt.zero_grad()
            loss.backward()
            opt.step(loss)
        return loss.item()

    def test_refused(self):
        w = bell.ones(2, 2).requires_grad_()
        for steps in (-1, 2 ** 32, float('nan')):
            with self.assertRaisesRegex(ValueError, 'n_iters must be 0 to'):
                optim.Muon([w], ns_steps=steps)
        with self.assertRaisesRegex(ValueError, 'expected constant, step'):
            optim.SGD([w], 0.1).set_schedule('linear')

    def test_all_descend(self):
        for make in (lambda p: optim.SGD(p, 0.1), lambda p: optim.Adam(p, 0.2),
                     lambda p: optim.SGD(p, 0.05, momentum=0.9, nesterov=True),
                     lambda p: optim.AdamW(p, 0.2), lambda p: optim.LAMB(p, 0.1),
                     lambda p: optim.RMSprop(p, 0.05),
                     lambda p: optim.Adagrad(p, 1.0),
                     lambda p: optim.LARS(p, 100.), lambda p: optim.Muon(p, 0.1)):
            self.assertLess(self.fit(make), 2.5)

    def test_formula(self):
        """SGD with momentum, and Adam, against plain Python."""
        w, v = 2.0, 0.0
        x = bell.tensor([2.]).requires_grad_()
        opt = optim.SGD([x], lr=0.1, momentum=0.9)
        for _ in range(5):
            g = 2 * w
            v = 0.9 * v + g
            w -= 0.1 * v
            opt.zero_grad()
            (x * x).sum().backward()
            opt.step()
        self.assertAlmostEqual(x.item(), w, 5)
        w, m, s = 2.0, 0.0, 0.0
        x = bell.tensor([2.]).requires_grad_()
        opt = optim.Adam([x], lr=0.1)
        for t in range(1, 6):
            g = 2 * w
            m, s = 0.9 * m + 0.1 * g, 0.999 * s + 0.001 * g * g
            w -= 0.1 * (m / (1 - 0.9**t)) / (math.sqrt(s / (1 - 0.999**t)) + 1e-8)
            opt.zero_grad()
            (x * x).sum().backward()
            opt.step()
        self.assertAlmostEqual(x.item(), w, 5)

    def test_state(self):
        def make():
            w = bell.tensor([2., 3.]).requires_grad_()
            return w, optim.Adam([w], lr=0.1)

        def step(w, opt):
            opt.zero_grad()
            (w * w).sum().backward()
            opt.step()
        w, opt = make()
        for _ in range(3):
            step(w, opt)
        other, again = make()
        other.assign(w.detach())
        again.load_state_dict({k: x.clone() if isinstance(x, bell.Tensor) else x
                               for k, x in opt.state_dict().items()})
        step(w, opt), step(other, again)
        self.assertEqual(w.tolist(), other.tolist())
        self.assertEqual(opt.lr, 0.1)
        opt.lr = 0.5
        self.assertEqual(opt.lr, 0.5)

    def test_refused(self):
        w = bell.tensor([2.]).requires_grad_()
        with self.assertRaises(TypeError):
            optim.SGD([w], rate=1)
        with self.assertRaises(TypeError):
            optim.SGD([1.0], lr=1)
        with self.assertRaises((TypeError, ValueError)):
            optim.SGD([], lr=1)
        with self.assertRaises(ValueError):
            optim.SGD([w]).set_schedule('none')


class Captured(unittest.TestCase):
    def test_structures(self):
        @bell.jit
        def f(x, y, *, scale=2):
            return {'a': x + y['b'][0], 'c': [x * scale, (y['b'][1],)]}
        x = bell.tensor([1., 2.])
        for i in range(3):
            got = f(x, {'b': [x + i, x]})
            self.assertEqual(got['a'].tolist(), [2 + i, 4 + i])
            self.assertEqual(got['c'][0].tolist(), [2, 4])
            self.assertEqual(got['c'][1][0].tolist(), [1, 2])
        self.assertEqual(f(x, {'b': [x, x]}, scale=3)['c'][0].tolist(), [3, 6])
        self.assertEqual(len(f.signatures), 2)

    def test_training(self):
        """As without, to the bit."""
        def losses(wrap):
            bell.manual_seed(5)
            net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
            opt = optim.AdamW(net.parameters(), lr=0.05)
            opt.set_schedule('cosine', 20)
            x, y = bell.randn(16, 4).realize(), bell.randn(16, 1).realize()

            def step(x, y):
                loss = bell.mse_loss(net(x), y)
                opt.zero_grad()
                loss.backward()
                opt.step(loss)
                return loss
            step = wrap(step)
            return [step(x, y).item() for _ in range(12)]
        self.assertEqual(losses(bell.jit), losses(lambda f: f))

    def test_failures(self):
        x = bell.tensor([1., 2.])

        @bell.jit
        def wrong(x):
            raise KeyError('mine')

        @bell.jit
        def reads(x):
            return x if x.sum() > 0 else -x
        for _ in range(2):
            with self.assertRaises(KeyError):
                wrong(x)
            with self.assertRaises(bell.errors.StateError):
                reads(x)
        kept = []

        @bell.jit
        def keeps(x):
            kept.append((x, x + 1))
            return x * 2
        self.assertEqual(keeps(x).tolist(), [2, 4])
        for dead in kept[0]:
            with self.assertRaises(bell.Error):
                dead.tolist()
        with self.assertRaises(TypeError):
            keeps(x, {1, 2})

        @bell.jit
        def closes(x):
            x.context.close()
        with self.assertRaises(bell.errors.StateError):
            closes(x)
        for wrong in ([1], [x] * 65, [], None):
            low = bell._c._Jit(lambda a, wrong=wrong: wrong, x.context, 'low', 1, 1)
            with self.assertRaises((TypeError, bell.errors.StateError)):
                low.call([x])
        self.assertEqual(x.tolist(), [1, 2])

    def test_many(self):
        """More inputs and results than fit a list on the stack."""
        @bell.jit
        def double(xs):
            return [x * 2 for x in xs]
        for n in (100, 600):
            xs = [bell.full((1,), i) for i in range(n)]
            self.assertEqual([y.item() for y in double(xs)],
                             [2 * i for i in range(n)])

    def test_methods(self):
        class Net:
            def __init__(self, k):
                self.k = k

            @bell.jit
            def f(self, x):
                return x * self.k
        a, b = Net(2), Net(3)
        x = bell.tensor([1.])
        self.assertEqual((a.f(x).item(), b.f(x).item(), a.f(x).item()), (2, 3, 2))

    def test_save(self):
        w = bell.tensor([2., 3.])

        @bell.jit
        def f(x):
            return x * w
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, 'f.bundle')
            f.save(path, w, in_names=['x'], out_names=['y'], targets=['CPU'])
            bell.save(os.path.join(folder, 'x.npy'), bell.tensor([5., 7.]))
            subprocess.run([os.environ['DOORBELL'], 'run', path, '--in',
                            f'x={folder}/x.npy', '--out', f'y={folder}/y.npy'],
                           check=True, capture_output=True)
            self.assertEqual(bell.load(f'{folder}/y.npy').tolist(), [10, 21])


class Files(unittest.TestCase):
    def test_round_trip(self):
        tensors = {'a': bell.tensor([[1., 2.]]), 'b': bell.tensor([3, 4])}
        with tempfile.TemporaryDirectory() as folder:
            for end in ('safetensors', 'npz'):
                path = os.path.join(folder, 'x.' + end)
                bell.save(path, tensors)
                file = bell.load(path)
                self.assertEqual((len(file), 'a' in file, 'c' in file),
                                 (2, True, False))
                for name, x in tensors.items():
                    self.assertEqual(file[name].tolist(), x.tolist())
                with self.assertRaises(KeyError):
                    file['c']  # noqa: B018
            with self.assertRaises(NotImplementedError):
                bell.save(os.path.join(folder, 'x.txt'), tensors)
            with self.assertRaises(TypeError):
                bell._c._save(path, {'a': 1})


@unittest.skipUnless('MNIST_CONV' in os.environ, 'no C example')
class Example(unittest.TestCase):
    def test_same_as_c(self):
        """examples/mnist_conv.py learns what mnist_conv.c learns."""
        rng = random.Random(3)
        n = 1000
        labels = bytes(i % 10 for i in range(n))
        images = b''.join(bytes(
            min(255, (200 if (p // 28) % 10 == c else 0) + rng.randint(0, 55))
            for p in range(784)) for c in labels)
        with tempfile.TemporaryDirectory() as folder:
            paths = [os.path.join(folder, name) for name in ('x', 'y')]
            with open(paths[0], 'wb') as file:
                file.write(struct.pack('>4I', 0x803, n, 28, 28) + images)
            with open(paths[1], 'wb') as file:
                file.write(struct.pack('>2I', 0x801, n) + labels)
            said = [subprocess.run(
                [*program, *paths, '8'], capture_output=True, text=True,
                check=True).stdout for program in (
                    [os.environ['MNIST_CONV']],
                    [sys.executable, os.path.join(
                        HERE, '..', '..', 'examples', 'mnist_conv.py')])]
        self.assertIn(' right', said[0])
        self.assertEqual(said[0], said[1])


if __name__ == '__main__':
    unittest.main()
