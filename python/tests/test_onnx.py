"""ONNX models: called, captured, trained, saved."""
import os
import subprocess
import sys
import tempfile
import unittest

import doorbell as bell
from doorbell import onnx

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, '..', '..', 'tests', 'integration'))
import onnx_write  # noqa: E402  pylint: disable=wrong-import-position


class Models(unittest.TestCase):
    def setUp(self):
        self.context = bell.Context('CPU')
        self.context.__enter__()
        self.folder = tempfile.TemporaryDirectory()
        self.classifier = self.path('classifier.onnx')
        onnx_write.classifier().save(self.classifier)

    def tearDown(self):
        self.folder.cleanup()
        self.context.__exit__(None, None, None)

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def test_facts(self):
        model = onnx.load(self.classifier)
        self.assertEqual(model.inputs, [
            onnx.Value('image', bell.float32, ('batch', 3, 16, 16))])
        self.assertEqual(model.outputs[0].shape, ('batch', 10))
        self.assertEqual(model.refused, [])
        self.assertEqual(model.state_dict()['fc.weight'].shape, (10, 16))
        self.assertEqual(len(model.parameters()), 6)

    def test_call(self):
        model = onnx.load(self.classifier)
        x = bell.rand(2, 3, 16, 16)
        y = model(x)
        self.assertEqual(y.shape, (2, 10))
        self.assertEqual(model(image=x).tolist(), y.tolist())
        step = bell.jit(model)
        self.assertEqual(step(x).tolist(), y.tolist())
        self.assertEqual(step(x).tolist(), y.tolist())
        for args, named in ((), {}), ((x, x), {}), ((), {'x': x}), (
                (x,), {'image': x}):
            with self.assertRaisesRegex(TypeError, 'image'):
                model(*args, **named)
        with self.assertRaises(bell.errors.DtypeError):
            model(bell.ones(2, 3, 16, 16, dtype=bell.float64))

    def test_gradients(self):
        model = onnx.load(self.classifier)
        weight = model.state_dict()['fc.weight'].requires_grad_()
        x = bell.rand(1, 3, 16, 16).requires_grad_()
        model(x).square().sum().backward()
        self.assertEqual(weight.grad.shape, (10, 16))
        self.assertGreater(float(weight.grad.abs().sum()), 0)
        self.assertEqual(x.grad.shape, x.shape)

    def test_training(self):
        model = onnx.load(self.classifier)
        for parameter in model.parameters():
            parameter.requires_grad_()
        optimizer = bell.optim.SGD(model.parameters(), lr=0.1)
        x = bell.rand(4, 3, 16, 16)

        @bell.jit
        def step(x):
            loss = model(x).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            return loss

        losses = [float(step(x)) for _ in range(5)]
        self.assertEqual(losses, sorted(losses, reverse=True))
        self.assertLess(losses[-1], losses[0])

    def test_weights(self):
        model = onnx.load(self.classifier)
        path = self.path('w.safetensors')
        bell.save(path, model.state_dict())
        saved, file = bell.load(path), bell.load(self.classifier)
        for name, weight in model.state_dict().items():
            self.assertEqual(saved[name].tolist(), weight.tolist())
            self.assertEqual(file[name].tolist(), weight.tolist())

    def test_bundle(self):
        model = onnx.load(self.classifier)
        x = bell.rand(1, 3, 16, 16)
        bell.save(self.path('x.npy'), x)
        model.save(self.path('m.bundle'), x)
        subprocess.run([os.environ['DOORBELL'], 'run', self.path('m.bundle'),
                        '--in', f'image={self.path("x.npy")}', '--out',
                        f'scores={self.path("y.npy")}', '--device', 'CPU'],
                       check=True)
        self.assertEqual(bell.load(self.path('y.npy')).tolist(),
                         model(x).tolist())

    def test_sizes(self):
        path = self.path('encoder.onnx')
        onnx_write.encoder().save(path)
        model, fixed = onnx.load(path), onnx.load(path)
        model.set_sizes(batch=1, seq=bell.symbol('seq', 1, 64))
        step = model.jit()
        for n in 7, 20, 33, 48, 64:
            ids = (bell.arange(n) % 50).reshape(1, n)
            mask = bell.ones(1, n, dtype=bell.int64)
            self.assertEqual(step(ids, mask).tolist(),
                             fixed(ids, mask).tolist())
        self.assertEqual(step.info(ids, mask)['captures'], 1)
        self.assertEqual(len(step.signatures), 1)
        long = bell.ones(1, 65, dtype=bell.int64)
        with self.assertRaisesRegex(bell.Error, '64'):
            step(long, long)
        with self.assertRaisesRegex(bell.Error, 'they have batch, seq'):
            model.set_sizes(length=3)

    def test_refused(self):
        g = onnx_write.Graph('odd')
        g.input('x', (2,))
        g.node('Whatever', 'x', out='y')
        g.output('y', (2,))
        g.save(self.path('odd.onnx'))
        model = onnx.load(self.path('odd.onnx'))
        self.assertEqual([r.op for r in model.refused], ['Whatever'])
        with self.assertRaisesRegex(bell.Error, 'Whatever'):
            model(bell.ones(2))
        with self.assertRaises(bell.Error):
            onnx.load(self.path('none.onnx'))


if __name__ == '__main__':
    unittest.main()
