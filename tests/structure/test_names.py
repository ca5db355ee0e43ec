#!/usr/bin/env python3
"""A name is found by grep: in a part it is defined once. Counted are functions
and the tags of structures, unions and enumerations; how many definitions share
their name with another one of the same part, of a hundred, is not to grow.

usage: test_names.py SOURCE_ROOT [--list PART]
"""
import collections
import re
import sys

from common import Tap, read, sources

# Definitions of a hundred that may share their name; 0 elsewhere. Tests and
# examples are programs of their own, with a main each.
ALLOWED = {'hcq': 3.2, 'lower': 0.5, 'sim': 4.4, 'tensor': 1.7,
           'tools': 2.9, 'uops': 1.0}
APART = ('examples', 'tests')
DEFINITION = re.compile(
    r'^(?:(struct|union|enum) (\w+) \{|([a-z_]\w*)\()', re.MULTILINE)


def definitions(text):
    """Names that a file defines: a function's body begins in the first column,
    before any statement ends. One with external linkage is written again only
    where it has another form in another build: it counts once."""
    for match in DEFINITION.finditer(text):
        if match[1]:
            yield f'{match[1]} {match[2]}', False
            continue
        body = text.find('\n{', match.end())
        end = text.find(';', match.end())
        if body >= 0 and not 0 <= end < body:
            before = text[:match.start()].rstrip('\n').rsplit('\n', 1)[-1]
            if match[3] != '__attribute__':
                yield match[3], not before.startswith('static')


def count(root, paths):
    found, extern = collections.defaultdict(list), set()
    for path in paths:
        for name, is_extern in set(definitions(read(root, path))):
            if not is_extern or name not in extern:
                found[name].append(path)
            if is_extern:
                extern.add(name)
    return found


def main():
    root = sys.argv[1]
    parts = collections.defaultdict(list)
    for path in sources(root, ('.c', '.h')):
        parts[path.split('/')[0]].append(path)
    if len(sys.argv) > 3:
        found = count(root, parts[sys.argv[3]])
        for name, paths in sorted(found.items(), key=lambda i: -len(i[1])):
            if len(paths) > 1:
                print(len(paths), name, *paths)
        return
    tap = Tap()
    for part in sorted(set(parts) - set(APART)):
        found = count(root, parts[part])
        n_all = sum(map(len, found.values()))
        n_shared = sum(len(p) for p in found.values() if len(p) > 1)
        share = 100 * n_shared / max(n_all, 1)
        allowed = ALLOWED.get(part, 0)
        tap.check(f'names of {part}: {n_shared} of {n_all} are defined more than '
                  f'once', [f'{share:.1f} of a hundred, allowed: {allowed}; '
                            f'--list {part} shows them']
                  if share > allowed else [])
    tap.finish()


if __name__ == '__main__':
    main()
