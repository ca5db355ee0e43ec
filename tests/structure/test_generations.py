#!/usr/bin/env python3
"""Generations of cards are told apart in tables: a row says what a chip, a
class or a version of descriptors does, and code asks the row. Nothing else
compares their numbers or names; simulated cards may.

usage: test_generations.py SOURCE_ROOT
"""
import re
import sys

from common import Tap, read, sources

# The tables, with what they are for.
TABLES = {
    'hcq/amd/amd_gen.c': 'the driver of AMD cards',
    'hcq/nv/nv_gen.c': 'the driver of NVIDIA cards',
    'hcq/qcom/qcom_chip.c': 'the driver of Adreno',
    'render/llvm/amdgpu_target.c': 'code of AMD cards',
    'render/ptx/ptx_target.c': 'code of NVIDIA cards',
}
NUMBER = (r'\b(?:gfx|gfx_target_version|sm|sm_version|chip_sm|code_sm|min_sm|'
          r'qmd_major|dialect|arch|(?:host|compute|copy|pm4|sdma|qmd)'
          r'_gen|(?:gpfifo|compute|copy|usermode|nv)_class)\b')
CONSTANT = (r'\b(?:(?:NV|AMD|QCOM)_\w+_GEN_(?!COUNT\b)\w+|'
            r'(?:VOLTA|TURING|AMPERE|ADA|HOPPER|BLACKWELL)_\w+)')
COMPARED = r'\s*(?:[=!<>]=|(?<!-)[<>](?![<>=]))\s*'
RULES = [re.compile(rule) for rule in (
    f'{NUMBER}{COMPARED}(?=[\\w(*&])',
    f'(?<!<){COMPARED}[\\w.\\[\\]]*(?:->\\w+)*(?:->|\\.)?{NUMBER}(?!\\()',
    f'{CONSTANT}{COMPARED}|{COMPARED}{CONSTANT}',
    r'\bstrn?cmp\([^;]*"(?:gfx|sm_)\d',
    f'switch \\([^;{{]*{NUMBER}\\)|case {CONSTANT}',
)]
# Looking for a row, by the number that it has.
LOOKUP = re.compile(r'\w+\[\w+\]\.\w+ == \w+|\b(\w+) [=!]= \1\b|'
                    r'strcmp\(\w+\[\w+\]\.')
NOT_CODE = re.compile(r'/\*.*?\*/|#include[^\n]*', re.DOTALL)


def complaints(path, text):
    code = NOT_CODE.sub(lambda m: re.sub(r'[^\n]', ' ', m[0]), text)
    for n, line in enumerate(code.split('\n'), 1):
        line = LOOKUP.sub('', line)
        if any(rule.search(line) for rule in RULES):
            yield f'{path}:{n}: compares generations: {line.strip()}'


def notices():
    """Each of these is found, none of the others."""
    for line in ('if (gen->gfx == 9) {', 'if (target->sm >= 90)',
                 'x = 90 <= e->target->sm;', 'return sm != 90;',
                 'bool has = chip.usermode_class >= HOPPER_USERMODE_A;',
                 'if (found == BLACKWELL_CHANNEL_GPFIFO_A ||',
                 'engine->host_gen == NV_HOST_GEN_C56F ? 40 : 57',
                 'if (strcmp(info.arch, "sm_100") == 0)',
                 'switch (chip->compute_class) {', 'case HOPPER_COMPUTE_A:',
                 'forms[i].min_sm <= e->target->sm)'):
        if not list(complaints('x.c', line)):
            yield f'not noticed: {line}'
    for line in ('if (gens[i].sm_version == sm_version)', 'chip->sm / 10 << 4',
                 'for (gen = 0; gen < NV_QMD_GEN_COUNT; gen++)',
                 'u->arch->sm', 'return x->n > y->sm_count;',
                 '/* from sm >= 90 on */', 'w = target->sm << 8;'):
        yield from complaints('x.c', line)


def main():
    root = sys.argv[1]
    tap = Tap()
    paths = [p for p in sources(root)
             if not p.startswith(('sim/', 'tests/')) and p not in TABLES]
    tap.check('comparisons are noticed', list(notices()))
    tap.check('generations are told apart in tables', [
        c for p in paths for c in complaints(p, read(root, p))])
    tap.finish()


if __name__ == '__main__':
    main()
