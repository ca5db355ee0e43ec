#!/usr/bin/env python3
"""Mutants of the driver half: does a test notice when a line is wrong?

usage: mutate.py BUILD_DIR N [--seed S] [--only FOLDER] [--list]

Copies the sources beside BUILD_DIR, builds the tests there once, and then N
times changes one random place of base, ioctl, mem or hcq, builds, and runs
the tests of that part until one fails. Prints each mutant's fate and, last,
the score. A mutant that does not compile is not counted; one that hangs is
killed by the time limit of its test.

Store order is not tried: x86 keeps it, whatever is written (KEPT). Each such
place says in a comment what it relies on.
"""
import os
import random
import re
import shutil
import subprocess
import sys
import time

PARTS = ('base', 'ioctl', 'mem', 'hcq')
# Statements that only order stores, or that only tell.
KEPT = re.compile(r'fence|sfence|__ATOMIC_|\bLOG\(|assert|^\s*#|relax|madvise')
# Tests by part, quick ones first; of each line, all at once.
TESTS = (
    ('hcq/nv', (r'nv_\w+|sim_rm\w*|fault_loop',
                r'cts NV@sim_sm_90|cts NV@sim_sm_80|cts NV@sim_sm_120')),
    ('hcq/amd', (r'amd_\w+|sim_kfd|fault_loop',
                 r'cts AMD@sim_gfx1100|cts AMD@sim_gfx942|cts AMD@sim_gfx90a')),
    ('hcq/cpu', (r'cpu inside|cpu object mutations', r'cts CPU')),
    ('hcq', (r'nv_launch|amd_launch|amd_ring|nv_memory',
             r'cts CPU|cts NV@sim_sm_90|cts AMD@sim_gfx942')),
    ('ioctl', (r'kio\w*|nv_watch|sim_rm|fuzz_cassette|fuzz_kernel',
               r'trace|cts NV@sim_sm_90')),
    ('mem', (r'mem_\w+|nv_memory', r'cts CPU|cts NV@sim_sm_90')),
    ('base', (r'alloc|arena|log|map|status|process|kio',
              r'cts CPU|cli')),
)
SWAPS = {'<': ('<=', '>='), '<=': ('<', '>'), '>': ('>=', '<='),
         '>=': ('>', '<'), '==': ('!=',), '!=': ('==',), '&&': ('||',),
         '||': ('&&',), '+': ('-',), '-': ('+',), '|': ('&',), '&': ('|',),
         '<<': ('>>',), '>>': ('<<',), '+=': ('-=',), '-=': ('+=',),
         '|=': ('=',), '++': ('--',), 'true': ('false',), 'false': ('true',)}
TOKEN = re.compile(
    r'(?P<skip>/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\'|'
    r'^[ \t]*\#(?:\\\n|[^\n])*)|'
    r'(?P<word>[A-Za-z_]\w*)|(?P<number>0x[0-9a-fA-F]+|\d+)(?P<suffix>[uUlL]*)|'
    r'(?P<op><<=|>>=|<<|>>|<=|>=|==|!=|&&|\|\||\+\+|--|\+=|-=|\|=|&=|->|'
    r'[-+*/%&|^<>=!?:;,(){}\[\].~])|(?P<other>.)', re.S | re.M)
CALL = re.compile(r'^(    +)(?:\(void\))?\w+\([^;{}]*\);$', re.M)


def binary(tokens, i):
    """Whether the operator at i stands between two values."""
    before = tokens[i - 1].group() if i else ''
    return bool(re.match(r'[\w)\]]', before[-1:])) and before not in (
        'return', 'case', 'else')


def places_of(text):
    """(start, end, replacement) of everything that can be changed."""
    places = []
    tokens = [t for t in TOKEN.finditer(text)
              if not t.group('skip') and not t.group().isspace()]
    for i, token in enumerate(tokens):
        word = token.group()
        if word in SWAPS and (word in ('true', 'false', '++') or
                              binary(tokens, i)):
            places += [(token.start(), token.end(), new)
                       for new in SWAPS[word]]
        elif token.group('number') and word[:2] != '0x':
            number = int(token.group('number'))
            suffix = token.group('suffix')
            places += [(token.start(), token.end(), f'{new}{suffix}')
                       for new in {number + 1, max(number - 1, 0)} - {number}]
        elif word == 'if' and tokens[i + 1].group() == '(':
            at = tokens[i + 1].end()
            places += [(at, at, '0 && '), (at, at, '1 || ')]
    # a call whose result nobody takes
    places += [(m.start(1) + len(m.group(1)), m.end(), ';')
               for m in CALL.finditer(text)]
    return [p for p in places if is_code(text, p)]


