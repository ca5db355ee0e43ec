#!/usr/bin/env python3
"""Writes the small tokenizers and the cases that tests/unit/test_tokenizer.c
reads: what PyPI's tokenizers and sentencepiece make of random texts.

usage: golden.py FOLDER   (tests/tokenizer/golden)
Needs `pip install tokenizers sentencepiece protobuf gguf`. A line of cases.txt
is a file's name, flags, the text and its decoded form as hexadecimal digits (-:
none), and tokens.
"""
import itertools
import os
import sys

import kinds
from compare import (NAMES, is_apart, judge_decode, judge_encode,
                     newer_characters)

KEPT = ['bert_lower', 'cl100k', 'deepseek', 'gpt2', 'llama', 'llama_legacy',
        'o200k', 'old_bpe', 'precompiled', 'qwen2', 'sp_bpe', 'sp_bpe_suffix',
        'sp_llama', 'sp_t5', 'sp_unigram', 'unigram', 'word_level',
        'gguf_gpt2', 'gguf_bert', 'gguf_llama', 'gguf_t5', 'llama3']
TEXTS = 40


def main():
    folder = sys.argv[1]
    kinds.VOCAB = 600
    newer = newer_characters()
    for name in os.listdir(folder):
        os.remove(os.path.join(folder, name))
    with open(os.path.join(folder, 'cases.txt'), 'w',
              encoding='ascii') as out:
        for name, (path, judge) in kinds.make(folder, small=True).items():
            if name not in KEPT:
                os.remove(path)
                continue
            texts = (t for t in kinds.texts(7, NAMES)
                     if not newer.intersection(t) and
                     not is_apart(name, t))
            for text in itertools.islice(texts, TEXTS):
                ids = judge_encode(judge, text)
                back = judge_decode(judge, ids)
                if '\ufffd' in back or name == 'gguf_bert':
                    back = None
                out.write(' '.join([
                    os.path.basename(path), '1', text.encode().hex(),
                    '-' if back is None else '=' + back.encode().hex(),
                    *map(str, ids)]) + '\n')
    os.remove(os.path.join(folder, 'rules.tsv'))


if __name__ == '__main__':
    main()
