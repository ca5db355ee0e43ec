#!/usr/bin/env python3
"""Every source that a comment names can be looked up.

usage: test_citations.py SOURCE_ROOT

1. A file that a comment names is in the repository: tables (.csv), documents
   (.md), and whatever begins with one of our folders. Headings in quotes
   behind a document, such as docs/hardware/amd-queues.md, "Scratch", are
   headings there. Documents in texts of programs are there, too.
2. What follows "src:" holds one of FORMS: a file of the repository, an
   observation, or a public document by name. A project that changes (PROJECTS)
   is named with a version, there or elsewhere in the file; then functions and
   files of it may stand alone.
"""
import os
import re
import sys

from common import MODULES, Tap, read, sources

SUFFIXES = ('.c', '.h', '.def', '.regs', '.uapi', '.py', '.sh', '.ll', '.s',
            'meson.build')
# The folders whose files a comment may name, and files of other projects that
# begin like them.
OURS = re.compile(r'(?<![\w/.-])(?:%s|docs)/[\w./-]*\w\.(?:[a-z]{1,5})\b'
                  % '|'.join(MODULES))
THEIRS = re.compile(r'include/(uapi|linux)/|docs/gguf\.md\b|'
                    r'amdgpu_kernel_optimization_guide\.md\b|'
                    r'(^|/)(OUT|NAME)\.')  # and names for any
NAMED = re.compile(r'(?<![\w*<>/.-])[\w./-]*\w\.(?:md|csv)\b')
QUOTED = re.compile(r'[,;]?(?: and)? "([^"]+)"')

# Projects that change: by name, and how a version of them is written.
PROJECTS = {
    'Linux': r'Linux (?:\d|[^;.]{0,40}\b\d\.\d+)|KFD \d',
    'Mesa': r'Mesa \d',
    'LLVM': r'LLVM \d',
    'ROCr': r'(?:ROCR-Runtime|ROCr) \d',
    'tinygrad': r'tinygrad \d|commit\s+[0-9a-f]{8}',
    'open-gpu-kernel-modules':
        r'open-gpu-kernel-modules\S*(?: at)? \d|driver\s+\d{3}\.',
}
NAMES = {'Linux': r"\bLinux\b|\bthe kernel's\b|\bamdgpu_\w+\.c\b|\bKFD\b",
         'ROCr': r'\bROC[rR]\b|\blibhsakmt\b'}
FORMS = [re.compile(form) for form in (
    r'\bobserved\b',                            # card or tool, with a date
    r'\bptxas \d|\bCUDA \d|glibc \d',           # tools, by version
    # documents that do not change under their name
    r'\bopen-gpu-doc\b|\bcl[0-9a-f]{4}(qmd)?\.h\b', r'\bPTX ISA\b',
    r'\bCUDA C\+\+ Programming Guide\b', r'\bwhite papers?\b',
    r'\binstruction set guides?\b|\bISA guides?\b',
    r'\bUser Guide for AMDGPU Backend\b', r'\bRFC \d+\b', r'\bECMA-\d+\b',
    r'\bSystem V ABI\b|\bpsABI\b|\bAMD64 supplement\b', r'\bIHI 00\d\d\b',
    r"\bSoftware Developer's Manual\b|\bArchitecture Reference Manual\b",
    r'\bHSA runtime \d', r'\bOCP [\w -]+ Specification\b',
    r"\bAPPNOTE\.TXT\b", r'\bPCI (?:Express|Code)', r'\bpci\.ids\b',
    r'\barXiv\b|\barxiv\b|\b(?:19|20)\d\d\b',   # papers, by year
    r'\b[a-z_]+\(\d\)',                         # pages of the manual
    r"\bthe kernel's (?:Documentation|include|drivers|kfd_|tools)",
    r'\bDocumentation/\w+/', r'\bOpenCL-Headers\b', r'\bDLPack\b',
    r'\bonnx \d', r'\bONNX Runtime \d', r'\bprotobuf\.dev\b', r'\bggml\b', r'\bsafetensors\b', r'\bnumpy\.lib\.format\b', r'\bMNIST\b',
    r"\bCPython's\b", r'\btorch\b|\bPyTorch\b', r'\bCephes\b',
    r'\bRandom123\b', r'\bTrace Event Format\b', r'\bperfetto\b',
    r'\bdevtools-protocol\b', r'\bprometheus\.io\b', r'\bgvisor\b',
    r'\bsystemd\b', r'\bWSL\b', r'\brdma-core\b', r'\bcompiler-rt\b',
    r'\bUnicode\b', r'\bGPT-2\b|\bSentencePiece\b', r"\bMIOpen's\b",
    r'\bROCm\b', r'\bmaxas\b', r'\bCIFAR-10\b', r'\bkayfabe\b', r'\bmsm_kgsl\.h \d', r'\bllvm-project\b',
    r'\btokenizers \d|\bOniguruma\b|\bdarts-clone\b',
    r'\bmade up\b',                             # of the tests' own specs
)]
# A function, or a file of a driver, of a project that the file names.
BARE = re.compile(r'\b\w*[a-z]\w*_\w+\b|\b_?[A-Za-z]*[a-z][A-Z]\w+\b|'
                  r'\b[\w*]+\.[ch]\b')


