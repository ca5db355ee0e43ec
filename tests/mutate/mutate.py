#!/usr/bin/env python3
"""Mutants of the driver half: does a test notice when a line is wrong?

usage: mutate.py BUILD_DIR N [--seed S] [--only FOLDER,...] [--patience S] [--list]

Copies the sources to BUILD_DIR, to be built with and without sanitizers,
and with gcov to learn once which tests run which lines. Changes N random
places of base, ioctl, mem or hcq, each alone, and runs the tests that come by
that line, those first that are quick or have killed its neighbours, until one
fails: unit tests with sanitizers (which see leaks), then programs and the
conformance suite. A mutant has survived when all have passed, or those that
PATIENCE seconds of a processor (--patience) suffice for: the score can only be
better than is told, and what else the machine does changes nothing about it.
Prints each mutant's fate and, last, the score.
A mutant that does not compile is not counted; one that hangs is killed by a
time limit, which follows from the time that the test takes without mutants,
and grows with the machine's load.

All mutants of functions are in one build: a function begins with a copy of
its body for each, and a number in a file says which runs (switched). Tables
are built anew for each of their mutants.

Not tried: what no test can see. By rule the order of stores, which x86 keeps
whatever is written (KEPT; each such place says what it relies on), which of
two that are the same is taken (BORDERS), hints at branches (HINT), text of
messages, assertions and what only they call, room for text (TEXT), and what the
optimizing compiler makes the same code of. By hand the lines of equivalent.txt, each with its
argument.

--list tells the places, and lines of equivalent.txt that name none.
JOBS: how many tests at once (default: processors).
"""
import collections
import concurrent.futures
import hashlib
import json
import os
import random
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

PARTS = ('base', 'ioctl', 'mem', 'hcq')
ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), '..', '..'))
EQUIVALENT = os.path.join(os.path.dirname(os.path.abspath(__file__)),
                          'equivalent.txt')
# Statements that only order stores, that only advise the kernel, or that undo
# what has nothing to undo on Linux.
KEPT = re.compile(r'(thread_|signal_|s)fence\(|flush_writes\(|relax\(|\bmadvise|'
                  r'pthread_\w+_destroy|'
                  # what is zero already: all of it is host_calloc's
                  r'pthread_(mutex|cond)_init\(&\w+->[^,]*, NULL\)|'
                  r'map_init\(&(rec|fault)->|map_init\(&play\.')
# What means the same: host_calloc takes 0 for 1, more room is no fault, a
# search may split what is left anywhere, and a mapping of no file has any
# number for it.
SAME = re.compile(r'(\w+) \+ \(\w+ - \1\) / \[2 -> 3\]|'
                  r'(base|flags|MAP_\w+), -\[1 -> [02]\],|'
                  r'host_calloc\((\[1 -> [02]\]|[^,\[\]]* \+ \[1 -> 2\],)|'
                  r'host_grow\([^\[\]]* \+ \[1 -> 2\],|'
                  r'^\w+ \w+\[[^\[\]]+ / \[8 -> 7\]\];')
# The value is the first of the two; the second is a guess at it.
HINT = re.compile(r'__builtin_expect\(.*,\s+$', re.S)
ROOM = re.compile(r'^(?:\w+ )+(?:\**\w+(?:\[\w+\])*, )*\**\w+\[\[(\d+)\w* -> (\d+)\w*\]\]')
# The smaller or larger of two: of two that are the same, either.
BORDERS = {('<', '<='), ('<=', '<'), ('>', '>='), ('>=', '>')}
NAME = r'([\w.\[\]]+(?:->[\w.\[\]]+)*)'
FIRST = re.compile(r'(?:[(=,]|&&|return) ?' + NAME + r' $')
SECOND = re.compile(' ' + NAME + r'(?: \? ' + NAME + r'\s*: ' + NAME + '[;,)]|' +
                    r'\)\s+' + NAME + ' = ' + NAME + r';(?!\s*else))')
# Statements that only tell, and declarations of room for text.
TEXT = re.compile(r'\s*(\}\s*)?(else\s+)?(static_)?(LOG|assert)\w*\s*\(|'
                  r'\s*(return\s+)?bell_fail\w*\s*\(|'
                  r'\s*char\s+\w+\[[^;=]*;')
