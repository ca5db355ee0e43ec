#!/usr/bin/env python3
"""Rules that can be read off the text of the sources.

usage: test_text.py SOURCE_ROOT
"""
import os
import re
import sys

from common import Tap, documents, read, sources

MAX_LINES = 1500
UNFINISHED = re.compile(r'\b(TODO|FIXME|XXX|HACK)\b')
OPCODE = re.compile(
    r'^UOP\((\w+), (\d+), (\d+), ([A-Z| ]+), (\w+), "(.*)"\)$')
OP_FLAGS = {'T', 'K', 'P', 'ALU', 'COMM', 'CMP', 'INT', 'FLT', 'EFFECT',
            'MOVE'}
OP_ARGS = {'NONE', 'INT', 'CONST', 'DIMS', 'DATA'}


def text_complaints(path, text):
    lines = text.split('\n')
    if len(lines) - 1 > MAX_LINES:
        yield f'{path} has {len(lines) - 1} lines, more than {MAX_LINES}'
    if not text.endswith('\n') or text.endswith('\n\n'):
        yield f'{path} does not end in one newline'
    for n, line in enumerate(lines, 1):
        if line != line.rstrip():
            yield f'{path}:{n}: blanks at the end'
        if '\t' in line:
            yield f'{path}:{n}: a tab'
        if path.endswith(('.c', '.h')) and UNFINISHED.search(line):
            yield f'{path}:{n}: unfinished work'


def opcode_complaints(text):
    seen = set()
    for n, line in enumerate(text.split('\n'), 1):
        if not line.startswith('UOP('):
            continue
        match = OPCODE.match(line)
        if not match:
            yield f'ops.def:{n}: not UOP(name, min, max, flags, arg, doc)'
            continue
        name, low, high, flags, arg, doc = match.groups()
        if name in seen:
            yield f'ops.def:{n}: {name} a second time'
        seen.add(name)
        if int(low) > int(high):
            yield f'ops.def:{n}: at least {low}, at most {high} sources'
        unknown = set(flags.replace(' ', '').split('|')) - OP_FLAGS
        if unknown or arg not in OP_ARGS:
            yield f'ops.def:{n}: unknown {unknown or arg}'
        if not doc.strip():
            yield f'ops.def:{n}: {name} is not documented'
    if not seen:
        yield 'ops.def lists no opcode'


def variable_complaints(root, paths):
    """docs/reference/environment.md has every variable and debug topic."""
    page = 'docs/reference/environment.md'
    documented = read(root, page)
    for path in paths:
        if path.endswith('.c') and not path.startswith('tests/'):
            for name in re.findall(r'env_get\("(BELL_\w+)"\)', read(root, path)):
                if f'`{name}`' not in documented:
                    yield f'{path}: {name} is not in {page}'
            if path != 'base/env.c' and re.search(r'\bgetenv\(',
                                                  read(root, path)):
                yield f'{path}: getenv; env_get (base/env.h) is for that'
    for topic, text in re.findall(r'{"(\w+)", LOG_\w+, "(.*)"}',
                                  read(root, 'base/log.c')):
        if f'| `{topic}` | {text} |' not in documented:
            yield f'debug topic {topic} is not in {page}'


README_LINES = 120  # what a newcomer reads


def document_complaints(root):
    """Links lead somewhere; the index has every page; the walk names what is
    there; the README's program is the example."""
    for name in documents(root):
        for target in re.findall(r'\]\(([^)#:]+)\)', read(root, name)):
            path = os.path.join(root, os.path.dirname(name), target)
            if not os.path.exists(path):
                yield f'{name}: {target} does not exist'
    code = '\n'.join(read(root, path) for path in sources(root, ('.c', '.h')))
    for name in re.findall(r'`(?:struct )?([a-z]\w*_\w+)`',
                           read(root, 'docs/explanation/architecture.md')):
        if not re.search(rf'^(?:\S.*[ *]|struct )?{name}(?:\(| {{)', code,
                         re.M):
            yield f'docs/explanation/architecture.md: nothing is called {name}'
    index = read(root, 'docs/README.md')
    for name in documents(root):
        if (name.startswith('docs/') and name != 'docs/README.md' and
                f']({name[len("docs/"):]})' not in index):
            yield f'docs/README.md does not list {name}'
    program = read(root, 'examples/first.c').split('*/\n', 1)[1]
    if f'```c\n{program}```' not in read(root, 'README.md'):
        yield 'README.md: the first program is not examples/first.c'
    n_lines = read(root, 'README.md').count('\n')
    if n_lines > README_LINES:
        yield f'README.md: {n_lines} lines, at most {README_LINES}'


def reason_complaints(path, text):
    """A BELL_BAD_ is what bell_fail takes, no status; tensors say why."""
    for match in re.finditer(r'(return|[=!]=|[^=!<>]=)\s+BELL_(BAD_|WHY)', text):
        line = text.count('\n', 0, match.start()) + 1
        yield f'{path}:{line}: a reason where a status belongs'
    if path.startswith('tensor/') and path != 'tensor/runtime/reference_tensor.c':
        for match in re.finditer(
                r'\b(?:bell|tensor)_fail(?:_at)?\([^;"]*BELL_E_INVALID', text):
            line = text.count('\n', 0, match.start()) + 1
            yield f'{path}:{line}: refused without a reason (BELL_BAD_...)'


