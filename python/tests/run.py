"""Runs one file of unittest cases and prints TAP, a line for each test.

usage: run.py FILE.py
The package is that of PYTHONPATH.
"""
import importlib.util
import os
import sys
import unittest

for name in ('BELL_DEVICE', 'BELL_DEBUG', 'BELL_MATH'):
    os.environ.pop(name, None)
os.environ.setdefault('BELL_CACHE', 'off')


class Tap(unittest.TestResult):
    """Lines as they come; what failed, as comments."""

    def line(self, good, test, note=''):
        print(f'{"ok" if good else "not ok"} {self.testsRun} - '
              f'{test.id().split(".", 1)[-1]}{note}', flush=True)

    def addSuccess(self, test):
        super().addSuccess(test)
        self.line(True, test)

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.line(True, test, f' # SKIP {reason}')

    def fail_with(self, test, error):
        text = self._exc_info_to_string(error, test)
        print(''.join(f'# {line}\n' for line in text.splitlines()), end='')
        self.line(False, test)

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self.fail_with(test, err)

    def addError(self, test, err):
        super().addError(test, err)
        self.fail_with(test, err)

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        if err:
            print(f'# {subtest}')
            self.fail_with(test, err)


def main():
    path = sys.argv[1]
    spec = importlib.util.spec_from_file_location(
        os.path.basename(path)[:-3], path)
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
    spec.loader.exec_module(module)
    suite = unittest.TestSuite()
    if hasattr(module, 'load_tests'):
        suite = module.load_tests(unittest.defaultTestLoader, suite, None)
    else:
        suite = unittest.defaultTestLoader.loadTestsFromModule(module)
    result = Tap()
    suite.run(result)
    print(f'1..{result.testsRun}')
    sys.exit(0 if result.wasSuccessful() else 1)


if __name__ == '__main__':
    main()
