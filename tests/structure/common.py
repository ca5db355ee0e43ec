"""What the structure tests share: the source files, what readelf says of a
program, and TAP output."""
import os
import re
import subprocess
import sys

MODULES = ('base', 'ioctl', 'mem', 'hcq', 'sim', 'uops', 'lower', 'render',
           'reference', 'cache', 'tensor', 'include', 'tools', 'python', 'examples',
           'tests')


def sources(root, suffixes=('.c', '.h')):
    """Paths, relative to root, of our files with these suffixes, sorted."""
    found = []
    for module in MODULES:
        for folder, folders, files in os.walk(os.path.join(root, module)):
            folders[:] = [f for f in folders if f != '__pycache__']
            found += [os.path.relpath(os.path.join(folder, f), root)
                      for f in files if f.endswith(tuple(suffixes))]
    return sorted(found)


def documents(root):
    """Paths, relative to root, of what is written in Markdown."""
    yield from ('README.md', 'CONTRIBUTING.md')
    for folder, folders, names in os.walk(os.path.join(root, 'docs')):
        folders.sort()
        for name in sorted(names):
            if name.endswith('.md'):
                yield os.path.relpath(os.path.join(folder, name), root)


def read(root, path):
    with open(os.path.join(root, path), encoding='utf-8') as file:
        return file.read()


def hardening_complaints(path, is_static=False):
    """What an ELF file lacks of docs/reference/errors.md, or claims."""

    def show(*options):
        return subprocess.run(['readelf', '-W', *options, path],
                              capture_output=True, text=True,
                              check=True).stdout

    segments, dynamic = show('-l'), show('-d')
    wanted = [
        ('DYN' in show('-h'), 'lies at fixed addresses'),
        (is_static == ('INTERP' not in segments) or '.so' in path,
         'is not linked as it should be'),
        ('GNU_RELRO' in segments, 'has no read-only relocations'),
        (re.search(r'FLAGS_1.*NOW', dynamic), 'binds symbols when called'),
        (re.search(r'GNU_STACK.* RW ', segments), 'has a stack with code'),
        ('TEXTREL' not in dynamic, 'has relocations in its code'),
        (is_static or '__stack_chk_fail' in show('--dyn-syms'),
         'has no stack protectors'),
        (not re.search(r'x86 feature:.*(IBT|SHSTK)', show('-n')),
         'claims landing pads or shadow stacks'),
    ]
    return [f'{os.path.basename(path)} {text}'
            for good, text in wanted if not good]


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
