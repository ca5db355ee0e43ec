"""The fenced blocks of a document, followed to the letter.

```sh          commands, run by bash in one folder; the first that fails ends it
```text        behind an sh block: lines that it printed, in this order; "..." in
               one stands for anything
```diff        a patch of the folder
```c FILE      a new file (any language)

Blocks without these, such as ```json, are for reading.
"""
import os
import re
import subprocess

BLOCK = re.compile(r'^```(\w+)(?: (\S+))?\n(.*?)^```$', re.DOTALL | re.MULTILINE)

LIMIT_S = 600  # of a block


class Broken(Exception):
    """What in the document does not hold."""


def blocks(path):
    """(line, language, file or None, text) of each."""
    with open(path, encoding='utf-8') as file:
        text = file.read()
    for match in BLOCK.finditer(text):
        yield (text.count('\n', 0, match.start()) + 1, match[1], match[2],
               match[3])


def missing(expected, printed):
    """The first line of `expected` that `printed` lacks, or None."""
    lines = iter(line.rstrip() for line in printed.split('\n'))
    for want in expected.rstrip('\n').split('\n'):
        pattern = re.compile('.*'.join(
            re.escape(part) for part in want.rstrip().split('...')))
        if not any(pattern.fullmatch(line) for line in lines):
            return want
    return None


def run(command, folder, environment, text=None):
    return subprocess.run(command, cwd=folder, env=environment, input=text,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, timeout=LIMIT_S, check=False)


def follow(path, folder, environment):
    """Does what the document says; raises Broken. Returns how many blocks."""
    printed, n = '', 0
    for line, language, name, text in blocks(path):
        where = f'{os.path.basename(path)}:{line}'
        if name:
            target = os.path.join(folder, name)
            os.makedirs(os.path.dirname(target), exist_ok=True)
            with open(target, 'x', encoding='utf-8') as file:
                file.write(text)
        elif language == 'sh':
            done = run(['bash', '-euo', 'pipefail', '-c', text], folder,
                       environment)
            printed = done.stdout
            if done.returncode:
                raise Broken(f'{where}: exit code {done.returncode}\n{printed}')
        elif language == 'diff':
            done = run(['git', 'apply', '-'], folder, environment,
                       text)
            if done.returncode:
                raise Broken(f'{where}: {done.stdout}')
        elif language == 'text':
            lost = missing(text, printed)
            if lost is not None:
                raise Broken(f'{where}: "{lost}" is not in\n{printed}')
        else:
            continue
        n += 1
    return n
