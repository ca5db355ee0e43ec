#!/usr/bin/env python3
"""Writes man pages, one a verb, and completions for shells, from the tables of
options that the program itself parses by.

usage: manual.py DOORBELL... -- VERSION FOLDER NAME...     DOORBELL: words that run it
NAME... are the files to be written there, all of them; a difference from what
there is to write is an error, so that none is forgotten where they are listed.
"""
import json
import os
import subprocess
import sys
import textwrap
import time

# What follows an option, by what its help calls it: whose names are offered.
FILES = ('FILE', 'BUNDLE', 'name=FILE', 'A', 'B', 'OTHER')
FOLDERS = ('FOLDER', 'DIR')
DEVICES = ('DEVICE', 'DEVICE2')

EXITS = (
    (0, 'done'), (1, 'checked, and failed'), (2, 'bad usage'),
    (3, 'no such device'), (4, 'no permission'),
    (5, 'the device was lost, or hung'), (6, 'not supported here'),
    (77, 'skipped'))
VARIABLES = (
    ('BELL_DEVICE', 'The device where none is named.'),
    ('BELL_MATH', 'What a GPU may do less exactly: exact, tf32, approx.'),
    ('BELL_CACHE', 'The folder of compiled kernels, or off.'),
    ('BELL_DEBUG', 'What is traced on stderr; help lists it.'),
    ('NO_COLOR', 'Where it is set, nothing is coloured.'))


def ask(doorbell, *args):
    done = subprocess.run([*doorbell, *args, '-h', '--json'], check=True,
                          capture_output=True, text=True,
                          stdin=subprocess.DEVNULL)
    return json.loads(done.stdout)


class Verb:
    """A verb, and its parts where those have options of their own."""

    def __init__(self, doorbell, row):
        self.name, self.help, self.words = (
            row['name'], row['help'], row['parts'])
        own = ask(doorbell, self.name)
        self.sections = [(None, own)]
        for part in self.words:
            document = ask(doorbell, self.name, part)
            if document['options'] != own['options']:
                self.sections.append((part, document))

    def options(self):
        """(part or None, option) of every section, in order."""
        return [(part, option) for part, document in self.sections
                for option in document['options']]


# ---- man pages ----------------------------------------------------------------

def escape(text):
    """Text as roff has it."""
    text = text.replace('\\', '\\e').replace('-', '\\-')
    lines = [('\\&' + line if line[:1] in ('.', "'") else line)
             for line in text.split('\n')]
    return '\n'.join(lines)


def flow(text):
    """A paragraph's text, in lines that roff fills anew."""
    return escape(textwrap.fill(' '.join(text.split()), 70,
                                break_long_words=False,
                                break_on_hyphens=False))


def paragraphs(text):
    """Blocks of lines; those that are indented stay as they are."""
    out = []
    for block in text.strip('\n').split('\n\n'):
        lines = block.split('\n')
        literal = [line.startswith('  ') for line in lines]
        start = 0
        while start < len(lines):
            end = start
            while end < len(lines) and literal[end] == literal[start]:
                end += 1
            part = [line for line in lines[start:end] if line]
            if part and literal[start]:
                out += ['.PP', '.nf', '.RS 2',
                        escape('\n'.join(line[2:] for line in part)),
                        '.RE', '.fi']
            elif part:
                out += ['.PP', flow(' '.join(part))]
            start = end
    return out[1:]  # a heading is a paragraph's beginning already


def option_lines(options):
    out = []
    for option in options:
        left = '\\fB' + escape(option['name']) + '\\fR'
        if option['value']:
            left += ' \\fI' + escape(option['value']) + '\\fR'
        out += ['.TP', left, flow(option['help'] + (
            '; may be given many times' if option['repeats'] and
            'many times' not in option['help'] and
            not option['is_argument'] else ''))]
    return out + ['.TP', '\\fB\\-h\\fR', 'this help']


def head(title, version, date):
    return [f'.TH {title.upper()} 1 "{date}" "doorbell {version}" '
            '"Doorbell"']


