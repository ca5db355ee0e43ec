#!/usr/bin/env python3
"""`doorbell send`: lines that do what they say on simulated cards, and errors
that name what is wrong; the launches by hand are in docs/tutorials/send.md.

usage: test_send.py DOORBELL
"""
import json
import os
import pty
import random
import re
import subprocess
import sys
import tempfile

from cli import DOORBELL, Tap, schema_complaints

CARDS = ('NV@sim:sm_80', 'NV@sim:sm_90', 'NV@sim:sm_120', 'AMD@sim:gfx90a',
         'AMD@sim:gfx942', 'AMD@sim:gfx1030', 'AMD@sim:gfx1100',
         'AMD@sim:gfx1201', 'QCOM@sim:a630', 'QCOM@sim:a740')
# A store of 7 to x, by each queue's own packet.
STORE = {
    'NV': 'SEM OFFSET=x PAYLOAD=7 OPERATION=RELEASE PAYLOAD_SIZE=32BIT '
          'RELEASE_WFI=1',
    'AMD': 'WRITE_DATA DST_SEL=MEMORY WR_CONFIRM=1 ADDRESS=x : 7',
    'QCOM': 'MEM_WRITE ADDRESS=x : 7',
}


def send(device, lines, *args):
    done = subprocess.run([DOORBELL, 'send', device, *args],
                          input='\n'.join(lines) + '\n', capture_output=True,
                          text=True, check=False, timeout=300)
    return done.returncode, done.stdout, done.stderr


def check(tap, name, device, lines, code, pattern, *args):
    got, out, err = send(device, lines, *args)
    complaints = []
    if got != code:
        complaints.append(f'exit code {got}, expected {code}')
    if not re.search(pattern, out + err):
        complaints.append(f'no "{pattern}"')
    tap.check(name, complaints + (out + err).splitlines()[-6:]
              if complaints else [])


def check_cards(tap):
    for device in CARDS:
        store = STORE[device.split('@')[0]]
        check(tap, f'{device}: a packet by its fields', device,
              ['buffer x 64', store, 'submit', 'wait', 'expect x 7',
               'expect x+4 0xcbcbcbcb', 'store x+4 9 u64:x f32:1.5',
               'expect x+4 9 u64:x f32:1.5'], 0, 'x: as expected')
        check(tap, f'{device}: what is not', device,
              ['buffer x 64', store, 'submit', 'wait', 'expect x 8'], 1,
              r'stdin:5: x\+0 is 0x00000007, expected 0x00000008')
        check(tap, f'{device}: words without a name', device,
              ['words 0xffffffff'], 1, r'stdin:1: .*/compute1: words: .*(\?|reserved)')
        null = device.replace('@sim:', '@null:')
        check(tap, f'{null}: checked, not run', null,
              ['buffer x 64', store, 'submit', 'wait'], 0, 'x = 0x')
    check(tap, 'a copy queue', 'AMD@sim:gfx1100',
          ['buffer x 64', 'queue copy', 'FENCE MTYPE=3 ADDRESS=x DATA=5',
           'WRITE_LINEAR DST=x+4 : 6', 'submit', 'wait',
           'expect x 5 6'], 0, 'x: as expected')
    check(tap, 'a copy queue refuses what it cannot refill', 'AMD@sim:gfx1100',
          ['queue copy', 'unchecked 0 0 0xff'], 1, 'packet by packet')
    check(tap, "a card's reason is told", 'AMD@sim:gfx1100',
          ['buffer x 64', 'queue copy', 'FENCE ADDRESS=x DATA=5', 'submit',
           'wait 0.5'], 5, r'fault: FENCE .* memory type 0')
    for device, store in (('NV@sim:sm_90', STORE['NV'].replace('=x', '=0x1000')),
                          ('AMD@sim:gfx1100', 'WRITE_DATA DST_SEL=MEMORY '
                                              'ADDRESS=0x1000 : 7')):
        message = r'stdin: the end: .*memory fault at 0x1000'
        check(tap, f'{device}: a script waits at its end', device,
              [store, 'submit'], 5, 'doorbell: ' + message)
        if device.startswith('NV'):
            check(tap, 'also for a queue that it left', device,
                  [store, 'submit', 'queue copy'], 5, 'doorbell: ' + message)
        check(tap, f'{device}: a document has the fault', device,
              [store, 'submit'], 5, '"message": "' + message, '--json')
    check(tap, 'a driver\'s launch beside', 'AMD@sim:gfx1100',
          ['buffer x 64', STORE['AMD'], 'barrier', 'words 0xffff1000',
           'submit', 'wait', 'expect x 7'], 0, 'as expected')