# As everybody's builds are, in a tree of the same shape: ccache has most of it.
BUILDS = {
    'asan': ('--buildtype=debug', '--optimization=1',
             '-Db_sanitize=address,undefined', '-Db_lundef=false'),
    'release': ('-Dwerror=true', '--buildtype=release'),
    # as written: an optimized program's lines are not all told apart
    'lines': ('--buildtype=debug',),
}
# A folder keeps what was the default when it was made.
ALL_DRIVERS = '-Ddrivers=cpu,nv,amd,qcom'
COUNTING = {'CC': os.path.join(os.path.dirname(os.path.abspath(__file__)),
                               'count_lines.sh')}
# The tests of the driver half, by the build that they run in.
TESTS = {
    'asan': re.compile(
        r'alloc|arena|chip|log|map|regs|status|kio\w*|cassette\w*|mem_\w+|hcq_\w+|graph|graph_order|'
        r'base_files|blob|bundle|given|elsewhere|file_save|handles|jit|kept|cache|loader|'
        r'misuse|tools|fork|'
        r'nv_(?!container)\w+|amd_(?!wave|ring)\w+|sim_rm|sim_kfd|sim_count|'
        r'qcom_(?!shader)\w+|sim_qcom|cts QCOM.*|'
        r'decode|fault_loop|c(l|pu)\W.*|cpu_object|cts CPU|nv kernels|'
        # AMD's cassettes, damaged, map gigabytes by pages: minutes
        r'life of (NV|QCOM|AMD, (?!cassette)).*|'
        r'fuzz_(nv_cubin|amd_object|bundle|decode|cassette|kernel_\w+)'),
    'release': re.compile(
        # sanitizers keep the addresses that UVM takes
        r'amd_ring|amd_control|nv_memory|nv_fault|nv_launch|fault_loop|'
        r'cts NV@sim_sm_.*|cts AMD@sim_gfx.*|lie_sweep_\w+|life .*|'
        r'cts CL_0|trace|replay.*|sim|cli|step|privileged|h100|dump|selftest|'
        r'static'),
}
PATIENCE = 150  # processor seconds of tests for one mutant
ENV = {  # as in tests/meson.build, but for detect_stack_use_after_return
    'BELL_CACHE': 'off',  # a mutant's kernels are for nobody else
    'CMOCKA_MESSAGE_OUTPUT': 'TAP',
    'ASAN_OPTIONS': 'detect_stack_use_after_return=1:strict_string_checks=1:'
                    'allocator_may_return_null=1:use_sigaltstack=0:'
                    'intercept_tls_get_addr=0',
    'LSAN_OPTIONS': 'print_suppressions=0:suppressions=' +
                    os.path.join(ROOT, 'tests', 'lsan.supp'),
    'UBSAN_OPTIONS': 'halt_on_error=1',
}
BUILDING = threading.Lock()  # one ninja at a time
OUTPUT_MAX = 1 << 26  # bytes that a test may print
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
# What a statement begins behind: no braces of initializers.
END = re.compile(r'(?:[;}]|(?<!= )(?<!\))\{)\n')
CALL = re.compile(r'^(    +)(?:\(void\))?\w+\([^;{}]*\);$', re.M)


# ---- places ---------------------------------------------------------------

def binary(tokens, i):
    """Whether the operator at i stands between two values."""
    before = tokens[i - 1].group() if i else ''
    return bool(re.match(r'[\w)\]]', before[-1:])) and before not in (
        'return', 'case', 'else')


def places_of(text):
    """(start, end, replacement) of everything that can be changed."""
    places, skipped = [], []
    tokens = []
    for token in TOKEN.finditer(text):
        if token.group('skip'):
            skipped.append(token.span())
        elif not token.group().isspace():
            tokens.append(token)
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
                       for new in sorted({number + 1, max(number - 1, 0)} -
                                         {number})]
        elif word == 'if' and tokens[i + 1].group() == '(':
            at = tokens[i + 1].end()
            places += [(at, at, '0 && '), (at, at, '1 || ')]
    # a call whose result nobody takes
    places += [(m.start(1) + len(m.group(1)), m.end(), ';')
               for m in CALL.finditer(text)]
    blank = list(text)
    for start, end in skipped:
        blank[start:end] = ' ' * (end - start)
    blank = ''.join(blank)
    return [p for p in places if is_code(text, blank, p) and
            not is_same(shown(text, p)) and not is_either(text, p)]


