"""Errors: classes by reason, the message of C, the user's line on top."""
import traceback
import unittest

import doorbell as bell


class Errors(unittest.TestCase):
    def failure(self, call, *args, **named):
        with self.assertRaises(bell.Error) as caught:
            call(*args, **named)
        return caught.exception

    def test_reasons(self):
        x = bell.tensor([1., 2.])
        for builtin, reason, status, call in (
                (ValueError, 'shape', 'invalid argument', lambda: x.reshape(3)),
                (ValueError, 'shape', 'invalid argument',
                 lambda: x + bell.zeros(3)),
                (IndexError, 'axis', 'invalid argument', lambda: x.softmax(3)),
                (ValueError, 'axis', 'invalid argument', lambda: x.softmax(3)),
                (IndexError, 'index', 'invalid argument', lambda: x[2]),
                (TypeError, 'name', 'invalid argument', lambda: x.sum(axes_=1)),
                (TypeError, 'dtype', 'invalid argument', lambda: x & x),
                (ValueError, 'value', 'invalid argument',
                 lambda: x.softmax('a')),
                (OSError, 'device', 'no such device',
                 lambda: bell.Context('XX:0')),
                (OSError, 'io', 'file error',
                 lambda: bell.load('/nonexistent/x.npy'))):
            error = self.failure(call)
            self.assertIsInstance(error, builtin)
            self.assertEqual((error.reason, error.status), (reason, status))
            self.assertIs(type(error), getattr(
                bell.errors, reason.capitalize() + 'Error'))

    def test_message_and_line(self):
        def mine(x):
            return x.reshape(7)  # the line

        try:
            mine(bell.zeros(2, 3))
        except bell.Error as caught:
            error, last = caught, traceback.extract_tb(caught.__traceback__)[-1]
        self.assertIn('(2, 3) to (7,)', str(error))
        self.assertEqual(error.frames, ('bell_reshape',))
        self.assertEqual(error.errno, 0)
        self.assertEqual(last.line, 'return x.reshape(7)  # the line')

    def test_nothing_is_left(self):
        """A failure is told once, and harms nothing."""
        x = bell.tensor([1., 2.])
        n = x.context.info()['tensors']
        for _ in range(100):
            self.failure(x.reshape, 3)
            self.failure(bell.cat, [x, bell.zeros(2, 2)])
        self.assertEqual(x.context.info()['tensors'], n)
        self.assertEqual((x + 1).tolist(), [2, 3])

    def test_every_class(self):
        self.assertGreater(len(bell.errors.__all__), 20)
        for name in bell.errors.__all__:
            made = getattr(bell.errors, name)
            self.assertTrue(issubclass(made, bell.Error))
            self.assertEqual(made.__module__, 'doorbell.errors')
            self.assertNotEqual(made.__mro__[2], Exception, name)


if __name__ == '__main__':
    unittest.main()
