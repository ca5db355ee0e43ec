"""Loaders: what they give, in which order, and what they refuse."""
import array
import gc
import unittest

import doorbell as bell
from doorbell import data


class Loaders(unittest.TestCase):
    def setUp(self):
        self.images = bell.arange(30, dtype='float32').reshape(10, 3)
        self.labels = array.array('B', range(10))

    def loader(self, **options):
        return data.Loader(self.images, self.labels, **options)

    def test_batches(self):
        loader = self.loader(batch_size=4)
        self.assertEqual(len(loader), 3)
        for _ in range(2):
            got = [(x.tolist(), y.tolist()) for x, y in loader]
            self.assertEqual([len(y) for _, y in got], [4, 4, 2])
            self.assertEqual(got[2], ([[24, 25, 26], [27, 28, 29]], [8, 9]))
        self.assertEqual(len([*self.loader(batch_size=4, drop_last=True)]), 2)
        x, y = next(iter(loader))
        self.assertEqual((x.dtype, y.dtype), (bell.float32, bell.uint8))

    def order(self, loader):
        return [i for _, y in loader for i in y.tolist()]

    def test_order(self):
        loader = self.loader(batch_size=3, shuffle=True, seed=5)
        first, second = self.order(loader), self.order(loader)
        self.assertEqual((sorted(first), sorted(second)), ([*range(10)],) * 2)
        self.assertNotEqual(first, second)
        again = self.loader(batch_size=3, shuffle=True, seed=5)
        again.seek(1)
        self.assertEqual(self.order(again), second)
        self.assertEqual(self.order(self.loader(batch_size=3, shuffle=True,
                                                seed=5)), first)

    def test_left_early_and_resumed(self):
        loader = self.loader(batch_size=3)
        for _, y in loader:
            break
        self.assertEqual(loader.state_dict(), {'epoch': 0, 'batch': 1})
        other = self.loader(batch_size=3)
        other.load_state_dict(loader.state_dict())
        self.assertEqual(self.order(other), [*range(3, 10)])
        self.assertEqual(self.order(loader), [*range(10)])

    def test_life(self):
        """Tensors outlive their loader, and a loader its name for the arrays."""
        loader = data.Loader(array.array('d', [1, 2]), batch_size=2)
        gc.collect()
        x, = next(iter(loader))
        del loader
        self.assertEqual(x.tolist(), [1, 2])
        c = bell.Context('CPU')
        with c:
            loader = self.loader(batch_size=2)
        c.close()
        with self.assertRaises(bell.Error):
            next(iter(loader))
        del loader

    def test_refused(self):
        with self.assertRaises(ValueError):
            data.Loader()
        with self.assertRaises(ValueError):
            data.Loader(self.labels, array.array('B', [1]))
        with self.assertRaises(ValueError):
            self.loader(batch_size=0)
        with self.assertRaises(TypeError):
            data.Loader([1, 2])
        with self.assertRaises(bell.Error):
            data.Loader(memoryview(b'ab').cast('c'), bell.tensor(1))


if __name__ == '__main__':
    unittest.main()