def is_either(text, place):
    """Whether the change is that of `<` to `<=` in `a < b ? a : b`, or in
    `if (a < b) a = b;`, or the like."""
    start, end, new = place
    if (text[start:end], new) not in BORDERS:
        return False
    first = FIRST.search(text, text.rfind('\n', 0, start) + 1, start)
    second = SECOND.match(text, end)
    if not first or not second:
        return False
    compared, chosen = {first[1], second[1]}, {*second.groups()[1:]} - {None}
    return len(compared) == 2 and chosen == compared


def checkers():
    """Names of functions that are called by assertions, and by nobody else:
    in a release build they do not exist."""
    asserted, called = set(), {}
    for path in files_of(ROOT, '.c'):
        if not os.path.relpath(path, ROOT).startswith(PARTS):
            continue
        text = read(path)
        for call in re.findall(r'\bassert\((\w+)\(', text):
            asserted.add(call)
        for name in re.findall(r'(?<!^)\b(\w+)\(', text, re.M):
            called[name] = called.get(name, 0) + 1
        for name in re.findall(r'\bassert\((\w+)\(', text):
            called[name] -= 1
    return {name for name in asserted if not called[name]}


def is_same(what):
    room = ROOM.match(what)
    return bool(SAME.search(what) or
                (room and int(room.group(2)) > int(room.group(1))))


def is_code(text, blank, place):
    """Inside a function, and of a statement that a test can see."""
    line_start = text.rfind('\n', 0, place[0]) + 1
    if text[line_start:line_start + 1] not in (' ', '\t'):
        return False
    start = max(blank.rfind(c, 0, place[0]) for c in ';{}') + 1
    ends = [blank.find(c, place[0]) for c in ';{']
    end = min([e for e in ends if e >= 0], default=len(blank))
    statement = blank[start:end + 1]
    # of an `if` in one statement with what it guards
    guarded = statement.rfind(')\n', 0, place[0] - start)
    if guarded >= 0 and TEXT.match(statement, guarded + 1):
        return False
    if HINT.search(statement, 0, place[0] - start) and \
            re.match(r'[01]\)', text[place[0]:]):
        return False
    return not KEPT.search(statement) and not TEXT.match(statement)


def shown(text, place):
    """The line with the change in brackets."""
    start, end, new = place
    line_start = text.rfind('\n', 0, start) + 1
    line_end = text.find('\n', end)
    line = (text[line_start:start] + '[' + text[start:end] + ' -> ' + new +
            ']' + text[end:line_end])
    return ' '.join(line.split())


class Place:
    def __init__(self, path, text, place):
        self.path, self.place = path, place
        self.line = text.count('\n', 0, place[0]) + 1
        self.what = shown(text, place)

    def __str__(self):
        return f'{self.path}:{self.line}: {self.what[:140]}'


def read(path):
    with open(path, encoding='utf-8') as file:
        return file.read()


def write(path, text):
    with open(path, 'w', encoding='utf-8') as file:
        file.write(text)


def all_places(only):
    places, idle = [], checkers()
    for part in PARTS:
        for folder, folders, files in os.walk(os.path.join(ROOT, part)):
            folders.sort()
            for name in sorted(files):
                path = os.path.relpath(os.path.join(folder, name), ROOT)
                if not name.endswith('.c') or not path.startswith(only):
                    continue
                text = read(os.path.join(ROOT, path))
                bodies = [m.span() for name in idle for m in re.finditer(
                    rf'^{name}\(.*?^}}', text, re.M | re.S)]
                places += [Place(path, text, p) for p in places_of(text)
                           if not any(a <= p[0] < b for a, b in bodies)]
    return places


def equivalents():
    """{(path, what)} of equivalent.txt: `PATH: WHAT`, then the argument in
    lines that begin with a blank, for all places since the last argument."""
    known = set()
    for line in read(EQUIVALENT).splitlines():
        if line[:1] not in ('', ' ', '#'):
            path, what = line.split(': ', 1)
            known.add((path, what))
    return known


# ---- builds ---------------------------------------------------------------

def run(*args, env=None, cwd=None):
    return subprocess.run(args, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, env=env,
                          cwd=cwd, stdin=subprocess.DEVNULL, check=False)


