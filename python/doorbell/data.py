"""Batches of a dataset, made and copied to the device ahead of their use."""
from doorbell import _c


class Loader:
    """Batches of arrays, which have an item at each place of their first axis:
    tuples of tensors, a tensor for each array. Arrays are buffers, such as
    NumPy's, in row-major order; they stay as they are while the loader lives.

    The order of an epoch follows from the seed and its number. Each `for` is an
    epoch; one that was left early is not resumed, but by `seek`.

    >>> import array
    >>> from doorbell import data
    >>> loader = data.Loader(array.array('i', range(5)), batch_size=2)
    >>> [x.tolist() for x, in loader]
    [[0, 1], [2, 3], [4]]
    """

    def __init__(self, *arrays, batch_size=1, shuffle=False, drop_last=False,
                 seed=0, num_threads=1, prefetch=2):
        self._loader = _c._Loader(arrays, batch_size, shuffle, drop_last, seed,
                                  num_threads, prefetch)
        self._sought = False

    def __len__(self):
        """Batches of an epoch."""
        return self._loader.info()[0]

    def __iter__(self):
        _, epoch, batch = self._loader.info()
        if batch and not self._sought:
            self._loader.seek(epoch + 1, 0)
        self._sought = False
        return self._epoch()

    def _epoch(self):
        while True:
            batch = self._loader.next()
            if batch is None:
                return
            yield batch

    def seek(self, epoch, batch=0):
        """The next `for` begins with that batch of that epoch."""
        self._loader.seek(epoch, batch)
        self._sought = True

    def state_dict(self):
        """Where it is: for load_state_dict after a stop."""
        _, epoch, batch = self._loader.info()
        return {'epoch': epoch, 'batch': batch}

    def load_state_dict(self, state):
        self.seek(state['epoch'], state['batch'])