def check_errors(tap):
    for line, message in (
            ('WRITE_DATE', "did you mean 'WRITE_DATA'"),
            ('WRITE_DATA ADDRES=0', "did you mean 'ADDRESS'"),
            ('WRITE_DATA OPCODE=1', 'WRITE_DATA.OPCODE is 55, always'),
            ('WRITE_DATA DST_SEL=MEMROY', 'not one of REGISTER, '),
            ('WRITE_DATA ENGINE=4', 'cannot be 0x4: it has 2 bits'),
            ('WRITE_DATA ADDRESS=2', 'the lowest are 0'),
            ('WRITE_DATA ADDRESS', 'is not a FIELD=VALUE'),
            ('WRITE_DATA : 1 2 x', "'x' is neither a number nor a name"),
            ('COMPUTE_USER_DATA[99] DATA=1', 'COMPUTE_USER_DATA has 16 '
                                             'elements'),
            ('COMPUTE_USER_DATA[1 DATA=1', 'expected NAME[NUMBER]'),
            ('COMPUTE_USER_DATA[x] DATA=1', 'expected NAME[NUMBER]'),
            ('COMPUTE_USER_DATA[-1] DATA=1', 'expected NAME[NUMBER]'),
            ('WRITE_DATA ADDRESS[0x]=0', 'expected NAME[NUMBER]'),
            ('WRITE_DATA ADDRESS[1]=0', 'ADDRESS has 1 elements'),
            ('COMPUTE_PGM = 1 2 3', 'COMPUTE_PGM has 2 words'),
            ('COMPUTE_PGM = 0x100000000', 'a word has 32 bits'),
            ('wirds 1', "did you mean 'words'"),
            ('words', 'usage: words WORD'),
            ('words 0x100000000', 'a word has 32 bits'),
            ('words ' + '0 ' * 257, '256 are possible'),
            ('words 0x10000000000000000', 'more than 64 bits'),
            ('words -0x80000001', 'a word has 32 bits'),
            ('words 1+', 'neither a number'), ('words 1/2', "no operation '/'"),
            ('words 08', "'08' is neither a number"),
            ('let a 1<<64', 'a shift is by 0 to 63 bits'),
            ('let a 1<<-1', 'a shift is by 0 to 63 bits'),
            ('let a 1>>64', 'a shift is by 0 to 63 bits'),
            ('store 0x10 f32:1e99', "'f32:1e99': no float is near"),
            ('store 0x10 f32:-1e-99', 'no float is near'),
            ('buffer x 0', 'buffer x: no bytes'),
            ('WRITE_DATA COUNT=5 ADDRESS=0 : 1', 'COUNT is 3 by itself with 1'),
            ('WRITE_DATA ADDRESS=0 ADDRESS=4 : 1', 'ADDRESS is set twice'),
            ('FENCE DATA=5', "no packet 'FENCE' on this queue of gfx1100: its "
                             'copy queue has it'),
            ('fields NOTHING', "no descriptor 'NOTHING', and no packet, "
                               "register or method 'NOTHING' of gfx1100"),
            ('fields FENCE', 'copy queue has it'),
            ('submit', 'nothing to submit'),
            ('queue fast', 'compute and copy'),
            ('buffer 1x 4', "'1x' is not a name"),
            ('buffer X 4', "'X' is not a name"),
            ('buffer x', 'usage: buffer NAME BYTES'),
            ('store 0x10 1', 'no buffer of this script'),
            ('read 0x10', 'no buffer'), ('read 0x10 99999', '1 to 4096 words'),
            ('put 0x10 k.qmd', "no bytes are known as 'k.qmd'"),
            ('block 0x10 AQL_DISPATCHES', "did you mean 'AQL_DISPATCH'"),
            ('kernel k /nonexistent', '/nonexistent'),
            ('kernel k /dev/null', '/dev/null'),
            ('program k /dev/null k 1 0', '/dev/null'),
            ('program k /dev/null k 100 100', '128 are possible'),
            ('program k /dev/null k 0xffffffffffffffff 1',
             '128 are possible'),
            ('exec k 1', "'k.code' is neither a number"),
            ('wait x', "'x': no seconds"), ('wait nan', 'no seconds'),
            ('fields NOTHING_LIKE_IT', 'no descriptor'),
            ('let y', 'usage: let NAME VALUE')):
        check(tap, f'refused: {line[:40]}', 'AMD@null:gfx1100',
              ['# a comment', '', line], 1,
              'stdin:3: .*' + re.escape(message))
    check(tap, 'a program of that name is gone', 'AMD@null:gfx1100',
          ['let k.code 5', 'exec k 1'], 1, "k.code is 0x5, no program's code")
    for twice in ['let a 1', 'let a 1'], ['buffer a 4', 'let a 4']:
        check(tap, f'defined twice: {twice}', 'AMD@null:gfx1100', twice, 1,
              "stdin:2: 'a' is 0x.* already")
    check(tap, 'a packet of the compute queue', 'AMD@null:gfx1100',
          ['queue copy', 'WRITE_DATA ADDRESS=0 : 1'], 1,
          'its compute queue has it')
    check(tap, 'a count as it is, floats, shifts', 'AMD@sim:gfx1100',
          ['buffer x 64', 'WRITE_DATA COUNT=3 DST_SEL=MEMORY ADDRESS=x : 1',
           'submit', 'wait', 'store x f32:inf f32:1e-40 f32:0 u64:1<<63',
           'expect x 0x7f800000 71362 0 0 0x80000000'], 0, 'as expected')
    check(tap, 'a negative word', 'AMD@null:gfx1100',
          ['unchecked -1', 'show', 'submit'], 0, 'ffffffff')
    check(tap, 'words that nobody submitted', 'AMD@null:gfx1100',
          ['words 0xffff1000'], 1, 'not submitted')
    check(tap, 'no card', 'CPU', ['help'], 6, 'no words of its own')
    check(tap, 'no script', 'AMD@null:gfx1100', [], 1, 'No such file',
          '--script', '/nonexistent')
    check(tap, 'a folder for a script', 'AMD@null:gfx1100', [], 1,
          '/: cannot read: Is a directory', '--script', '/')
    check(tap, 'a long line', 'AMD@null:gfx1100', ['#' * 5000], 1,
          'at most 4094 bytes')
    check(tap, 'fields', 'NV@null:sm_90', ['fields LAUNCH'], 0,
          r'GRID_WIDTH, 32 bits(.|\n)*CONSTANT_BUFFER_ADDR\[0 to 7\]')
    check(tap, 'help', 'NV@null:sm_90', ['help'], 0, 'expect PLACE VALUE')


