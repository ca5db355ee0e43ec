"""Small tokenizers of every kind, trained on this repository's documents and
code with PyPI's tokenizers and sentencepiece."""
import glob
import io
import json
import os
import random

import sentencepiece
from tokenizers import (AddedToken, Regex, Tokenizer, decoders, models,
                        normalizers, pre_tokenizers, processors, trainers)

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..')
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|"
          r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace(r'\p{N}{1,3}', r'\p{N}')
CL100K = (r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}|"
          r" ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+")
O200K = '|'.join([
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*"
    r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+"
    r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"\p{N}{1,3}", r" ?[^\s\p{L}\p{N}]+[\r\n/]*", r"\s*[\r\n]+",
    r"\s+(?!\S)", r"\s+"])
DEEPSEEK = (r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|"
            r"[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|"
            r"\s*[\r\n]+|\s+(?!\S)|\s+")
VOCAB = 1500
SPECIALS = ['<unk>', '<s>', '</s>', '<|im_start|>']
WORLD = ('Grüße aus Köln, naïve café. Привет, мир! Καλημέρα κόσμε. 你好，世界。'
         ' こんにちは世界 カタカナ ﾊﾝｶｸ. 안녕하세요 세계. नमस्ते दुनिया। '
         'مرحبا بالعالم. שלום עולם. สวัสดีชาวโลก. Ｆｕｌｌ ｗｉｄｔｈ １２３ ﬁ ② ½ '
         'İstanbul ǅ Ⅷ x² 👍🏽 👨‍👩‍👧 ️❤️ e\u0301 a\u0308\u0323 한 \n')


def corpus():
    texts = [WORLD] * 40
    for pattern in ('docs/**/*.md', 'base/*.[ch]', 'tools/*.py'):
        for name in sorted(glob.glob(os.path.join(ROOT, pattern),
                                     recursive=True))[:40]:
            with open(name, encoding='utf-8') as file:
                texts += file.read().splitlines(keepends=True)[:300]
    return texts


def byte_bpe(pattern, texts, normalizer=None, **options):
    t = Tokenizer(models.BPE(**options))
    if normalizer:
        t.normalizer = normalizer
    if pattern:
        t.pre_tokenizer = pre_tokenizers.Sequence([
            pre_tokenizers.Split(Regex(pattern), 'isolated', invert=False),
            pre_tokenizers.ByteLevel(add_prefix_space=False,
                                     use_regex=False)])
    else:
        t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    t.decoder = decoders.ByteLevel()
    t.train_from_iterator(texts, trainers.BpeTrainer(
        vocab_size=VOCAB, special_tokens=['<|endoftext|>', '<|im_start|>'],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False))
    t.add_tokens([AddedToken('lstripped', lstrip=True),
                  AddedToken('WORD', single_word=True, normalized=False),
                  AddedToken('right', rstrip=True, normalized=False)])
    t.post_processor = processors.TemplateProcessing(
        single='<|endoftext|> $A', special_tokens=[('<|endoftext|>', 0)])
    return t


def word_piece(texts, lower):
    t = Tokenizer(models.WordPiece(unk_token='[UNK]'))
    t.normalizer = normalizers.BertNormalizer(lowercase=lower)
    t.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    t.decoder = decoders.WordPiece()
    t.train_from_iterator(texts, trainers.WordPieceTrainer(
        vocab_size=VOCAB, special_tokens=['[PAD]', '[UNK]', '[CLS]', '[SEP]',
                                         '[MASK]'], show_progress=False))
    t.post_processor = processors.BertProcessing(('[SEP]', 3), ('[CLS]', 2))
    return t