def see_also(pages):
    rows = [f'.BR {escape(page)} (1)' for page in pages]
    return ['.SH SEE ALSO'] + [row + (' ,' if row is not rows[-1] else '')
                               for row in rows]


def verb_page(verb, version, date):
    title = f'doorbell-{verb.name}'
    out = head(title, version, date) + [
        '.SH NAME', f'{escape(title)} \\- {escape(verb.help)}',
        '.SH SYNOPSIS', '.nf']
    out += ['doorbell ' + escape(document['usage'])
            for _, document in verb.sections] + ['.fi', '.SH DESCRIPTION']
    about = verb.sections[0][1]['about']
    out += paragraphs(about) if about else [flow(verb.help[:1].upper() +
                                                 verb.help[1:] + '.')]
    for part, document in verb.sections:
        if part:
            out.append(f'.SH {escape(part.upper())}')
            if document['about']:
                out += paragraphs(document['about'])
        elif document['options']:
            out.append('.SH OPTIONS')
        if document['options']:
            out += option_lines(document['options'])
    out.append('.SH EXIT STATUS')
    for code, text in EXITS:
        out += ['.TP', str(code), text]
    return '\n'.join(out + see_also(['doorbell'])) + '\n'


def main_page(verbs, version, date):
    out = head('doorbell', version, date) + [
        '.SH NAME', 'doorbell \\- tensor programs on GPUs, down to the queues',
        '.SH SYNOPSIS', '.nf', 'doorbell VERB [DEVICE] [options]',
        'doorbell VERB \\-h', 'doorbell \\-\\-version', '.fi',
        '.SH DESCRIPTION', 'Results go to stdout, all else to stderr.',
        'With \\fB\\-\\-json\\fR, stdout gets one document, also on failure.',
        '.SH VERBS']
    for verb in verbs:
        out += ['.TP', f'.BR doorbell\\-{escape(verb.name)} (1)',
                escape(verb.help)]
    out.append('.SH ENVIRONMENT')
    for name, text in VARIABLES:
        out += ['.TP', f'\\fB{name}\\fR', escape(text)]
    out.append('.SH EXIT STATUS')
    for code, text in EXITS:
        out += ['.TP', str(code), text]
    return '\n'.join(out + see_also(
        [f'doorbell-{verb.name}' for verb in verbs])) + '\n'


# ---- completion ---------------------------------------------------------------

def kind_of(option):
    """What completes the value of an option, or an argument."""
    name = option['name'] if option['is_argument'] else option['value']
    name = (name or '').rstrip('.')
    return ('files' if name in FILES else 'folders' if name in FOLDERS else
            'devices' if name in DEVICES else 'nothing')


def flags(document):
    return [option['name'] for option in document['options']
            if not option['is_argument']] + ['-h']


def argument_kind(document):
    kinds = [kind_of(option) for option in document['options']
             if option['is_argument']]
    return next((kind for kind in kinds if kind != 'nothing'), 'nothing')


