#!/usr/bin/env python3
"""Train three small byte-level BPE tokenizers in the shapes that Llama 3, Qwen and DeepSeek-V3 ship, and record what
Hugging Face's `tokenizers` makes of some texts; record also what `tiktoken` makes of them with the shipped tiny model.

Usage: make_tokenizer_goldens.py           (needs tokenizers, tiktoken; writes *_tokenizer.json and tokenizer_goldens.json)
"""
import base64
import json
import pathlib
import random

import tiktoken
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
LLAMA = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
QWEN = LLAMA.replace(r"\p{N}{1,3}", r"\p{N}")
DEEPSEEK = [r"\p{N}{1,3}", r"[一-龥぀-ゟ゠-ヿ]+",
            r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"""]
KIMI = "|".join([
    r"[\p{Han}]+",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"\p{N}{1,3}", r" ?[^\s\p{L}\p{N}]+[\r\n]*", r"\s*[\r\n]+", r"\s+(?!\S)", r"\s+"])


def split(pattern):
    return pre_tokenizers.Split(Regex(pattern), behavior="isolated", invert=False)


def train(name, steps, specials, normalizer=None, ignore_merges=False, bos=None):
    tok = Tokenizer(models.BPE(ignore_merges=ignore_merges))
    if normalizer:
        tok.normalizer = normalizer
    tok.pre_tokenizer = pre_tokenizers.Sequence(
        [split(s) for s in steps] + [pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tok.decoder = decoders.ByteLevel()
    corpus = [p.read_text(encoding="utf-8") for p in sorted((ROOT / "models" / "recipe").glob("*.md"))]
    corpus += [(ROOT / "models" / "tessera-tiny" / "README.md").read_text(encoding="utf-8")]
    tok.train_from_iterator(corpus, trainers.BpeTrainer(
        vocab_size=600, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    for text, special in specials:
        tok.add_tokens([AddedToken(text, special=special, normalized=False)])
    if bos:
        tok.post_processor = processors.TemplateProcessing(
            single=f"{bos} $A", pair=f"{bos} $A {bos} $B", special_tokens=[(bos, tok.token_to_id(bos))])
    tok.save(str(HERE / f"{name}_tokenizer.json"), pretty=False)
    return tok


def texts():
    fixed = ["", " ", "\n", "Hello, world!", "don't I'LL We'Ve 'S 's", "12345678 1 22", "  two\t\ttabs \n\n x  ", "naïve café e\u0301 Å",
             "中文字符 日本語のテキスト 한국어", "🙂👩‍👩‍👧‍👦 \u200d", "def f(x):\n    return x**2  # comment\r\n\r\n", "a<|im_end|>b<think>c",
             "、〇々 Ⅷ ²³ ½", "ſ's 'ſ K", "\u180e\u00a0\u2003x\u3000", "ǅ ªº ʰ", "!!!??? ...word ~/path_x", "\x00\x01\x7f", "x" * 300, "ab" * 200]
    random.seed(7)
    pool = "aZé中ー々、 \n\t\r1٣'sS!-_ſ🙂\u0301Ǆª\u00a0<|>"
    return fixed + ["".join(random.choice(pool) for _ in range(random.randrange(1, 60))) for _ in range(150)]


def main():
    specials = [("<|begin_of_text|>", True), ("<|im_end|>", True), ("<think>", False)]
    made = {
        "llama": train("llama", [LLAMA], specials, ignore_merges=True, bos="<|begin_of_text|>"),
        "qwen": train("qwen", [QWEN], specials, normalizer=normalizers.NFC()),
        "deepseek": train("deepseek", DEEPSEEK, specials),
    }
    ranks = {}
    for line in (ROOT / "models" / "tessera-tiny" / "tiktoken.model").read_text().splitlines():
        token, rank = line.split()
        ranks[base64.b64decode(token)] = int(rank)
    kimi = tiktoken.Encoding("kimi", pat_str=KIMI, mergeable_ranks=ranks, special_tokens={"<|im_end|>": 4034, "<think>": 4054})
    goldens = []
    for text in texts():
        entry = {"text": text, "kimi": kimi.encode(text, allowed_special="all")}
        for name, tok in made.items():
            entry[name] = tok.encode(text, add_special_tokens=False).ids
        goldens.append(entry)
    (HERE / "tokenizer_goldens.json").write_text(json.dumps(goldens, ensure_ascii=True, separators=(",", ":")) + "\n")


main()
