"""What the structure tests share: the source files and TAP output."""
import os
import sys

MODULES = ('base', 'ioctl', 'mem', 'hcq', 'sim', 'uops', 'lower', 'render',
           'reference', 'cache', 'tensor', 'include', 'tools', 'examples', 'tests')


def sources(root, suffixes=('.c', '.h')):
    """Paths, relative to root, of our files with these suffixes, sorted."""
    found = []
    for module in MODULES:
        for folder, folders, files in os.walk(os.path.join(root, module)):
            folders[:] = [f for f in folders if f != '__pycache__']
            found += [os.path.relpath(os.path.join(folder, f), root)
                      for f in files if f.endswith(tuple(suffixes))]
    return sorted(found)


def read(root, path):
    with open(os.path.join(root, path), encoding='utf-8') as file:
        return file.read()


class Tap:
    """Prints one line per check, its complaints as comments."""

    def __init__(self):
        self.n_checks = self.n_failed = 0

    def check(self, name, complaints):
        self.n_checks += 1
        if complaints:
            self.n_failed += 1
        for complaint in complaints:
            print(f'# {complaint}')
        print(f'{"not ok" if complaints else "ok"} {self.n_checks} - {name}')

    def skip(self, name, reason):
        self.n_checks += 1
        print(f'ok {self.n_checks} - {name} # SKIP {reason}')

    def finish(self):
        print(f'1..{self.n_checks}')
        sys.exit(1 if self.n_failed else 0)