def llama_bpe(texts, legacy):
    """BPE of SentencePiece's kind, as converted files have it."""
    t = Tokenizer(models.BPE(unk_token='<unk>', fuse_unk=True,
                             byte_fallback=True))
    if legacy:
        t.normalizer = normalizers.Sequence([
            normalizers.Prepend('▁'), normalizers.Replace(' ', '▁')])
    else:
        t.pre_tokenizer = pre_tokenizers.Metaspace(
            prepend_scheme='first', split=False)
    names = SPECIALS + [f'<0x{i:02X}>' for i in range(256)]
    trained = Tokenizer(models.BPE(unk_token='<unk>', fuse_unk=True))
    trained.pre_tokenizer = pre_tokenizers.Metaspace()
    trained.train_from_iterator(texts, trainers.BpeTrainer(
        vocab_size=VOCAB, special_tokens=names, show_progress=False,
        limit_alphabet=VOCAB // 8))
    have = json.loads(trained.to_str())
    mine = json.loads(t.to_str())
    mine['model']['vocab'] = have['model']['vocab']
    mine['model']['merges'] = have['model']['merges']
    t = Tokenizer.from_str(json.dumps(mine))
    t.add_special_tokens([AddedToken(s, special=True, normalized=False)
                          for s in SPECIALS])
    t.decoder = decoders.Sequence([
        decoders.Replace('▁', ' '), decoders.ByteFallback(), decoders.Fuse(),
        decoders.Strip(' ', 1, 0)])
    t.post_processor = processors.TemplateProcessing(
        single='<s> $A', special_tokens=[('<s>', 1)])
    return t


def sp_model(texts, kind, folder, **options):
    out = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(texts), model_writer=out, model_type=kind,
        vocab_size=VOCAB, minloglevel=2, hard_vocab_limit=False,
        num_threads=1, **options)
    return out.getvalue()


RULES = ('41\t61\n42\t62\nFB01\t66 69\n65 301\tE9\nA0\t20\n3000\t20\n9\t20\n'
         'A\t20\n200B\t\n2460\t31\nFF21\t41\nBD\t31 2F 32\n')


def small_rules(folder):
    """Few rules of normalisation, for small files."""
    path = os.path.join(folder, 'rules.tsv')
    with open(path, 'w', encoding='ascii') as file:
        file.write(RULES)
    return path


def gguf(path, kind, tokens, types, scores=None, merges=None, flags=None,
         numbers=None, pre=None, chars=None):
    """Writes a file of a tokenizer alone."""
    from gguf import GGUFWriter
    w = GGUFWriter(path, 'llama')
    w.add_tokenizer_model(kind)
    if pre:
        w.add_tokenizer_pre(pre)
    w.add_token_list(tokens)
    w.add_token_types(types)
    if scores:
        w.add_token_scores(scores)
    if merges:
        w.add_token_merges(merges)
    if chars:
        w.add_precompiled_charsmap(chars)
    for name, value in (flags or {}).items():
        w.add_bool('tokenizer.ggml.' + name, value)
    for name, value in (numbers or {}).items():
        w.add_uint32('tokenizer.ggml.' + name, value)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.close()


def gguf_of_json(path, source, kind, pre=None):
    """A GGUF file of what tokenizer.json says: byte-level BPE, or BERT's."""
    with open(source, encoding='utf-8') as file:
        t = json.load(file)
    tokens = [''] * len(t['model']['vocab'])
    for text, i in t['model']['vocab'].items():
        tokens[i] = text
    types = [1] * len(tokens)
    for added in t['added_tokens']:
        if added['special']:
            types[added['id']] = 3
    if kind == 'bert':
        tokens = [x if types[i] == 3 else x[2:] if x.startswith('##') and
                  len(x) > 2 else '\u2581' + x for i, x in enumerate(tokens)]
        gguf(path, kind, tokens, types, numbers={
            'cls_token_id': 2, 'seperator_token_id': 3,
            'unknown_token_id': 1})
        return
    merges = [' '.join(m) for m in t['model']['merges']]
    gguf(path, kind, tokens, types, merges=merges, pre=pre,
         flags={'add_bos_token': True}, numbers={'bos_token_id': 0})


def gguf_of_model(path, source, kind):
    """A GGUF file of what a SentencePiece model says."""
    from sentencepiece import sentencepiece_model_pb2
    m = sentencepiece_model_pb2.ModelProto()
    with open(source, 'rb') as file:
        m.ParseFromString(file.read())
    gguf(path, kind, [p.piece for p in m.pieces], [p.type for p in m.pieces],
         scores=[p.score for p in m.pieces],
         chars=m.normalizer_spec.precompiled_charsmap or None,
         flags={'add_bos_token': False, 'add_eos_token': False,
                'add_space_prefix': m.normalizer_spec.add_dummy_prefix,
                'remove_extra_whitespaces':
                    m.normalizer_spec.remove_extra_whitespaces},
         numbers={'unknown_token_id': 0})


def charsmap(model):
    """The map of characters in a SentencePiece model, as base64."""
    from sentencepiece import sentencepiece_model_pb2  # needs protobuf
    import base64
    m = sentencepiece_model_pb2.ModelProto()
    m.ParseFromString(model)
    return base64.b64encode(m.normalizer_spec.precompiled_charsmap).decode()


def unigram(texts, normalizer, pre, **options):
    t = Tokenizer(models.Unigram())
    t.normalizer = normalizer
    t.pre_tokenizer = pre
    t.decoder = decoders.Metaspace()
    t.train_from_iterator(texts, trainers.UnigramTrainer(
        vocab_size=VOCAB, special_tokens=SPECIALS, unk_token='<unk>',
        show_progress=False))
    t.post_processor = processors.TemplateProcessing(
        single='$A </s>', special_tokens=[('</s>', 2)])
    return t


def precompiled(t, chars):
    have = json.loads(t.to_str())
    have['normalizer'] = {'type': 'Sequence', 'normalizers': [
        {'type': 'Precompiled', 'precompiled_charsmap': chars},
        {'type': 'Replace', 'pattern': {'Regex': ' {2,}'}, 'content': ' '}]}
    return Tokenizer.from_str(json.dumps(have))


def word_level(texts):
    t = Tokenizer(models.WordLevel(unk_token='[UNK]'))
    t.normalizer = normalizers.Sequence([
        normalizers.NFKD(), normalizers.StripAccents(),
        normalizers.Lowercase(), normalizers.Strip()])
    t.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Whitespace(), pre_tokenizers.Digits(False),
        pre_tokenizers.Punctuation('contiguous')])
    t.train_from_iterator(texts, trainers.WordLevelTrainer(
        vocab_size=VOCAB, special_tokens=['[UNK]'], show_progress=False))
    return t


