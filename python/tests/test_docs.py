"""Every example of a docstring does what it says."""
import doctest
import importlib
import os
import unittest

import doorbell

MODULES = ('doorbell', 'doorbell.nn', 'doorbell.optim', 'doorbell._jit',
           'doorbell._grad', 'doorbell._custom', 'doorbell._files', 'doorbell.data', 'doorbell.xp',
           'doorbell.xp._array', 'doorbell.xp._create', 'doorbell.onnx')
MODEL = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..',
                     'tests', 'fuzz', 'onnx', 'add.onnx')


def load_tests(loader, suite, unused):
    finder = doctest.DocTestFinder()
    for name in MODULES:
        suite.addTests(doctest.DocTestSuite(
            importlib.import_module(name), globs={'doorbell': doorbell, 'MODEL': MODEL},
            test_finder=doctest.DocTestFinder(recurse=name != 'doorbell')))
    for name, value in sorted(vars(doorbell._c).items()):
        if callable(value) and '>>>' in (value.__doc__ or ''):
            for test in finder.find(value, 'rows.' + name, module=False,
                                    globs={'doorbell': doorbell}):
                suite.addTest(doctest.DocTestCase(test))
    suite.addTests(loader.loadTestsFromTestCase(Rows))
    return suite


class Rows(unittest.TestCase):
    def test_every_row_has_an_example(self):
        self.assertEqual([
            name for name, value in sorted(vars(doorbell._c).items())
            if not name.startswith('_')
            and type(value).__name__ == 'builtin_function_or_method'
            and '>>>' not in value.__doc__],
            ['current_context', 'device', 'manual_seed'])


if __name__ == '__main__':
    unittest.main()