def comments(path, text):
    """The comments of a file: each as (line, paragraphs of plain text)."""
    if path.endswith(('.c', '.h', '.def')):
        found = [(text.count('\n', 0, m.start()) + 1, m[0])
                 for m in re.finditer(r'/\*.*?\*/|"(?:\\.|[^"\\\n])*"|'
                                      r"'(?:\\.|[^'\\\n])*'|//[^\n]*", text,
                                      re.S) if m[0][0] == '/']
    elif path.endswith('.py'):
        found = [(text.count('\n', 0, m.start()) + 1, m[0])
                 for m in re.finditer(r'(?:^[ \t]*#[^\n]*\n)+|^[ \t]*"""(?!\n).*?"""|'
                                      r'[ \t]#[^\n]*\n', text, re.S | re.M)]
    else:
        found = [(text.count('\n', 0, m.start()) + 1, m[0]) for m in re.finditer(
            r'(?:^[ \t]*(?:#|;|//)[^\n]*\n?)+|^(?:src|checked|unverified):'
            r'[^\n]*\n?', text, re.M)]
    for line, comment in found:
        rows = [re.sub(r'^\s*(?:/\*+|\*(?!/)|#+|//|;+|""")? ?', '', row)
                for row in comment.split('\n')]
        paragraphs, first = [], line
        for i, row in enumerate(rows + ['']):
            if not row.strip(' */"'):
                if i > first - line:
                    paragraphs.append(
                        (first, ' '.join(' '.join(rows[first - line:i])
                                         .split())))
                first = line + i + 1
        yield from paragraphs


def headings(root, path, cache={}):
    if path not in cache:
        cache[path] = {re.sub(r'[`*]', '', m).strip() for m in
                       re.findall(r'^#+ (.*)$', read(root, path), re.M)}
    return cache[path]


def is_there(root, path, name):
    """Beside the file that names it, or from the root; made files by what
    they are made from."""
    for at in (name, os.path.join(os.path.dirname(path), name)):
        stem = os.path.splitext(at)[0]
        for made in (at, stem + '.regs', re.sub(r'_uapi$', '.uapi', stem),
                     stem + '.in'):
            if os.path.exists(os.path.join(root, made)):
                return True
    return False


def file_complaints(root, path, line, text):
    for match in list(OURS.finditer(text)) + list(NAMED.finditer(text)):
        name = match[0]
        if THEIRS.search(name):
            continue
        if not is_there(root, path, name):
            yield f'{path}:{line}: {name} is not in the repository'
        elif name.startswith('docs/') and name.endswith('.md'):
            at = match.end()
            while True:
                heading = QUOTED.match(text, at)
                if not heading:
                    break
                if heading[1] not in headings(root, name):
                    yield f'{path}:{line}: {name} has no "{heading[1]}"'
                at = heading.end()


def text_complaints(root, path, text):
    """Documents that messages and help texts name."""
    for match in re.finditer(r'(?<![\w/])docs/[\w/.-]+\.(?:md|json)', text):
        if not THEIRS.search(match[0]) and \
                not os.path.exists(os.path.join(root, match[0])):
            line = text.count('\n', 0, match.start()) + 1
            yield f'{path}:{line}: {match[0]} is not in the repository'


def source_complaints(root, path, line, text, whole):
    for cited in re.split(r'\bsrc: ', text)[1:]:
        named = [p for p in PROJECTS
                 if re.search(NAMES.get(p, rf'\b{p}\b'), cited)]
        for project in named:
            if not re.search(PROJECTS[project], whole):
                yield (f'{path}:{line}: {project} without a version: '
                       f'"{cited[:60]}"')
        if named or any(form.search(cited) for form in FORMS):
            continue
        if any(is_there(root, path, m[0]) for m in OURS.finditer(cited)):
            continue
        versions = [p for p in PROJECTS if re.search(PROJECTS[p], whole)]
        if not versions or not BARE.search(cited):
            yield f'{path}:{line}: what is "{cited[:60]}"?'


def complaints_of(root, path):
    whole = read(root, path)
    yield from text_complaints(root, path, whole)
    flat = re.sub(r'\s+(?:\* |# |// )?\s*', ' ', whole)
    for line, text in comments(path, whole):
        yield from file_complaints(root, path, line, text)
        yield from source_complaints(root, path, line, text, flat)


def main():
    root = sys.argv[1]
    tap = Tap()
    paths = [p for p in sources(root, SUFFIXES)
             if p not in ('tests/structure/test_citations.py',
                          'tools/hwgen.py', 'tools/hwgen_emit.py')]
    tap.check('citations resolve',
              sorted({c for p in paths for c in complaints_of(root, p)}))
    # The test itself: each kind of fault is found.
    good = 'docs/hardware/amd-queues.md'
    for name, line in (
            ('a file', '/* src: hw/nowhere.csv */'),
            ('a document', '/* as docs/nowhere.md says */'),
            ('a text', '"docs/nowhere.md"'),
            ('a heading', f'/* src: {good}, "Scratch", "No\n * where" */'),
            ('a version', '/* src: Mesa, si_cp_dma.c */'),
            ('nothing', '/* src: somebody */')):
        found = list(text_complaints(root, 'base/x.c', line))
        for at, text in comments('base/x.c', line):
            found += file_complaints(root, 'base/x.c', at, text)
            found += source_complaints(root, 'base/x.c', at, text, line)
        tap.check(f'{name} is noticed', [] if found else ['it is not'])
    tap.finish()


if __name__ == '__main__':
    main()