def copy_sources(source):
    """Makes source equal to the tree; what is equal keeps its time."""
    wanted = set()
    for folder, folders, files in os.walk(ROOT):
        folders[:] = sorted(f for f in folders
                            if not f.startswith(('build', '.', '__')))
        for name in sorted(files):
            path = os.path.join(folder, name)
            to = os.path.join(source, os.path.relpath(path, ROOT))
            with open(path, 'rb') as file:
                data = file.read()
            wanted.add(to)
            if os.path.exists(to):
                with open(to, 'rb') as file:
                    if file.read() == data:
                        continue
            os.makedirs(os.path.dirname(to), exist_ok=True)
            with open(to, 'wb') as file:
                file.write(data)
            os.chmod(to, os.stat(path).st_mode)
    for folder, folders, files in os.walk(source):
        if folder == source and 'build' in folders:
            folders.remove('build')
        for name in files:
            if os.path.join(folder, name) not in wanted:
                os.remove(os.path.join(folder, name))


class Test:
    def __init__(self, build, found, targets):
        self.build, self.name = build, found['name']
        self.full_name = f'{found["suite"][0]} {self.name}'
        self.key = f'{os.path.basename(build)}: {self.full_name}'
        self.command = found['cmd']
        self.env = {**os.environ, **ENV, **found['env']}
        own = [targets[i] for i in found['depends'] if i in targets]
        self.targets = [os.path.relpath(name, build)
                        for target in own for name in target['filename']]
        if found['suite'][0].endswith('integration'):
            # what programs load: no dependency of the test itself
            own += [t for t in targets.values() if t['type'] == 'shared library'
                    and t not in own]
            self.targets += [os.path.relpath(name, build) for t in own
                             if t['type'] == 'shared library'
                             for name in t['filename']]
        self.sources = sorted(path for target in own
                              for group in target['target_sources']
                              for path in group.get('sources', ())
                              if '/tests/' in path and
                              not path.startswith(build))
        # a processor's, which load changes little, and by the clock; until
        # they are measured
        self.work, self.seconds = 20.0, 20.0
        self.is_timed = False  # has passed
        self.is_sound = False  # seen to pass without mutants
        self.was_late = False  # how it last failed
        self.told = collections.deque(maxlen=12)  # the last lines it printed
        self.kills = {}
        self.lines = {}  # see Lines.look

    def limit(self):
        """Seconds by the clock."""
        return (10 + 3 * self.seconds) * max(
            1, os.getloadavg()[0] / os.cpu_count())

    def compile(self):
        with BUILDING:
            return run('ninja', '-C', self.build, *self.targets)

    def fails(self, limit, stop):
        """Runs it until its first `not ok`, its end, or the limit. Passed, it
        has told how long it takes."""
        start = time.monotonic()
        end = start + limit
        self.told.clear()
        with subprocess.Popen(self.command, cwd=self.build, env=self.env,
                              stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT,
                              start_new_session=True) as child:
            failed = threading.Event()
            reader = threading.Thread(target=watch,
                                      args=(child.stdout, failed, self.told))
            reader.start()
            ended, status, used = 0, 0, None
            while not ended and not failed.is_set() and \
                    not stop.is_set() and time.monotonic() < end:
                failed.wait(0.02)
                ended, status, used = os.wait4(child.pid, os.WNOHANG)
            late = not ended
            if late:
                os.killpg(child.pid, signal.SIGKILL)
                _, status, used = os.wait4(child.pid, 0)
            child.returncode = os.waitstatus_to_exitcode(status)
            reader.join()
        self.was_late = late and not failed.is_set()
        if late or failed.is_set() or child.returncode not in (0, 77):
            return True
        # with those that it has waited for
        self.work = used.ru_utime + used.ru_stime
        self.seconds = time.monotonic() - start
        self.is_timed = True
        return False


def watch(stream, failed, told):
    size = 0
    for line in stream:
        size += len(line)
        told.append(line.decode(errors='replace'))
        if (line.startswith(b'not ok') and b'# SKIP' not in line) or size > OUTPUT_MAX:
            failed.set()
            return


def configure(source):
    """{build: [Test]}, or None after telling why not."""
    tests = {}
    if shutil.which('ld.lld'):
        os.environ['CC_LD'] = 'lld'  # links in half the time
    for name, options in BUILDS.items():
        build = os.path.join(source, 'build', name)
        env = {**os.environ, **(COUNTING if name == 'lines' else {})}
        done = run(os.path.join(source, 'tools/configure.sh'), build,
                   '-Dtests=enabled', ALL_DRIVERS, *options, env=env)
        if done.returncode != 0:
            print(done.stdout[-4000:])
            return None
        run('ninja', '-C', build, 'build.ninja')  # as the tree has it now
        targets, found = (
            json.loads(run('meson', 'introspect', build, what).stdout)
            for what in ('--targets', '--tests'))
        tests[name] = [Test(build, t, {t['id']: t for t in targets})
                       for t in found]
    return tests