BASH_HEAD = """\
# Completion of doorbell's verbs and options for bash. Words are those between
# blanks: bash's own end at "@", ":" and "=", which devices' names have inside.
_doorbell() {
    local line=${COMP_LINE:0:COMP_POINT} word= before= flags= values= kind=nothing
    local -a typed
    local n prefix
    read -ra typed <<<"$line"
    case "$line" in
    *" ") ;;
    *)
        word=${typed[${#typed[@]}-1]}
        unset "typed[${#typed[@]}-1]"
        ;;
    esac
    n=${#typed[@]}
    COMPREPLY=()
    if [ "$n" -le 1 ]; then
        COMPREPLY=($(compgen -W "@VERBS@ --version -h" -- "$word"))
        return
    fi
    if [[ $line == *" -- "* ]]; then
        COMPREPLY=($(compgen -c -f -- "$word"))
        return
    fi
    before=${typed[$n-1]}
    case "$word" in
    --*=*)
        before=${word%%=*}
        word=${word#*=}
        ;;
    esac
    case "${typed[1]} ${typed[2]}" in
"""
BASH_TAIL = """\
    esac
    prefix=${word%"${word##*[@:=]}"}
    case "$word" in
    -*)
        COMPREPLY=($(compgen -W "$flags" -- "$word"))
        return
        ;;
    esac
    case "$kind" in
    files) COMPREPLY=($(compgen -f -- "${word##*=}")) ;;
    folders) COMPREPLY=($(compgen -d -- "$word")) ;;
    devices)
        COMPREPLY=($(compgen -W "$("${typed[0]}" devices --names 2>/dev/null)" -- "$word"))
        COMPREPLY=("${COMPREPLY[@]#"$prefix"}")
        ;;
    esac
    if [ "$n" -eq 2 ] && [ -n "$values" ]; then
        COMPREPLY+=($(compgen -W "$values" -- "$word"))
    fi
}
complete -o filenames -F _doorbell doorbell
"""


def bash_case(pattern, document, words):
    out = [f'    {pattern})', f'        flags="{" ".join(flags(document))}"']
    if words:
        out.append(f'        values="{" ".join(words)}"')
    out.append(f'        kind={argument_kind(document)}')
    by_kind = {}
    for option in document['options']:
        if option['value'] and not option['is_argument']:
            by_kind.setdefault(kind_of(option), []).append(option['name'])
    if by_kind:
        out.append('        case "$before" in')
        out += [f'        {" | ".join(names)}) kind={kind} ;;'
                for kind, names in by_kind.items()]
        out.append('        esac')
    return out + ['        ;;']


def bash(verbs):
    out = [BASH_HEAD.replace('@VERBS@', ' '.join(v.name for v in verbs))
           .rstrip('\n')]
    for verb in verbs:
        for part, document in verb.sections[1:]:
            out += bash_case(f'"{verb.name} {part}"', document, [])
        out += bash_case(f'"{verb.name} "*', verb.sections[0][1], verb.words)
    return '\n'.join(out) + '\n' + BASH_TAIL


ZSH_ACTIONS = {'files': ':file:_files', 'folders': ':folder:_files -/',
               'devices': ':device:_doorbell_devices', 'nothing': ':value:'}


def zsh_quote(text):
    return "'" + text.replace("'", "'\\''") + "'"


def zsh_specs(document, words):
    specs = []
    for option in document['options']:
        help_text = option['help'].replace('\\', '\\\\')
        for sign in '[]:':
            help_text = help_text.replace(sign, '\\' + sign)
        action = ZSH_ACTIONS[kind_of(option)]
        if option['is_argument']:
            continue
        specs.append(zsh_quote(
            ('*' if option['repeats'] else '') + option['name'] +
            ('=' if option['value'] and option['name'].startswith('--')
             else '') + f'[{help_text}]' +
            (action if option['value'] else '')))
    specs.append(zsh_quote('-h[this help]'))
    if words:
        specs.append(zsh_quote(f'1:part:({" ".join(words)})'))
    specs.append(zsh_quote('*' + ZSH_ACTIONS[argument_kind(document)]))
    return specs


def zsh_case(pattern, document, words, indent):
    specs = zsh_specs(document, words)
    pad = '    ' * indent
    return [f'{pad}{pattern})', f'{pad}    _arguments -s \\'] + [
        f'{pad}        {spec}' + (' \\' if spec is not specs[-1] else '')
        for spec in specs] + [f'{pad}    ;;']


