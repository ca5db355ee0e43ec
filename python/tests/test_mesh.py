"""Meshes: one program on several devices, with the results of one."""
import unittest

import doorbell as bell


class Mesh(unittest.TestCase):
    def test_layouts(self):
        c = bell.Context('CPU:0,CPU:1,CPU:2,CPU:3')
        self.assertEqual(c.places, 4)
        c.set_mesh((2, 2), ('data', 'model'))
        with c:
            x = bell.shard(bell.arange(12).reshape(4, 3), 'data', 0)
            x = bell.shard(x, mesh_axis='model', dim=-1)
        layout = bell.layout_of(x)
        self.assertEqual((layout['sizes'], layout['dims']), ((2, 2), (0, 1)))
        self.assertEqual(layout['place_bytes'], 2 * 2 * 8)
        self.assertEqual(x.tolist(), [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9, 10, 11]])
        whole = bell.replicate(x, 'model')
        self.assertEqual(bell.layout_of(whole)['dims'], (0, None))
        self.assertEqual((x + whole).sum(0).tolist(), [36, 44, 52])

    def test_training(self):
        """A step's loss and gradients are those of one device: no sum of more
        than two parts is split here."""
        found = []
        for name in ('CPU', 'CPU:0,CPU:1'):
            with bell.Context(name):
                x = bell.tensor([[1., 2.], [3., 5.]])
                w = bell.tensor([[1., -1.], [2., 4.]]).requires_grad_()
                x = bell.shard(x, 'data', 0)
                loss = ((x @ w).relu()).sum()
                loss.backward()
                found.append((w.grad.tolist(), loss.item()))
        self.assertEqual(found[0], found[1])

    def test_refused(self):
        c = bell.Context('CPU:0,CPU:1')
        for sizes, names in (((3,), ('a',)), ((2,), ()), ((2, 1), ('a', 'a')),
                             ((1, 1, 1, 2), 'abcd'), ((2,), ('',))):
            with self.assertRaises(ValueError):
                c.set_mesh(sizes, names)
        with self.assertRaises(TypeError):
            c.set_mesh((2,), (1,))
        with c, self.assertRaises(bell.errors.Error):
            bell.shard(bell.ones(2), 'model', 0)
        with self.assertRaises(TypeError):
            bell.layout_of(3)


if __name__ == '__main__':
    unittest.main()