def compilers_of(build, source):
    """{path: (folder, command, object)}: the command lacks its output."""
    found = {}
    for entry in json.loads(read(os.path.join(build, 'compile_commands.json'))):
        path = os.path.join(entry['directory'], entry['file'])
        words = shlex.split(entry['command'])
        words = [w for i, w in enumerate(words)
                 if w not in ('-o', '-MD', entry['file']) and
                 not {'-o', '-MF', '-MQ'} & {w, words[i - 1]}]
        found.setdefault(os.path.relpath(os.path.realpath(path), source),
                         (entry['directory'], [*words, '-x', 'c', '-', '-o'],
                          entry['output']))
    return found


def compiled(compiler, text):
    """The bytes of the text's object; None: it does not compile."""
    folder, command, _ = compiler
    with tempfile.TemporaryDirectory() as place:
        name = os.path.join(place, 'object.o')
        done = subprocess.run([*command, name], cwd=folder, input=text,
                              stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL, text=True, check=False)
        if done.returncode != 0:
            return None
        with open(name, 'rb') as file:
            return file.read()


class Lines:
    """Which lines each test comes by: looked at when a test is new, or its own
    sources are others."""

    def __init__(self, base, source, tests, jobs):
        self.build, self.source = \
            os.path.join(source, 'build', 'lines'), source
        self.path = os.path.join(base, 'lines.json')
        self.known = {}
        if os.path.exists(self.path):
            self.known = json.loads(read(self.path))
        self.marks = {}
        self.lock = threading.Lock()
        for build, names in TESTS.items():
            tests[build] = [t for t in tests[build] if names.fullmatch(t.name)]
        wanted = {t.full_name for build in TESTS for t in tests[build]}
        self.look_at_new([t for t in tests['lines'] if t.full_name in wanted],
                         jobs)
        for build in TESTS:
            for test in tests[build]:
                _, work, seconds, test.lines = self.known[test.full_name]
                slower = 1.5 if build == 'asan' else 1
                test.work, test.seconds = work * slower, seconds * slower
        self.code = self.counted(files_of(self.build, '.gcno'), True)
        for path in self.code:  # before anything is changed
            self.mark(path)

    def look(self, test):
        """[mark of its sources, work, seconds, {path: [mark, lines]}]"""
        counts = tempfile.mkdtemp(dir=os.path.dirname(self.path))
        # its counts apart from those of the tests beside it
        test.env = {**test.env, 'GCOV_PREFIX': counts}
        test.fails(600, threading.Event())
        paths = files_of(counts, '.gcda')
        for path in paths:  # gcov looks for its notes there
            note = os.path.splitext(path)[0] + '.gcno'
            os.symlink(note[len(counts):], note)
        lines = self.counted(paths, False)
        shutil.rmtree(counts)
        got = [mark_of(*test.sources), test.work, test.seconds,
               {path: [self.mark(path), of] for path, of in lines.items()}]
        with self.lock:
            self.known[test.full_name] = got
            with open(self.path, 'w', encoding='utf-8') as file:
                json.dump(self.known, file)

    def look_at_new(self, tests, jobs):
        new = [t for t in tests if self.known.get(t.full_name, [''])[0] !=
               mark_of(*t.sources)]
        if not new:
            return
        targets = sorted({name for t in new for name in t.targets})
        done = run('ninja', '-k', '0', '-C', self.build, *targets)
        if done.returncode != 0:
            print('lines of some tests are not counted, they do not build:\n'
                  f'{done.stdout[-2000:]}', flush=True)
        with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
            list(pool.map(self.look, new))

    def mark(self, path):
        if path not in self.marks:
            self.marks[path] = mark_of(os.path.join(self.source, path))
        return self.marks[path]

    def counted(self, paths, with_all):
        """{path: lines} that ran, or that are code at all."""
        lines = {}
        told = run('gcov', '--json-format', '--stdout', *paths).stdout
        for unit in told.splitlines() if paths else ():
            if not unit.startswith('{'):
                continue
            unit, _ = json.JSONDecoder().raw_decode(unit)
            for file in unit['files']:
                path = os.path.join(unit['current_working_directory'],
                                    file['file'])
                path = os.path.relpath(os.path.realpath(path), self.source)
                ran = [n['line_number'] for n in file['lines']
                       if n['count'] or with_all]
                if path.endswith('.c') and path.startswith(PARTS) and \
                        os.path.exists(os.path.join(self.source, path)):
                    lines[path] = sorted({*lines.get(path, ()), *ran})
        return lines

    def coming_by(self, place, text, tests):
        """The tests that run the place's statement. Of tables, of what only a
        process runs that ends without telling, and of files that have changed
        since: those that run anything of the file."""
        first = 1
        for end in END.finditer(text, 0, place.place[0]):
            first = text.count('\n', 0, end.start()) + 1
        lines = set(range(first, place.line + 1))
        lines &= set(self.code.get(place.path, ()))

        def comes(test):
            mark, ran = test.lines.get(place.path, ('', ()))
            return (not lines or mark != self.mark(place.path) or
                    lines & set(ran))

        every = [t for build in TESTS for t in tests[build]
                 if t.lines.get(place.path, ('', ()))[1]]
        return [t for t in every if comes(t)] or every


