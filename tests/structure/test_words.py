#!/usr/bin/env python3
"""Finds what makes text hard to read. There are no exceptions.

usage: test_words.py SOURCE_ROOT [--show [PATH]]

Rules:
  paragraph  a paragraph or list item has at most 500 characters
  of         no sentence begins with "Of"
  no         "is not a" instead of "is no"; "there is no" is ordinary English
  what       no statement has "What" or "Whoever" as its subject
  long       a sentence has at most 40 words
  line       a line of Markdown has at most 100 columns, one of a comment 80
  fence      code stands between fences: a list before it would swallow it
  reader     a page of docs/ begins with who needs it: "For ..."
  refusal    where a tensor call refuses values, it says more than the values:
             "expected 1 to 4", "must divide", "do not broadcast"

Markdown of the tree follows all rules, comments of C code all but "what" and
"long", its strings outside of tests "of" and "no". Blocks of code, tables and
targets of links are not text.

--show prints each place, of all rules, without a verdict.
"""
import collections
import re
import sys

from common import Tap, documents, read, sources

KINDS = ('paragraph', 'of', 'no', 'what', 'long', 'line', 'fence', 'reader',
         'refusal')
LONGEST_PARAGRAPH = 500
LONGEST_LINE = 100
LONGEST_SENTENCE = 40
LONGEST_COMMENT = 80

CONTENTS = 'docs/README.md' # which is for everyone
READER = re.compile(r'For |This page is for ')
OF = re.compile(r'(?<![\w-])Of (?=[a-z0-9`*(])')
OF_COMMENT = re.compile(r'(?<![\w-])Of (?=\S)')
WHAT = re.compile(r'(?:What|Whoever|Who) [^?]*[.;]$')
# Names such as sm_90 and bfloat16 may begin one.
END = re.compile(r'(?<=[.!?])\s+(?=[\[A-Z*(]|[a-z]+[\d_])')
NO = re.compile(r'(?<!there )(?<!There )\b(?:is|are|was|were) '
                r'(?:no\b(?! (?:longer|more|less|larger|wider)\b)|none of\b)'
                r'(?!\. |:)')
LINK = re.compile(r'(!?\[(?:[^][]|\[[^]]*\])*\])\([^)\s]*\)')
LITERAL = re.compile(r'//[^\n]*|/\*.*?\*/|\'(?:[^\'\\\n]|\\.)+\'|'
                     r'"(?:[^"\\\n]|\\.)*"(?:\s*"(?:[^"\\\n]|\\.)*")*', re.S)
REFUSES = re.compile(r'\b(?:tensor_fail|bell_fail(?:_at)?)\(')
# A reason has words such as these; a list of values has none.
REASON = re.compile(
    r'(?:\b(?:must|expected|cannot|not?|needs?|only|without|too|than|beyond|'
    r'twice|differ\w*|missing|already|nothing|never|none|most|least|possible|'
    r'out of|depends|changes|use|see|keeps|are|is|was|were|has|have|failed|'
    r'may|takes?|fit|goes|it was|refuses?|ends|both|truncated|promises|lacks|'
    r'neither|known|each other|share|after|owns|give|NULL|again)\b|%s$|^bell_\w+$)')
STRING = re.compile(r'"(?:[^"\\\n]|\\.)*"(?:\s*(?:PRI\w+\s*)?'
                    r'"(?:[^"\\\n]|\\.)*")*')
ITEM = re.compile(r'\s*(?:[-*+]|\d+\.) ')

Found = collections.namedtuple('Found', 'path kind line text')


def markdown_lines(text):
    """(number, line) of the lines that are not code; None ends a paragraph."""
    in_code = False
    for n, line in enumerate(text.split('\n'), 1):
        if line.lstrip().startswith('```'):
            in_code = not in_code
            yield n, None
        elif not in_code:
            yield n, line


def markdown_paragraphs(text):
    """(line, text) of each paragraph, list item and row of a table; the text
    None for each indented line of code."""
    begin, parts, after_blank = 0, [], True
    for n, line in [*markdown_lines(text), (0, None)]:
        blank = line is None or not line.strip()
        # Code; below a list item it would be the item's next paragraph,
        # which is indented by less.
        is_code = (not blank and line.startswith('    ') and after_blank and
                   not parts)
        alone = blank or line.startswith(('|', '#'))
        if parts and (alone or ITEM.match(line)):
            yield begin, ' '.join(parts)
            parts = []
        if not blank:
            if alone:
                yield n, line
            elif is_code:
                yield n, None
            else:
                begin = begin if parts else n
                parts.append(line.strip())
        after_blank = blank or is_code


def text_of(line):
    """Without the targets of links and without what is code in a line."""
    return re.sub(r'`[^`]*`', lambda m: 'X' * len(m[0]), LINK.sub(r'\1', line))


def find_words(path, line, text, of=OF):
    for kind, pattern in (('of', of), ('no', NO)):
        for match in pattern.finditer(text):
            begin = max(match.start() - 30, 0)
            yield Found(path, kind, line, text[begin:match.end() + 30])


def find_sentences(path, line, paragraph):
    for sentence in END.split(paragraph):
        n_words = len(sentence.split())
        if n_words > LONGEST_SENTENCE:
            yield Found(path, 'long', line, f'{n_words} words: {sentence[:60]}')
        if WHAT.match(sentence):
            yield Found(path, 'what', line, sentence[:60])