def is_code(text, place):
    """Inside a function, and not of a kind that is kept."""
    line_start = text.rfind('\n', 0, place[0]) + 1
    line = text[line_start:text.find('\n', place[1])]
    return line[:1] in (' ', '\t') and not KEPT.search(line)


def all_places(root, only):
    places = []
    for part in PARTS:
        for folder, folders, files in os.walk(os.path.join(root, part)):
            folders.sort()
            for name in sorted(files):
                path = os.path.relpath(os.path.join(folder, name), root)
                if not name.endswith('.c') or not path.startswith(only):
                    continue
                with open(os.path.join(root, path), encoding='utf-8') as file:
                    text = file.read()
                places += [(path, p) for p in places_of(text)]
    return places


def run(*args, **options):
    return subprocess.run(args, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True,
                          stdin=subprocess.DEVNULL, check=False, **options)


def names_of_tests(build):
    done = run('meson', 'test', '-C', build, '--list', '--no-rebuild')
    return [line.split(' / ')[1] for line in done.stdout.splitlines()
            if ' / ' in line]


def tests_for(path, names):
    for part, rounds in TESTS:
        if path.startswith(part + '/'):
            return [[n for n in names if re.fullmatch(r, n)] for r in rounds]
    return []


def judge(build, path, names, jobs):
    """'killed by TEST', 'survived', or None where it does not compile."""
    built = run('ninja', '-C', build, '-j', str(jobs))
    if built.returncode != 0:
        return None
    for tests in tests_for(path, names):
        done = run('meson', 'test', '-C', build, '--no-rebuild',
                   '--num-processes', str(jobs), '--maxfail', '1',
                   *tests) if tests else None
        if done and done.returncode != 0:
            failed = re.findall(r'^ *\d+/\d+ \S+ / (.*?) +(?:FAIL|TIMEOUT|ERROR)',
                                done.stdout, re.M)
            return 'killed by ' + (failed[0] if failed else '?')
    return 'survived'


def shown(text, place):
    start, end, new = place
    line_start = text.rfind('\n', 0, start) + 1
    line_end = text.find('\n', end)
    number = text.count('\n', 0, start) + 1
    line = (text[line_start:start] + '[' + text[start:end] + ' -> ' + new +
            ']' + text[end:line_end])
    return f'{number}: ' + ' '.join(line.split())[:110]


def main():
    args = sys.argv[1:]
    seed, only = int(time.time()), ''
    if '--seed' in args:
        seed = int(args[args.index('--seed') + 1])
    if '--only' in args:
        only = args[args.index('--only') + 1]
    build, n = os.path.abspath(args[0]), int(args[1])
    root = os.path.join(os.path.dirname(__file__), '..', '..')
    jobs = int(os.environ.get('JOBS', os.cpu_count()))
    if '--list' in args:
        print(len(all_places(root, only)))
        return 0
    source = build + '-source'
    shutil.rmtree(source, ignore_errors=True)
    shutil.copytree(root, source, symlinks=True, ignore=lambda folder, names: [
        name for name in names if name.startswith(('build', '.git'))])
    done = run(os.path.join(source, 'tools/configure.sh'), build,
               '--buildtype=release', '-Dtests=enabled')
    if done.returncode == 0:
        done = run('ninja', '-C', build, '-j', str(jobs))
    if done.returncode != 0:
        print(done.stdout[-4000:])
        return 1
    names = names_of_tests(build)
    chosen = all_places(source, only)
    random.Random(seed).shuffle(chosen)
    print(f'seed {seed}, {len(chosen)} places', flush=True)
    killed, survivors = 0, []
    while chosen and killed + len(survivors) < n:
        path, place = chosen.pop()
        full = os.path.join(source, path)
        with open(full, encoding='utf-8') as file:
            text = file.read()
        with open(full, 'w', encoding='utf-8') as file:
            file.write(text[:place[0]] + place[2] + text[place[1]:])
        fate = judge(build, path, names, jobs)
        with open(full, 'w', encoding='utf-8') as file:
            file.write(text)
        if fate is None:
            continue
        what = f'{path}:{shown(text, place)}'
        killed += fate != 'survived'
        if fate == 'survived':
            survivors.append(what)
        print(f'{killed + len(survivors):4} {fate}: {what}', flush=True)
    total = killed + len(survivors)
    print(f'{killed} of {total} mutants killed, {100 * killed // total} %')
    return 0


if __name__ == '__main__':
    sys.exit(main())