def zsh(verbs):
    out = ['#compdef doorbell', '# Completion of doorbell\'s verbs and '
           'options for zsh.', '', '_doorbell_devices() {',
           '    local -a names', '    names=(${(f)"$(doorbell devices '
           '--names 2>/dev/null)"})', '    compadd -a names', '}', '',
           '_doorbell() {', '    local -a verbs', '    local part',
           '    verbs=(']
    out += ['        ' + zsh_quote(f'{v.name}:{v.help}') for v in verbs]
    out += ['    )', '    if (( CURRENT == 2 )); then',
            '        _describe verb verbs', '        return', '    fi',
            '    shift words', '    (( CURRENT-- ))',
            '    part=${words[2]}', '    case ${words[1]} in']
    for verb in verbs:
        own = verb.sections[0][1]
        if len(verb.sections) == 1:
            out += zsh_case(verb.name, own, verb.words, 1)
            continue
        out += [f'    {verb.name})', '        case $part in']
        for part, document in verb.sections[1:]:
            out += [line.replace('    _arguments', '    shift words\n'
                                 '                (( CURRENT-- ))\n'
                                 '                _arguments')
                    for line in zsh_case(part, document, [], 3)]
        out += zsh_case('*', own, verb.words, 3)
        out += ['        esac', '        ;;']
    return '\n'.join(out + ['    esac', '}', '', '_doorbell "$@"']) + '\n'


def fish_quote(text):
    return "'" + text.replace('\\', '\\\\').replace("'", "\\'") + "'"


FISH_ARGS = {'files': '-F', 'folders': "-xa '(__fish_complete_directories)'",
             'devices': "-xa '(doorbell devices --names 2>/dev/null)'",
             'nothing': '-x'}


def fish(verbs):
    out = ["# Completion of doorbell's verbs and options for fish.",
           'complete -c doorbell -f']
    for verb in verbs:
        out.append(f'complete -c doorbell -n __fish_use_subcommand '
                   f'-a {verb.name} -d {fish_quote(verb.help)}')
    for verb in verbs:
        seen = f'__fish_seen_subcommand_from {verb.name}'
        parts = [part for part, _ in verb.sections if part]
        if verb.words:
            out.append(
                f'complete -c doorbell -n {fish_quote(seen + "; and not " "__fish_seen_subcommand_from " + " ".join(verb.words))} '
                f'-a {fish_quote(" ".join(verb.words))}')
        for part, document in verb.sections:
            when = seen
            if part:
                when += f'; and __fish_seen_subcommand_from {part}'
            elif parts:
                when += ('; and not __fish_seen_subcommand_from ' +
                         ' '.join(parts))
            row = f'complete -c doorbell -n {fish_quote(when)} '
            for option in document['options']:
                if option['is_argument']:
                    continue
                name = option['name']
                out.append(row + (f'-l {name[2:]}' if name.startswith('--')
                                  else f'-s {name[1:]}') +
                           (f' {FISH_ARGS[kind_of(option)]}'
                            if option['value'] else '') +
                           f' -d {fish_quote(option["help"])}')
            out.append(row + "-s h -d 'this help'")
            kind = argument_kind(document)
            if kind == 'files':
                out.append(row + '-F')
            elif kind != 'nothing':
                out.append(row + FISH_ARGS[kind].replace('-xa', '-a'))
    return '\n'.join(out) + '\n'


def main():
    end = sys.argv.index('--')  # the program's words are before it
    doorbell, (version, folder, *names) = sys.argv[1:end], sys.argv[end + 1:]
    verbs = [Verb(doorbell, row) for row in ask(doorbell)['verbs']]
    epoch = int(os.environ.get('SOURCE_DATE_EPOCH', time.time()))
    date = time.strftime('%Y-%m-%d', time.gmtime(epoch))
    files = {'doorbell.1': main_page(verbs, version, date),
             'doorbell': bash(verbs), '_doorbell': zsh(verbs),
             'doorbell.fish': fish(verbs)}
    for verb in verbs:
        files[f'doorbell-{verb.name}.1'] = verb_page(verb, version, date)
    if set(names) != set(files):
        sys.exit('tools/manual/meson.build does not list what there is: ' +
                 ' '.join(sorted(set(names) ^ set(files))))
    for name, text in files.items():
        with open(os.path.join(folder, name), 'w', encoding='utf-8') as file:
            file.write(text)


if __name__ == '__main__':
    main()
