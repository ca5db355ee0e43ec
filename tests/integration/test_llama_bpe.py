#!/usr/bin/env python3
"""Byte-level BPE of `doorbell demo llama`: the tokens of texts as HuggingFace's
tokenizers finds them (bpe_vectors.json), conversations, hostile files.

usage: test_llama_bpe.py DOORBELL [--small]
    --small: few texts
"""
import json
import os
import random
import struct
import tempfile

from cli import Tap, expect, expect_json_error
from gguf_write import gguf_list, gguf_meta, gguf_text, text
from test_llama import SMALL, Files, make_model, write_gguf

with open(os.path.join(os.path.dirname(__file__), 'bpe_vectors.json'),
          encoding='utf-8') as vectors_file:
    VECTORS = json.load(vectors_file)
SPECIALS = ['<|endoftext|>', '<|im_start|>', '<|im_end|>',
            '<|start_header_id|>', '<|end_header_id|>', '<|eot_id|>']
N = len(VECTORS['tokens'])
ID = {name: N + i for i, name in enumerate(SPECIALS)}
TEMPLATES = {'qwen2': "{{'<|im_start|>' + message['role']}}",
             'llama-bpe': "{{'<|start_header_id|>' + message['role']}}"}


def write(files, pre, tokens=None, merges=None, template=None,
          specials=SPECIALS):
    tokens = (VECTORS['tokens'] if tokens is None else tokens) + specials
    merges = VECTORS['merges'] if merges is None else merges
    kinds = [3 if t in specials else 1 for t in tokens]
    shape = (8, 8, 1, 2, 1, len(tokens), 128)
    metas = [gguf_text('general.architecture', 'llama')]
    metas += [gguf_meta('llama.' + key, 4, 'I', value) for key, value in (
        ('embedding_length', 8), ('feed_forward_length', 8),
        ('block_count', 1), ('attention.head_count', 2),
        ('attention.head_count_kv', 1), ('context_length', 128))]
    metas += [
        gguf_text('tokenizer.ggml.model', 'gpt2'),
        gguf_text('tokenizer.ggml.pre', pre),
        gguf_list('tokenizer.ggml.tokens', 8, [text(t) for t in tokens]),
        gguf_list('tokenizer.ggml.token_type', 5,
                  [struct.pack('<i', k) for k in kinds]),
        gguf_list('tokenizer.ggml.merges', 8, [text(m) for m in merges]),
        gguf_meta('tokenizer.ggml.eos_token_id', 4, 'I', N)]
    if template:
        metas.append(gguf_text('tokenizer.chat_template', template))
    write_gguf(files.model, shape, make_model(random.Random(2), shape, True),
               'F32', metas)


def check_ids(tap, name, done, want):
    complaints = expect(done, 0)
    if not complaints and json.loads(done.stdout)['prompt_tokens'] != want:
        complaints.append(f'{done.stdout}, not {want}')
    tap.check(name, complaints)


def check_texts(tap, files):
    for pre, all_ids in VECTORS['ids'].items():
        write(files, pre)
        cases = list(zip(VECTORS['texts'], all_ids))
        for prompt, ids in cases[::4] if SMALL else cases:
            begin = [N] if pre == 'llama-bpe' or not ids else []
            done = files.demo('--prompt', prompt, '--steps', '1', '--json',
                              '--device', 'CPU')
            check_ids(tap, f'{pre}: {prompt!r}', done, begin + ids)
            got = json.loads(done.stdout)['text'] if ids[1:] else prompt
            if got != prompt:
                tap.check(f'{pre}: {prompt!r} comes back', [got])


def check_chat(tap, files):
    def ids(pre, prompt):
        return VECTORS['ids'][pre][VECTORS['texts'].index(prompt)]

    prompt = '1 22 333 4444 55555 x86_64 3.14'
    write(files, 'qwen2', template=TEMPLATES['qwen2'])
    want = ([ID['<|im_start|>']] + ids('qwen2', 'user\n') +
            ids('qwen2', prompt) + [ID['<|im_end|>']] + ids('qwen2', '\n') +
            [ID['<|im_start|>']] + ids('qwen2', 'assistant\n'))
    check_ids(tap, 'chatml', files.demo('--chat', '--prompt', prompt,
                                        '--steps', '1', '--json'), want)
    write(files, 'llama-bpe', template=TEMPLATES['llama-bpe'])
    pre, name = 'llama-bpe', ('<|start_header_id|>', '<|end_header_id|>')
    want = ([N, ID[name[0]]] + ids(pre, 'user') + [ID[name[1]]] +
            ids(pre, '\n\n') + ids(pre, prompt) +
            [ID['<|eot_id|>'], ID[name[0]]] + ids(pre, 'assistant') +
            [ID[name[1]]] + ids(pre, '\n\n'))
    check_ids(tap, 'llama3', files.demo('--chat', '--prompt', prompt,
                                        '--steps', '1', '--json'), want)
    write(files, 'qwen2', template='{{ message.content }}')
    tap.check('an unknown template', expect_json_error(
        files.demo('--chat', '--json'), 6, 'chat_template'))
    write(files, 'qwen2', template=TEMPLATES['qwen2'], specials=SPECIALS[:1])
    tap.check('a template without its token', expect_json_error(
        files.demo('--chat', '--prompt', 'a', '--json'), 1, '<|im_start|>'))


def check_refusals(tap, files):
    tokens, merges = VECTORS['tokens'], VECTORS['merges']

    def refuses(name, part, code=1, pre='gpt-2', **changes):
        write(files, pre, **changes)
        tap.check(name, expect_json_error(files.demo('--json'), code, part))

    refuses('words of another kind', 'deepseek', 6, pre='deepseek-llm')
    refuses('no token of a byte', 'of the byte 0x41',
            tokens=['\u0100\u0100' if t == 'A' else t for t in tokens])
    refuses('characters that are no bytes', 'token 3 ',
            tokens=tokens[:3] + ['\u4f60'] + tokens[4:])
    for merge in ('', ' ', 'a', 'ab', 'a ', ' a', 'a b c', 'A \u4f60',
                  'zq zq', '! ~'):
        refuses(f'the pair {merge!r}', 'pair 1,',
                merges=merges[:1] + [merge] + merges[1:])


def main():
    tap = Tap()
    with tempfile.TemporaryDirectory() as folder:
        files = Files(folder)
        files.tokenizer = None
        check_texts(tap, files)
        check_chat(tap, files)
        check_refusals(tap, files)
    tap.finish()


if __name__ == '__main__':
    main()