def find_in_markdown(path, text):
    n_found = 0
    for line, paragraph in markdown_paragraphs(text):
        if paragraph is None:
            yield Found(path, 'fence', line, 'indented code')
            continue
        n_found += 1
        if (n_found == 2 and path.startswith('docs/') and path != CONTENTS and
                not READER.match(paragraph)):
            yield Found(path, 'reader', line, paragraph[:60])
        paragraph = text_of(paragraph)
        if len(paragraph) > LONGEST_PARAGRAPH and paragraph[0] != '|':
            yield Found(path, 'paragraph', line,
                        f'{len(paragraph)}: {paragraph[:60]}')
        yield from find_words(path, line, paragraph)
        if paragraph[0] not in '|#':
            yield from find_sentences(path, line, ITEM.sub('', paragraph, 1))
    for n, line in markdown_lines(text):
        if (line and len(LINK.sub(r'\1', line)) > LONGEST_LINE and
                not line.startswith(('|', '    '))):
            yield Found(path, 'line', n, f'{len(line)}: {line[:60]}')


def comment_paragraphs(comment):
    """(offset in lines, text); "- " begins a list item, indented is code."""
    parts, begin = [], 0
    for n, line in enumerate([*comment[2:-2].split('\n'), '']):
        line = re.sub(r'^\s*\* ?', '', line) if n else line.strip()
        if parts and (not line.strip() or line.startswith((' ', '- '))):
            yield begin, ' '.join(parts)
            parts = []
        if line.strip() and not line.startswith('    '):
            begin = begin if parts else n
            parts.append(line.strip())


def find_in_comment(path, line, comment):
    for n, part in enumerate(comment.split('\n'), line):
        if len(part) > LONGEST_COMMENT and not part.startswith(' *     '):
            yield Found(path, 'line', n, f'{len(part)}: {part[:60]}')
    for offset, paragraph in comment_paragraphs(comment):
        if len(paragraph) > LONGEST_PARAGRAPH:
            yield Found(path, 'paragraph', line + offset,
                        f'{len(paragraph)}: {paragraph[:60]}')
        yield from find_words(path, line + offset, paragraph, OF_COMMENT)


def find_refusals(path, text):
    """Looks at the first string of each call that refuses something."""
    for match in REFUSES.finditer(text):
        string = STRING.search(text, match.end())
        words = re.sub(r'"\s*(?:PRI\w+\s*)?"', '', string[0])[1:-1]
        if not REASON.search(words):
            yield Found(path, 'refusal', text.count('\n', 0, match.start()) + 1,
                        words)


def find_in_code(path, text):
    if path.startswith('tensor/') and path.endswith('.c'):
        yield from find_refusals(path, text)
    for match in LITERAL.finditer(text):
        line = text.count('\n', 0, match.start()) + 1
        if match[0][0] == '"' and not path.startswith('tests/'):
            words = re.sub(r'"\s*"|\\n', lambda m: '' if m[0][0] == '"'
                           else ' ', match[0])
            yield from find_words(path, line, words)
        elif match[0].startswith('/*'):
            yield from find_in_comment(path, line, match[0])


def find_all(root):
    for path in sorted({*documents(root), *sources(root, ('.md',)),
                        'CHANGELOG.md'}):
        yield from find_in_markdown(path, read(root, path))
    for path in sources(root):
        yield from find_in_code(path, read(root, path))


SAMPLE = f"""# A title

{'A word. ' * 61}[long text](a/very/long/target/{'x' * 40})

{'Word ' * 101}

What is it? What it is, it is.

- an item. Of all items
- an item which is no item, though there is no other

| Of a table | {'x' * 600} |

    Of code that is no text

- an item

    Of code that the item would swallow

```
Of code that is no text
```
"""


def check_itself(tap):
    """The counter counts a sample as a reader does."""
    found = [(f.kind, f.line) for f in find_in_markdown('x', SAMPLE)]
    want = [('paragraph', 5), ('long', 5), ('what', 7), ('of', 9), ('no', 10),
            ('of', 12), ('fence', 14), ('fence', 18), ('line', 3), ('line', 5)]
    found += [(f.kind, f.line) for f in find_in_markdown(
        CONTENTS + '.md', '# X\n\nIt is.\n\nFor all.')]
    want += [('reader', 3)]
    code = ('f("x is" " no"); /* Of A. */ g("there is no x", \'"\', "Of it");'
            '/* it is no longer */')
    found += [(f.kind, f.line) for f in find_in_code('hcq/x.c', code)]
    found += [(f.kind, f.line) for f in find_in_code(
        'tests/x.c', '/* A.\n *\n * Of it\n * - is no\n */ f("is no");')]
    want += [('no', 1), ('of', 1), ('of', 1), ('of', 3), ('no', 4)]
    found += [(f.kind, f.line) for f in find_in_code(
        'tensor/x.c', 'tensor_fail(c,\n "%s by" " %d", s, 1);\n'
        'bell_fail(E, "%s by %d: must fit", s, 1);\ntensor_fail(c, "to %d");')]
    want += [('refusal', 1), ('refusal', 4)]
    tap.check('the counter', [
        f'expected {want}, got {found}'] if found != want else [])


def main():
    root, *options = sys.argv[1:]
    found = list(find_all(root))
    if options[:1] == ['--show']:
        for f in found:
            if f.path.startswith(options[1] if options[1:] else ''):
                print(f'{f.path}:{f.line}: {f.kind}: {f.text}')
        return
    if options:
        sys.exit(__doc__)
    tap = Tap()
    check_itself(tap)
    for kind in KINDS:
        tap.check(kind, [f'{f.path}:{f.line}: {f.text}' for f in found
                         if f.kind == kind])
    tap.finish()


if __name__ == '__main__':
    main()