def mark_of(*paths):
    mark = hashlib.sha1()
    for path in paths:
        with open(path, 'rb') as file:
            mark.update(file.read())
    return mark.hexdigest()


def files_of(top, end):
    return [os.path.join(folder, name) for folder, _, files in os.walk(top)
            for name in files if name.endswith(end)]


class Times:
    """How long each test takes without mutants, kept from run to run."""

    def __init__(self, base, tests):
        self.path = os.path.join(base, 'times.json')
        self.known = {}
        if os.path.exists(self.path):
            self.known = json.loads(read(self.path))
        for test in [t for build in TESTS for t in tests[build]]:
            test.work, test.seconds = self.known.get(
                test.key, (test.work, test.seconds))

    def keep(self, tests):
        self.known.update({t.key: (t.work, t.seconds) for t in tests})
        with open(self.path, 'w', encoding='utf-8') as file:
            json.dump(self.known, file, indent=1)

    def measure(self, test):
        """Whether it passes on the sources as they are, if not at once."""
        for _ in range(3):
            built = test.compile()
            if built.returncode == 0 and \
                    not test.fails(600, threading.Event()):
                break
        else:
            print(f'{built.stdout[-1000:] if built.returncode else ""}'
                  f'{"".join(test.told)}', end='', flush=True)
            return False
        test.is_sound = True
        self.keep([test])
        return True


class Kills:
    """How many mutants of which file each test has killed, kept from run to
    run."""

    def __init__(self, base, tests):
        self.path = os.path.join(base, 'kills.json')
        self.known = {}
        if os.path.exists(self.path):
            self.known = json.loads(read(self.path))
        for test in [t for build in TESTS for t in tests[build]]:
            test.kills = self.known.setdefault(test.key, {})

    def add(self, test, path):
        test.kills[path] = test.kills.get(path, 0) + 1
        with open(self.path, 'w', encoding='utf-8') as file:
            json.dump(self.known, file, indent=1)


# ---- mutants --------------------------------------------------------------

class Batch:
    """Tests that are built together: what ninja takes to begin is much."""

    def __init__(self, tests, is_built):
        self.tests = tests
        self.is_built = is_built or None  # not yet

    def compile(self):
        with BUILDING:
            if self.is_built is None:
                targets = {}
                for test in self.tests:
                    targets.setdefault(test.build, []).extend(test.targets)
                self.is_built = all(
                    run('ninja', '-C', build, *of).returncode == 0
                    for build, of in targets.items())
        return self.is_built


def judge(path, tests, is_built, jobs, patience):
    """The Test that killed it, or what it survived."""
    asked, killed = [], []
    stop, asking = threading.Event(), threading.Lock()

    def attempt(test, batch):
        with asking:
            # those that have run tell their work, the others what it was
            if stop.is_set() or \
                    test.work + sum(t.work for t in asked) > patience:
                return
            asked.append(test)
        if not batch.compile():
            print(f'{path}: does not build', flush=True)
            stop.set()
        elif test.fails(test.limit(), stop) and not stop.is_set():
            killed.append(test)
            stop.set()

    tests.sort(key=lambda t: t.work / (1 + 3 * t.kills.get(path, 0)))
    batches, size = [], jobs
    while len(batches) < len(tests):
        batch = Batch(tests[len(batches):len(batches) + size], is_built)
        batches += [batch] * len(batch.tests)
        size *= 2
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        list(pool.map(attempt, tests, batches))
    return (killed[0] if killed else
            f'survived {len(asked)} of {len(tests)} tests')