def memory_complaints(path, text):
    """A message of BELL_E_NO_MEMORY says so, in the same words everywhere."""
    for match in re.finditer(r'\w*fail\w*\(\s*([^;]*?BELL_E_NO_MEMORY[^;]*)\);',
                             text):
        words = ' '.join(re.findall(r'"((?:[^"\\]|\\.)*)"', match.group(1)))
        if words and not re.search('out +of +memory', words):
            line = text.count('\n', 0, match.start()) + 1
            yield f'{path}:{line}: "{words}" does not say "out of memory"'


# What the system refuses for more than one reason, and how the reason is told.
SYSTEM_CALL = re.compile(
    r'(?<![\w.>])(dlopen|pthread_create|memfd_create|mmap|openat|open|mkdtemp|'
    r'mkstemp|ftruncate|posix_fallocate|posix_spawn|fork|shm_open|eventfd)'
    r'\((?!\))')
TOLD = re.compile(r'errno|dlerror|strerror|thread_fail|fail_file|file_failed|'
                  r'file_fail|return -?error')
# Functions whose failure is no failure of their caller's, and who says it.
UNTOLD = {
    ('base/new_file.c', 'hash_boot'): 'works without',
    ('base/new_file.c', 'sweep_one'): 'works without',
    ('hcq/cpu/cpu_device.c', 'map_big'): 'mmap has one reason here: no memory',
    ('ioctl/cassette_play.c', 'play_reserve'): 'the caller tells',
    ('ioctl/cassette_write.c', 'own_command'): 'works without',
    ('ioctl/cassette_write.c', 'write_first_line'): 'works without',
    ('ioctl/kio_replay.c', 'map_memory'): 'mmap has one reason: no memory',
    ('sim/amd/kfd/kfd_window.c', 'hold_page'): 'the store goes to the card',
    ('sim/amd/kfd/kfd_window.c', 'let_arrive'): 'replaces a mapping',
    ('sim/nv/rm/rm_memory.c', 'map_aligned'): 'the caller tells errno',
    ('sim/nv/rm/rm_memory.c', 'revoke_mappings'): 'works without',
    ('sim/nv/sim_nv.c', 'make_memory_file'): 'the caller tells errno',
    ('tensor/runtime/compile.c', 'rt_compile_jobs'): 'works with fewer threads',
    ('tools/bench/bench_host.c', 'time_handoffs'): 'measures nothing',
    ('tools/burn/burn.c', 'burn_all'): 'burns one after the other',
}


def functions(text):
    """The name, first line and text of each function."""
    for match in re.finditer(r'^(\w+)\([^;{}]*?\)\n{\n(.*?)^}', text,
                             re.M | re.S):
        yield (match.group(1), text.count('\n', 0, match.start()) + 1,
               match.group(2))


def call_complaints(path, text, seen):
    """The reason of a system call's failure is not dropped."""
    for name, line, body in functions(text):
        calls = SYSTEM_CALL.findall(re.sub(r'"(?:[^"\\]|\\.)*"', '', body))
        if not calls or TOLD.search(body):
            continue
        seen.add((path, name))
        if (path, name) not in UNTOLD:
            yield (f'{path}:{line}: {name} drops the reason why '
                   f'{calls[0]} failed')


# Whose text is all ours, or a model's, byte by byte.
PRINTS = {'tools/tool.c', 'examples/demo/train_llama.c', 'examples/demo/llama.c',
          'tools/top/top.c'}


def print_complaints(path, text):
    """Tools print through tool_printf and tool_eprintf, which escape."""
    text = re.sub(r'"(?:[^"\\\n]|\\.)*"', '""', text)
    for match in re.finditer(
            r'(?<!\w)(v?printf\(|putchar\(|puts\(|perror\(|'
            r'v?fprintf\(\s*std|f?put[cs]\([^;]*std|fwrite\([^;]*std)', text):
        if path not in PRINTS:
            line = text.count('\n', 0, match.start()) + 1
            yield f'{path}:{line}: {match.group(1)} instead of tool_printf'


def comment_complaints(root, path):
    """A source file begins by saying what it is."""
    if not re.match(r'\s*(/\*|//)', read(root, path)):
        yield f'{path} begins without a comment'


def main():
    root = sys.argv[1]
    tap = Tap()
    paths = sources(root, ('.c', '.h', '.py', '.sh', '.def', 'meson.build'))
    tap.check('length, blanks, marks', [
        c for p in paths for c in text_complaints(p, read(root, p))])
    tap.check('file comments', [
        c for p in paths
        if p.endswith(('.c', '.h')) and not p.startswith('tests/')
        for c in comment_complaints(root, p)])
    tap.check('opcodes', list(opcode_complaints(read(root, 'uops/ops.def'))))
    tap.check('environment variables',
              list(variable_complaints(root, paths)))
    tap.check('reasons of failures', [
        c for p in paths if p.endswith('.c') and not p.startswith('tests/')
        for c in reason_complaints(p, read(root, p))])
    product = [p for p in paths
               if p.endswith('.c') and not p.startswith('tests/') and
               (not p.startswith('examples/') or
                p.startswith('examples/demo/'))]
    tap.check('printing', [
        c for p in product if p.startswith(('tools/', 'examples/demo/'))
        for c in print_complaints(p, read(root, p))])
    tap.check('out of memory', [
        c for p in product for c in memory_complaints(p, read(root, p))])
    seen = set()
    told = [c for p in product
            for c in call_complaints(p, read(root, p), seen)]
    told += [f'{path}: {name} is excused without need'
             for path, name in sorted(UNTOLD.keys() - seen)]
    tap.check('reasons of system calls', told)
    tap.check('documents', list(document_complaints(root)))
    tap.finish()


if __name__ == '__main__':
    main()
