#!/usr/bin/env python3
"""`doorbell decode`: words from files and pipes, options, exit codes.

usage: test_decode.py DOORBELL
"""
import json
import os
import struct
import subprocess
import tempfile

from cli import DOORBELL, Tap, expect, expect_json_error, run

# src: docs/hardware/nvidia-queues.md, "Test vectors"
COPY = ('20018000 c8b5 20048100 00000020 00000000 00000030 00000000 '
        '20018106 00001000 200180c0 00000182')


def pipe(text, *args):
    return subprocess.run([DOORBELL, 'decode', '--format', 'nv', *args],
                          input=text, capture_output=True, text=True,
                          timeout=60, check=False)


def check_files(tap, folder):
    path = os.path.join(folder, 'copy.bin')
    words = [int(w, 16) for w in COPY.split()]
    with open(path, 'wb') as file:
        file.write(struct.pack(f'<{len(words)}I', *words))
    done = run('decode', '--format', 'nv', path)
    tap.check('a binary file', expect(
        done, 0, out='OFFSET_IN = 00000020 00000000 {ADDRESS=0x2000000000}'))
    tap.check('the same as text', expect(pipe(COPY), 0, out=done.stdout))
    with open(path, 'ab') as file:
        file.write(b'\x00')
    tap.check('half a word', expect(
        run('decode', '--format', 'nv', path), 1, err='not whole words'))
    tap.check('no such file', expect_json_error(
        run('decode', '--format', 'nv', '--json', path + '.no'), 1,
        'cannot open'))


def pipe_amd(text, form, *args):
    return subprocess.run([DOORBELL, 'decode', '--format', form, *args],
                          input=text, capture_output=True, text=True,
                          timeout=60, check=False)


# src: docs/hardware/amd-queues.md, "Reference streams", "PM4"
def check_amd(tap):
    wait = 'c0053c00 15 00c01000 00007f00 7 ffffffff 4'
    tap.check('packets', expect(
        pipe_amd(wait, 'pm4', '--arch', 'gfx1100'), 0,
        out='WAIT_REG_MEM FUNCTION=GREATER_EQUAL SPACE=MEMORY '
            'ADDRESS=0x7f0000c01000 REFERENCE=0x7'))
    tap.check('packets of a copy engine', expect(
        pipe_amd('00000006 00000001', 'sdma', '--arch', 'gfx942'), 0,
        out='TRAP INT_CONTEXT=1'))
    tap.check('a ring of launches', expect(
        pipe_amd('0:00031502 15:0', 'aql', '--arch', 'gfx942', '--va=0x40'), 0,
        out='0x0000000040: 00031502 TYPE=KERNEL_DISPATCH'))
    tap.check('kernel descriptors', expect(
        pipe_amd('14:408 15:0', 'aql', '--arch', 'gfx1100', '--what',
                 'kernel'), 0,
        out='CODE_PROPERTIES {KERNARG_PTR=1 WAVE32=1}'))
    done = pipe_amd(wait, 'pm4', '--arch', 'gfx942', '--json')
    document = json.loads(done.stdout) if done.returncode == 0 else {}
    tap.check('packets as a document', expect(done, 0) + [
        c for c in ['format'] if document.get('format') != 'pm4'] + [
        c for c in ['what'] if document.get('what') != 'packets'])
    tap.check('another dialect', expect(
        pipe_amd('c0065800 0 0 0 0 0 0 3f0', 'pm4', '--arch', 'gfx942'), 1,
        out='00000: c0065800 ?', err='8 of 8 words'))
    tap.check('which dialect?', expect(pipe_amd(wait, 'pm4'), 2,
                                       err='which --arch?'))
    tap.check('no such dialect', expect(
        pipe_amd(wait, 'pm4', '--arch', 'gfx905'), 2, err='not one of gfx906'))
    tap.check('a dialect of the other vendor', expect(
        pipe_amd('1', 'nv', '--arch', 'gfx942'), 2, err='--sm or --class'))
    tap.check('what of it?', expect(
        pipe_amd('1', 'aql', '--arch', 'gfx942', '--what', 'push'), 2,
        err='not one of ring, kernel'))


# Words of a reference stream, and a parity bit that is wrong.
# src: docs/hardware/adreno-queues.md, "Reference streams"
def check_pkt7(tap):
    words = '70b30004 0 10 1 1 40a9dc83 4 5 6'
    tap.check('packets of Adreno', expect(
        pipe_amd(words, 'pkt7', '--arch', 'a7xx'), 0,
        out='00000: 70b30004 EXEC_CS NGROUPS_X=16 NGROUPS_Y=1 NGROUPS_Z=1\n'
            '00014: 40a9dc83 TYPE4 ADDRESS=0xa9dc COUNT_PARITY=1 COUNT=3\n'
            '  HLSQ_CS_KERNEL_GROUP_X_A7 = 00000004 {VALUE=4}\n'
            '  HLSQ_CS_KERNEL_GROUP_Y_A7 = 00000005 {VALUE=5}\n'
            '  HLSQ_CS_KERNEL_GROUP_Z_A7 = 00000006 {VALUE=6}\n'))
    # Mesa's, of the graphics half: stepped over, by their counts
    tap.check('packets of other drivers', expect(
        pipe_amd('c0012800 80000000 80000000 c0016900 200 0 c0012d00 3 2 '
                 'c0004600 407', 'pm4', '--arch', 'gfx1100'), 1,
        out='00000: c0012800 ? TYPE3 COUNT=1 OPCODE=0x28\n'
            '  ? 2 words: 80000000 80000000\n'
            '0000c: c0016900 ? TYPE3 COUNT=1 OPCODE=0x69\n'
            '  ? 2 words: 00000200 00000000\n'
            '00018: c0012d00 ? TYPE3 COUNT=1 OPCODE=0x2d\n'
            '  ? 2 words: 00000003 00000002\n'
            '00024: c0004600 EVENT_WRITE EVENT_TYPE=CS_PARTIAL_FLUSH '
            'EVENT_INDEX=PARTIAL_FLUSH\n', err='9 of 11 words'))
    tap.check('packets with a wrong parity are none', expect(
        pipe_amd('70330004', 'pkt7', '--arch', 'a6xx'), 1,
        out='00000: 70330004 ? TYPE7 OPCODE=0x33 COUNT=4 wrong parity\n', err='1 of 1 words'))