# What a file with switched mutants begins and ends with. The number is there
# before any other constructor needs it.
HEAD = """#pragma GCC diagnostic ignored "-Wpedantic"
#pragma GCC diagnostic ignored "-Warray-bounds"
#pragma GCC diagnostic ignored "-Wstringop-overflow"
static int mutant_now;
#line 1
"""
TAIL = """
#include <fcntl.h>
#include <unistd.h>
__attribute__((constructor(101))) static void
mutant_read(void)
{
    char digits[8] = "";
    int fd = open("%s", O_RDONLY | O_CLOEXEC);

    if (fd >= 0 && read(fd, digits, sizeof(digits) - 1) > 0)
        for (const char *c = digits; *c; c++)
            mutant_now = mutant_now * 10 + *c - '0';
    if (fd >= 0)
        close(fd);
}
"""
BODY = re.compile(r'^(?P<type>\w[^\n]*)\n(?:\w[^\n]*\n)?\w+\((?:[^{};]*)\)\n\{\n'
                  r'(?P<body>.*?)^\}', re.M | re.S)
LABEL = re.compile(r'^ *(?!default)(\w+):$', re.M)


def changed(text, place):
    start, end, new = place
    return text[:start] + new + text[end:]


def body_of(text, place):
    """The function's body around the place, or None."""
    for body in BODY.finditer(text):
        if body.start('body') <= place[0] and place[1] <= body.end('body'):
            return body
    return None


def switched(text, mutants, path):
    """The text with all mutants of it, [(number, place)], of which the one
    runs whose number is in the file at path."""
    parts = {}
    for number, place in mutants:
        body = body_of(text, place)
        at = body.start('body')
        own = changed(body['body'],
                      (place[0] - at, place[1] - at, place[2]))
        labels = ''.join(f'__label__ {label};\n'
                         for label in LABEL.findall(own))
        back = 'return;\n' if re.search(r'\bvoid$', body['type']) else ''
        parts.setdefault(at, []).append(
            f'if (mutant_now == {number}) {{\n{labels}{own}{back}}}\n')
    for at in sorted(parts, reverse=True):
        line = text.count('\n', 0, at) + 1
        text = (text[:at] + ''.join(parts[at]) + f'#line {line}\n' + text[at:])
    return HEAD + text + TAIL % path


