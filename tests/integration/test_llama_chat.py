#!/usr/bin/env python3
"""`doorbell demo llama` as one who reads along and answers sees it: whole
characters, and conversations of several messages against plain Python.

usage: test_llama_chat.py DOORBELL
"""
import json
import math
import os
import random
import socket
import struct
import subprocess
import tempfile

from cli import DOORBELL, Tap, expect
from gguf_write import gguf_list, gguf_meta, gguf_text, text
from test_llama import Files, forward, make_model, write_gguf

CHATML = ['<|endoftext|>', '<|im_start|>', '<|im_end|>']
LLAMA3 = ['<|begin|>', '<|start_header_id|>', '<|end_header_id|>',
          '<|eot_id|>']
CONTEXT = 128


def byte_characters():
    """GPT-2's: the printable ones as they are, the others from 256 on."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [b for b in range(256) if b not in plain]
    return [chr(b) if b in plain else chr(256 + others.index(b))
            for b in range(256)]


class Vocabulary:
    """Tokens that are bytes, and some that are none; SentencePiece has a
    space besides."""

    def __init__(self, specials, pre):
        self.pre, self.specials = pre, specials
        if pre:
            self.tokens = byte_characters() + specials
            self.first_byte = 0
        else:
            self.tokens = ['<unk>', *specials, '\u2581'] + [
                f'<0x{b:02X}>' for b in range(256)]
            self.first_byte = 2 + len(specials)

    def ids(self, *parts):
        """Parts are specials, or text."""
        out = []
        for part in parts:
            if part in self.specials:
                out.append(self.tokens.index(part))
            else:
                out += [self.tokens.index('\u2581')
                        if b == 32 and not self.pre else self.first_byte + b
                        for b in part.encode()]
        return out

    def bytes_of(self, ids):
        return b''.join(bytes([i - self.first_byte])
                        if 0 <= i - self.first_byte < 256 else
                        b' ' if self.tokens[i] == '\u2581' else
                        b'<unk>' if i == 0 and not self.pre else b''
                        for i in ids)

    def metas(self, template, **ids):
        kinds = [3 if t in self.specials else 6 if t[:3] == '<0x' else 1
                 for t in self.tokens]
        metas = [gguf_text('general.architecture', 'llama')]
        metas += [gguf_meta('llama.' + key, 4, 'I', value) for key, value in (
            ('embedding_length', 8), ('feed_forward_length', 8),
            ('block_count', 1), ('attention.head_count', 2),
            ('attention.head_count_kv', 1), ('context_length', CONTEXT))]
        metas += [
            gguf_text('tokenizer.ggml.model', 'gpt2' if self.pre else 'llama'),
            gguf_list('tokenizer.ggml.tokens', 8,
                      [text(t) for t in self.tokens]),
            gguf_list('tokenizer.ggml.token_type', 5,
                      [struct.pack('<i', k) for k in kinds]),
            gguf_text('tokenizer.chat_template', template)]
        if self.pre:
            metas += [gguf_text('tokenizer.ggml.pre', self.pre),
                      gguf_list('tokenizer.ggml.merges', 8, [])]
        return metas + [gguf_meta(f'tokenizer.ggml.{key}_token_id', 4, 'I',
                                  self.tokens.index(name))
                        for key, name in ids.items()]

    def shape(self):
        return (8, 8, 1, 2, 1, len(self.tokens), CONTEXT)


class Model:
    def __init__(self, rng, vocabulary, end):
        self.shape = vocabulary.shape()
        self.weights = make_model(rng, self.shape, False)
        row = self.weights['classifier'][vocabulary.tokens.index(end)]
        row[:] = [3 * w for w in row]

    def converse(self, prompts, ends, n_steps):
        """Token by token: answers, whether each came to its end, and the
        least margin. prompts: tokens before each answer."""
        caches = [[] for _ in self.weights['layers']]
        answers, ended, margin, place = [], [], math.inf, 0
        left = []
        for prompt in prompts:
            todo, answer = left + prompt, []
            while True:
                for token in todo:
                    logits = forward(self.weights, self.shape, caches, token,
                                     place)
                    place += 1
                best = sorted(logits)
                margin = min(margin, best[-1] - best[-2])
                token = logits.index(best[-1])
                if token in ends:
                    left = []
                    break
                answer.append(token)
                todo = left = [token]
                if len(answer) == n_steps:
                    break
            ended.append(token in ends)
            answers.append(answer)
        return answers, ended, margin


def converse(files, lines, *args):
    return subprocess.run(
        [DOORBELL, 'demo', 'llama', '--model', files.model, '--chat',
         '--temperature', '0', '--device', 'CPU', *args],
        input=lines, capture_output=True, timeout=600, check=False)


def check_conversation(tap, files, name, vocabulary, metas, prompts, ends,
                       messages):
    """Three messages: an answer that ends, one that is cut, one more."""
    n_steps, rng = 5, random.Random(7)
    while True:
        model = Model(rng, vocabulary, ends[0])
        answers, ended, margin = model.converse(
            prompts, vocabulary.ids(*ends), n_steps)
        if ended[:2] == [True, False] and answers[0] and margin > 1e-3:
            break
    write_gguf(files.model, model.shape, model.weights, 'F32', metas)
    lines = '\n'.join(messages).encode() + b'\n'
    done = converse(files, lines, '--steps', str(n_steps))
    want = b''.join(vocabulary.bytes_of(a) + b'\n' for a in answers)
    complaints = [] if done.returncode == 0 and done.stdout == want else [
        f'{done.returncode}, {done.stdout}, not {want}: {done.stderr}']
    tap.check(f'{name}: a conversation', complaints)

    done = converse(files, lines, '--steps', str(n_steps), '--json')
    got = json.loads(done.stdout)
    complaints = []
    if got.get('prompt_tokens') != sum(prompts, []):
        complaints.append(f'{got}, not {prompts}')
    if got.get('n_new_tokens') != sum(map(len, answers)) + sum(ended):
        complaints.append(f'{got}, not {answers}')
    if got.get('n_kernels_compiled_late'):
        complaints.append(f'compiled late: {got}')
    tap.check(f'{name}: its tokens', complaints)

    done = converse(files, lines, '--steps', str(n_steps), '--prompt',
                    messages[0])
    want = vocabulary.bytes_of(answers[0]) + b'\n'
    tap.check(f'{name}: one message', [] if done.stdout == want else
              [f'{done.stdout}, not {want}: {done.stderr}'])


def check_conversations(tap, files):
    messages = ['hi', 'ab c', 'é?']
    vocabulary = Vocabulary(CHATML, 'qwen2')
    prompts = [vocabulary.ids(*before, '<|im_start|>', 'user\n', message,
                              '<|im_end|>', '\n', '<|im_start|>',
                              'assistant\n')
               for before, message in zip(
                   ((), ('<|im_end|>', '\n'), ('<|im_end|>', '\n')),
                   messages)]
    metas = vocabulary.metas("{{'<|im_start|>' + message['role']}}",
                             eos='<|endoftext|>')
    check_conversation(tap, files, 'chatml', vocabulary, metas, prompts,
                       ['<|im_end|>', '<|endoftext|>'], messages)

    vocabulary = Vocabulary(LLAMA3, 'llama-bpe')
    prompts = [vocabulary.ids(before, '<|start_header_id|>', 'user',
                              '<|end_header_id|>', '\n\n', message,
                              '<|eot_id|>', '<|start_header_id|>', 'assistant',
                              '<|end_header_id|>', '\n\n')
               for before, message in zip(
                   ('<|begin|>', '<|eot_id|>', '<|eot_id|>'), messages)]
    metas = vocabulary.metas("{{'<|start_header_id|>' + message['role']}}",
                             bos='<|begin|>', eos='<|begin|>')
    check_conversation(tap, files, 'llama3', vocabulary, metas, prompts,
                       ['<|eot_id|>', '<|begin|>'], messages)

    vocabulary = Vocabulary(['<s>', '</s>'], None)
    prompts = [vocabulary.ids(*before, f' [INST] {message} [/INST]')
               for before, message in zip(
                   (['<s>'], ['</s>', '<s>'], ['</s>', '<s>']), messages)]
    metas = vocabulary.metas("{{'[INST] ' + message['content'] + '[/INST]'}}",
                             bos='<s>', eos='</s>')
    check_conversation(tap, files, 'llama2', vocabulary, metas, prompts,
                       ['</s>', '<s>'], messages)


def check_refusals(tap, files):
    """With the last model, whose messages are long."""
    done = converse(files, b'')
    tap.check('no message', [] if done.returncode == 0 and done.stdout == b''
              else [f'{done}'])
    done = converse(files, b'\n\n')
    tap.check('empty lines', [] if done.returncode == 0 and done.stdout == b''
              else [f'{done}'])
    done = converse(files, b'a' * 60 + b'\n' + b'b' * 60 + b'\n', '--steps',
                    '2')
    tap.check('a conversation that is too long',
              [] if done.returncode == 2 and done.stdout.count(b'\n') == 1 and
              b"model's context has 128" in done.stderr else [f'{done}'])
    done = converse(files, b'a\0b\n')
    tap.check('a message with a zero byte', [] if done.returncode == 2 and
              b'zero byte' in done.stderr else [f'{done}'])
    done = converse(files, b'a')
    tap.check('a last line without its end',
              [] if done.returncode == 0 and done.stdout.endswith(b'\n')
              else [f'{done}'])
    nth, complaints = 1, []
    while not complaints:
        os.environ['BELL_FAIL_ALLOC'] = str(nth)
        done = converse(files, b'a\nb\n', '--steps', '2', '--json')
        if done.returncode == 0:
            break
        if done.returncode != 1 or json.loads(done.stdout)['error'][
                'status'] != 'out of memory':
            complaints.append(f'{nth}: {done}')
        nth += 1 + nth // 4
    del os.environ['BELL_FAIL_ALLOC']
    tap.check('out of memory', complaints)


def check_stream(tap, files):
    """Every write is one of whole characters; what is none comes as it is."""
    vocabulary = Vocabulary(CHATML, 'qwen2')
    model = Model(random.Random(3), vocabulary, '<|im_end|>')
    write_gguf(files.model, model.shape, model.weights, 'F32',
               vocabulary.metas('', eos='<|endoftext|>'))
    # Texts, and what is written of them.
    for prompt, writes in (
            (b'a\xc3\xa9b', [b'a', b'\xc3\xa9', b'b']),
            ('€😀'.encode(), ['€'.encode(), '😀'.encode()]),
            (b'\xc3\xc3\xa9', [b'\xc3', b'\xc3\xa9']),
            (b'\xf0\x9f\x98x', [b'\xf0\x9f\x98x']),
            (b'\xa9\xa9', [b'\xa9', b'\xa9']),
            (b'\xff\xe2', [b'\xff', b'\xe2']),
            (b'z\xf0\x9f\x98', [b'z', b'\xf0\x9f\x98'])):
        ours, theirs = socket.socketpair(socket.AF_UNIX,
                                         socket.SOCK_SEQPACKET)
        with ours, theirs:
            done = subprocess.run(
                [DOORBELL, 'demo', 'llama', '--model', files.model, '--prompt',
                 prompt, '--steps', '1', '--device', 'CPU'], stdout=theirs,
                stderr=subprocess.PIPE, timeout=600, check=False)
            theirs.close()
            got = []
            while (piece := ours.recv(4096)):
                got.append(piece)
        complaints = expect(
            subprocess.CompletedProcess((), done.returncode, '',
                                        done.stderr.decode()), 0)
        if got != writes + [b'\n']:
            complaints.append(f'{got}, not {writes}')
        tap.check(f'{prompt} as it comes', complaints)


def main():
    tap = Tap()
    with tempfile.TemporaryDirectory() as folder:
        files = Files(folder)
        files.tokenizer = None
        check_stream(tap, files)
        check_conversations(tap, files)
        check_refusals(tap, files)
    tap.finish()


if __name__ == '__main__':
    main()
