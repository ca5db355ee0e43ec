"""Every example of a docstring does what it says."""
import doctest
import importlib
import unittest

import doorbell

MODULES = ('doorbell', 'doorbell.nn', 'doorbell.optim', 'doorbell._jit',
           'doorbell._grad', 'doorbell._files')


def load_tests(loader, suite, unused):
    finder = doctest.DocTestFinder()
    for name in MODULES:
        module = importlib.import_module(name)
        suite.addTests(doctest.DocTestSuite(
            module, globs={'doorbell': doorbell, **vars(module)}))
    for name, value in sorted(vars(doorbell._c).items()):
        if callable(value) and '>>>' in (value.__doc__ or ''):
            for test in finder.find(value, 'rows.' + name, module=False,
                                    globs={'doorbell': doorbell}):
                suite.addTest(doctest.DocTestCase(test))
    return suite


if __name__ == '__main__':
    unittest.main()