def check_document(tap):
    _, out, _ = send('AMD@sim:gfx1100',
                     ['buffer x 64', STORE['AMD'], 'submit', 'wait', 'read x'],
                     '--json')
    complaints = schema_complaints('send', out)
    if not complaints and not json.loads(out)['lines'][-1].endswith('00000007'):
        complaints = [out]
    tap.check('a document', complaints)


def check_terminal(tap):
    """Typed: a mistake does not end it."""
    master, slave = pty.openpty()
    lines = ['buffer x 64', 'WRITE_DATA NO=1', 'words 0xffffffff',
             STORE['AMD'], 'submit', 'wait', 'read x', 'quit']
    with subprocess.Popen([DOORBELL, 'send', 'AMD@sim:gfx1100'], stdin=slave,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True) as process:
        os.write(master, ('\n'.join(lines) + '\n').encode())
        out, _ = process.communicate(timeout=300)
    os.close(master)
    os.close(slave)
    tap.check('typed', [] if ': 00000007' in out and '(send) ' in out and
              "no field 'NO'" in out else out.splitlines())


def check_random(tap):
    """Lines of pieces of others: an error or none, no crash."""
    draw = random.Random(7)
    pieces = ['WRITE_DATA', 'COMPUTE_PGM', 'COMPUTE_USER_DATA[1]', '[', '=',
              'ADDRESS=x', 'ADDRESS=', '=3', ':', 'x', 'x+', '1<<63', '-1',
              'words', 'unchecked', 'store', 'set', 'block', 'AQL_PM4',
              'INDIRECT_BUFFER[9]=1', 'barrier', 'show', 'submit', 'wait',
              'fields', 'expect', 'u64:', 'f32:', 'f32:1e99', 'NOP', '1 ' * 200,
              'KERNEL_DESCRIPTOR', 'let', 'queue', 'copy', 'FENCE', '%s%n']
    bad = []
    for _ in range(150):
        lines = ['buffer x 4096']
        lines += [' '.join(draw.choice(pieces)
                           for _ in range(draw.randint(1, 5)))
                  for _ in range(4)]
        code, _, err = send('AMD@null:gfx1100', lines)
        if code not in (0, 1, 6):
            bad.append(f'{code}: {lines}: {err}')
    tap.check('random lines', bad)


def main():
    tap = Tap()
    check_cards(tap)
    check_errors(tap)
    check_document(tap)
    check_terminal(tap)
    check_random(tap)
    tap.finish()


if __name__ == '__main__':
    main()