def old_bpe(texts):
    """BPE with ends of words, as of the first GPT and CLIP."""
    t = Tokenizer(models.BPE(unk_token='<unk>', end_of_word_suffix='</w>'))
    t.normalizer = normalizers.Sequence([
        normalizers.NFC(), normalizers.Replace(Regex(r'\s+'), ' '),
        normalizers.Lowercase()])
    t.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(r"<\|startoftext\|>|'s|'t|[\p{L}]+|[\p{N}]|"
                                   r"[^\s\p{L}\p{N}]+"), 'removed',
                             invert=True)])
    t.decoder = decoders.BPEDecoder()
    t.train_from_iterator(texts, trainers.BpeTrainer(
        vocab_size=VOCAB, special_tokens=['<unk>'], show_progress=False,
        end_of_word_suffix='</w>', limit_alphabet=VOCAB // 8))
    return t


GGUF = {'gguf_gpt2': ('llama3.json', 'gpt2'),
        'gguf_bert': ('bert_lower.json', 'bert'),
        'gguf_llama': ('sp_llama.model', 'llama'),
        'gguf_t5': ('sp_t5.model', 't5')}


def make(folder, small=False):
    """Writes the files; a dict of names to (path, judge)."""
    found = sorted(path for kind in ('json', 'model', 'gguf') for path in
                   glob.glob(os.path.join(folder, '*.' + kind)))
    return load(found or train(folder, small))


def load(paths):
    out = {}
    for path in paths:
        name, kind = os.path.splitext(os.path.basename(path))
        judge = path
        if kind == '.gguf':
            judge = os.path.join(os.path.dirname(path), GGUF[name][0])
        elif kind not in ('.json', '.model'):
            continue
        out[name] = (
            path, Tokenizer.from_file(judge) if judge.endswith('.json') else
            sentencepiece.SentencePieceProcessor(model_file=judge))
    return out


def train(folder, small):
    texts = corpus()
    rules = {'normalization_rule_tsv': small_rules(folder)} if small else {}
    made = {
        'gpt2': byte_bpe(None, texts),
        'llama3': byte_bpe(LLAMA3, texts, ignore_merges=True),
        'qwen2': byte_bpe(QWEN2, texts, normalizers.NFC()),
        'cl100k': byte_bpe(CL100K, texts),
        'o200k': byte_bpe(O200K, texts),
        'deepseek': byte_bpe(DEEPSEEK, texts, normalizers.NFKC()),
        'bert_lower': word_piece(texts, True),
        'bert_cased': word_piece(texts, False),
        'llama': llama_bpe(texts, False),
        'llama_legacy': llama_bpe(texts, True),
        'unigram': unigram(
            texts, normalizers.Sequence([normalizers.Nmt(),
                                         normalizers.NFKC()]),
            pre_tokenizers.Metaspace()),
        'word_level': word_level(texts),
        'old_bpe': old_bpe(texts),
    }
    models_ = {
        'sp_unigram': sp_model(texts, 'unigram', folder,
                               character_coverage=0.995,
                               user_defined_symbols=['<user>', 'a b'],
                               **rules),
        'sp_t5': sp_model(texts, 'unigram', folder, character_coverage=0.99,
                          **rules),
        'sp_llama': sp_model(texts, 'bpe', folder, byte_fallback=True,
                             remove_extra_whitespaces=False,
                             character_coverage=0.99,
                             normalization_rule_name='identity'),
        'sp_unigram_bytes': sp_model(texts, 'unigram', folder,
                                     byte_fallback=True,
                                     remove_extra_whitespaces=False,
                                     normalization_rule_name='identity'),
        'sp_bpe': sp_model(texts, 'bpe', folder, byte_fallback=True,
                           user_defined_symbols=['<user>'],
                           **(rules or
                              {'normalization_rule_name': 'nfkc_cf'})),
        'sp_bpe_suffix': sp_model(texts, 'bpe', folder,
                                  treat_whitespace_as_suffix=True,
                                  character_coverage=0.99, **rules),
    }
    made['precompiled'] = precompiled(made['unigram'],
                                      charsmap(models_['sp_unigram']))
    paths = []
    for name, t in made.items():
        paths.append(os.path.join(folder, name + '.json'))
        # Read back once: tokenizers reads some scores one unit off.
        Tokenizer.from_str(t.to_str()).save(paths[-1])
    for name, data in models_.items():
        paths.append(os.path.join(folder, name + '.model'))
        with open(paths[-1], 'wb') as file:
            file.write(data)
    for name, (source, kind) in GGUF.items():
        source = os.path.join(folder, source)
        paths.append(os.path.join(folder, name + '.gguf'))
        if source.endswith('.json'):
            gguf_of_json(paths[-1], source, kind, 'llama-bpe')
        else:
            gguf_of_model(paths[-1], source, kind)
    return paths


BLOCKS = [(0x20, 0x7e)] * 6 + [
    (0xa0, 0x24f), (0x300, 0x36f), (0x370, 0x3ff), (0x400, 0x4ff),
    (0x590, 0x5f4), (0x600, 0x6ff), (0x900, 0x97f), (0xe00, 0xe5b),
    (0x1100, 0x11ff), (0x1e00, 0x1fff), (0x2000, 0x206f), (0x2070, 0x218b),
    (0x2190, 0x27bf), (0x3000, 0x30ff), (0x4e00, 0x9fff), (0xac00, 0xd7a3),
    (0xf900, 0xfaff), (0xfb00, 0xfb4f), (0xfe30, 0xffef), (0x1d400, 0x1d7ff),
    (0x1f300, 0x1f6ff), (0x20000, 0x2a6d6), (0, 0x1f), (0, 0xffff),
    (0x10000, 0x1ffff)]
ODD = [' ', '  ', '   ', '\n', '\r\n', '\t', '\u00a0', '\u3000', '\u200b',
       '\u200d', '\ufeff', "'s", "'LL", "'ſ", '\u2028', '\x85', '▁', 'Ġ', '</w>',
       'a b', '<user>', '<0x41>', '##']


def texts(seed, names):
    """Random texts for ever: code, languages, odd spaces, tokens' names."""
    rng = random.Random(seed)
    lines = corpus()
    while True:
        parts = []
        for _ in range(rng.randrange(1, 7)):
            kind = rng.randrange(8)
            if kind < 2:
                line = rng.choice(lines)
                at = rng.randrange(len(line) + 1)
                parts.append(line[at:at + rng.randrange(40)])
            elif kind == 2:
                parts.append(rng.choice(names))
            elif kind == 3:
                parts.append(rng.choice(ODD) * rng.randrange(1, 4))
            elif kind == 4:
                at = rng.randrange(len(WORLD))
                parts.append(WORLD[at:at + rng.randrange(1, 12)])
            else:
                first, last = rng.choice(BLOCKS)
                parts.append(''.join(
                    chr(rng.randint(first, last))
                    for _ in range(rng.randrange(1, 10))))
        text = ''.join(parts)
        yield ''.join(c for c in text if not 0xd800 <= ord(c) < 0xe000)