class Mutator:
    def __init__(self, source, base, tests, jobs, patience):
        self.source, self.tests, self.jobs = source, tests, jobs
        self.patience = patience
        self.kills = Kills(base, tests)
        self.now = os.path.join(base, 'now')  # the number of the mutant
        write(self.now, '0')
        self.lines = Lines(base, os.path.realpath(source), tests, jobs)
        release = os.path.join(source, 'build', 'release')
        self.compilers = compilers_of(release, os.path.realpath(source))
        self.right = {}  # objects of the sources as they are
        self.n_same = 0
        # with what is generated for them
        run('ninja', '-k', '0', '-C', release,
            *(output for path, (_, _, output) in self.compilers.items()
              if path.startswith(PARTS)))
        self.times = Times(base, tests)

    def compile(self):
        """All tests at once, and not test by test."""
        for build in TESTS:
            done = run('ninja', '-k', '0', '-C',
                       os.path.join(self.source, 'build', build),
                       *sorted({name for t in self.tests[build]
                                for name in t.targets}))
            if done.returncode != 0:
                print(f'not everything builds:\n{done.stdout[-2000:]}', flush=True)

    def counts(self, place):
        """Whether it compiles, and to other code than the right text."""
        if place.path not in self.compilers:
            return False  # this machine's builds have it not
        compiler = self.compilers[place.path]
        text = read(os.path.join(self.source, place.path))
        if place.path not in self.right:
            self.right[place.path] = compiled(compiler, text)
        got = compiled(compiler, changed(text, place.place))
        self.n_same += got == self.right[place.path]
        return got not in (None, self.right[place.path])

    def choose(self, places, n):
        """The first n that count."""
        chosen, at = [], 0
        with concurrent.futures.ThreadPoolExecutor(self.jobs) as pool:
            while len(chosen) < n and at < len(places):
                some = places[at:at + n - len(chosen)]
                at += len(some)
                chosen += [p for p, counts in
                           zip(some, pool.map(self.counts, some)) if counts]
        return chosen

    def fates(self, places):
        """(place, seconds, 'killed by TEST' or 'survived N of N tests') of each."""
        texts = {p.path: read(os.path.join(self.source, p.path))
                 for p in places}
        numbers = {}

        def switch(path):
            own = [(i + 1, p.place) for i, p in enumerate(places)
                   if p.path == path and body_of(texts[path], p.place)]
            both = switched(texts[path], own, os.path.abspath(self.now))
            if own and compiled(self.compilers[path], both) is not None:
                write(os.path.join(self.source, path), both)
                numbers.update({places[i - 1]: i for i, _ in own})
            elif own:
                print(f'{path}: not switched', flush=True)

        with concurrent.futures.ThreadPoolExecutor(self.jobs) as pool:
            list(pool.map(switch, texts))
        self.compile()
        try:
            # tables last: they take longest
            for place in sorted(places,
                                key=lambda p: numbers.get(p, len(places) + 1)):
                begun = time.monotonic()
                if place in numbers:
                    fate = self.fate(place, texts[place.path], self.now,
                                     str(numbers[place]), '0')
                else:
                    full = os.path.join(self.source, place.path)
                    fate = self.fate(place, texts[place.path], full,
                                     changed(texts[place.path], place.place),
                                     read(full))
                yield place, time.monotonic() - begun, fate
        finally:
            for path, text in texts.items():
                write(os.path.join(self.source, path), text)

    def fate(self, place, text, path, mutant, right):
        """'killed by TEST' or 'survived N of N tests'; the mutant in the file at path."""
        tests = self.lines.coming_by(place, text, self.tests)
        while True:
            try:
                write(path, mutant)
                fate = judge(place.path, tests, path == self.now, self.jobs,
                             self.patience)
            finally:
                write(path, right)
            self.times.keep([t for t in tests if t.is_timed])
            if not isinstance(fate, Test):
                return fate
            # A test that fails anyway has killed nothing, nor has one that
            # takes longer by now than it once did.
            limit = fate.limit()
            if fate.is_sound and not fate.was_late:
                sound = True
            else:
                sound = self.times.measure(fate)
                if sound and fate.limit() > 2 * limit:
                    continue
            if sound:
                self.kills.add(fate, place.path)
                return 'killed by ' + fate.name
            print(f'left out, fails without mutants: {fate.key}', flush=True)
            self.tests[os.path.basename(fate.build)].remove(fate)
            tests.remove(fate)


def option(args, name, default):
    return args[args.index(name) + 1] if name in args else default


def main():
    args = sys.argv[1:]
    if len(args) < 2 or not args[1].isdigit():
        print(__doc__.split('\n\n')[1], file=sys.stderr)
        return 2
    os.nice(max(0, 10 - os.nice(0)))
    seed = int(option(args, '--seed', int(time.time())))
    only = tuple(option(args, '--only', '').split(','))
    base, n = os.path.abspath(args[0]), int(args[1])
    jobs = int(os.environ.get('JOBS', os.cpu_count()))
    places, known = all_places(only), equivalents()
    chosen = [p for p in places if (p.path, p.what) not in known]
    print(f'seed {seed}: {len(chosen)} places, {len(places) - len(chosen)} '
          'equivalent ones aside', flush=True)
    if '--list' in args:
        for place in chosen:
            print(place)
        for path, what in sorted(known - {(p.path, p.what) for p in places}):
            if path.startswith(only):
                print(f'equivalent.txt: no such place: {path}: {what}')
        return 0
    random.Random(seed).shuffle(chosen)
    source = os.path.join(base, 'source')
    copy_sources(source)
    tests = configure(source)
    if not tests:
        return 1
    mutator = Mutator(source, base, tests, jobs,
                      float(option(args, '--patience', PATIENCE)))
    chosen = mutator.choose(chosen, n)
    killed = 0
    for i, (place, seconds, fate) in enumerate(mutator.fates(chosen)):
        killed += fate.startswith('killed')
        print(f'{i + 1:4} {fate}: {place} ({seconds:.0f} s)', flush=True)
    print(f'{mutator.n_same} more were the same code')
    print(f'{killed} of {len(chosen)} mutants killed, '
          f'{100 * killed // max(len(chosen), 1)} %')
    return 0


if __name__ == '__main__':
    sys.exit(main())