# Words of tests/golden/ir3_golden.h
def check_ir3(tap):
    words = 'c002001001808001 63850000000f0005 01000000ffffffff'
    tap.check('a shader', expect(
        pipe_amd(words, 'ir3', '--arch', 'a6xx'), 0,
        out='   0: c002001001808001 ldg.f32 r4.x, g[r0.z], 1\n'
            '   1: 63850000000f0005 mad.f32 r0.x, r1.y, r2.z, r3.w\n'
            '   2: 01000000ffffffff jump #-1 -> 1\n'))
    tap.check('instructions of another generation', expect(
        pipe_amd('e3c2000000000000', 'ir3', '--arch', 'a6xx'), 1,
        out='e3c2000000000000 ?', err='2 of 2 words'))
    tap.check('bits that nothing uses', expect(
        pipe_amd('0000000000000001 1', 'ir3', '--arch', 'a7xx'), 1,
        out='nop unused=0x1\n   1: 00000001 ? half of one'))
    text = 'ldg.f32 r4.x, g[r0.z], 1\n# nothing\n  jump #-1 // again\n\nend'
    tap.check('assembled', expect(
        pipe_amd(text, 'ir3', '--arch', 'a6xx', '--assemble'), 0,
        out='c002001001808001\n01000000ffffffff\n0300000000000000\n'))
    tap.check('nothing assembled', expect(
        pipe_amd('// nothing', 'ir3', '--arch', 'a7xx', '--json',
                 '--assemble'), 0, out='"lines": []'))
    tap.check('no instruction', expect(
        pipe_amd('nop\nhop', 'ir3', '--arch', 'a6xx', '--assemble'), 1,
        err="stdin: line 2: no instruction is 'hop'"))
    tap.check('only shaders', expect(
        pipe_amd('nop', 'pm4', '--arch', 'gfx942', '--assemble'), 2,
        err='ir3 only'))
    tap.check('which shader?', expect(
        pipe_amd('0', 'ir3'), 2, err='a6xx, a7xx'))
    tap.check('no such shader', expect(
        pipe_amd('0', 'ir3', '--arch', 'a5xx'), 2, err='not one of a6xx, a7xx'))


def main():
    tap = Tap()
    with tempfile.TemporaryDirectory() as folder:
        check_files(tap, folder)
    done = pipe(COPY, '--json')
    document = json.loads(done.stdout) if done.returncode == 0 else {}
    tap.check('as a document', expect(done, 0) + [
        c for c in ['n_words'] if document.get('n_words') != 11] + [
        c for c in ['n_unknown'] if document.get('n_unknown') != 0])
    tap.check('an unbound subchannel', expect(
        pipe('200180c0 182'), 1, out='? 0x0300', err='1 of 2 words'))
    tap.check('bound by --class', expect(
        pipe('200180c0 182', '--class', 'c8b5'), 0, out='LAUNCH_DMA'))
    tap.check('bound by --sm', expect(
        pipe('200180c0 182', '--sm', 'sm_80'), 0, out='LAUNCH_DMA'))
    tap.check('a ring', expect(
        pipe('0000a01234567000', '--what', 'ring', '--va=0x4000'), 0,
        out='0x0000004000: 0000a01234567000 GP_ENTRY GET=0x1234567000'))
    tap.check('a descriptor', expect(
        pipe('14:00500000 39:00000084 95:0', '--what', 'qmd'), 0,
        out='QMD 5, 96 words\n  QMD_MAJOR_VERSION = 0x5\n  GRID_WIDTH = 132'))
    tap.check('a descriptor of another version', expect(
        pipe('14:00500000 95:0', '--what', 'qmd', '--qmd', '4'), 1,
        out='another one'))
    tap.check('no format', expect(run('decode'), 2, err='--format'))
    tap.check('an unknown format', expect(
        run('decode', '--format', 'adreno'), 2, err='there are nv, pm4'))
    check_amd(tap)
    check_ir3(tap)
    check_pkt7(tap)
    tap.check('what?', expect(pipe('1', '--what', 'kitchen'), 2,
                              err='not one of push, ring, qmd'))
    tap.check('no such chip', expect(pipe('1', '--sm', 'sm_75'), 2,
                                     err='not one of sm_80'))
    tap.check('no such class', expect(pipe('1', '--class', '41'), 2,
                                      err='not a GPFIFO'))
    tap.check('no number', expect(pipe('20012000 gpu'), 1,
                                  err="line 1: 'gpu'"))
    tap.finish()


if __name__ == '__main__':
    main()
