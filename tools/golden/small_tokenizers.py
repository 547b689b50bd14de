#!/usr/bin/env python3
"""Writes small tokenizers of every supported kind, and the ids that the reference library computes for some texts.

    build/tokenizers/venv/bin/python tools/golden/small_tokenizers.py tests/golden/tokenizers/small.json

tools/golden/tokenizers.sh makes the virtual environment.
"""
import json
import sys

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

CORPUS = ["the cat sat on the mat and the other cats sat there too", "low lower lowest new newer newest wide wider",
          "naïve café déjà vu über straße", "ελληνικά και ρωσικά: привет мир, привет всем", "数字 123 456 7890, 文字 文字",
          "def f(x): return x + 1  # comment\n\tpass\n", "हिन्दी में नमस्ते नमस्ते", "it's they're we'll I'M"] * 3
TEXTS = ["", "the cat", " the cats  sat\n\n lower ", "naïve cafe\u0301 ÜBER straße", "привет, мир! ελληνικά", "数字 12345 文字",
         "unknown: ☃ ✓ 𝄞 z", "def f(x):\n\treturn x+1", "नमस्ते हिन्दी", "it's we'LL", "<s>special</s> [MASK] and [mask]", "a[W]b [W] c",
         "\u00a0the\u2003cat\u3000", "ﬁne ①", "▁low▁er", "newest" * 12]


def byte_level(pre, **model):
    t = Tokenizer(models.BPE(**model))
    t.pre_tokenizer = pre
    t.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    t.train_from_iterator(CORPUS, trainers.BpeTrainer(vocab_size=400, initial_alphabet=alphabet, special_tokens=["<s>", "</s>"]))
    return t


def gpt2():
    t = byte_level(pre_tokenizers.ByteLevel(add_prefix_space=True))
    t.post_processor = processors.RobertaProcessing(("</s>", 1), ("<s>", 0))
    return t


def llama3():
    regex = Regex(r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
    split = pre_tokenizers.Split(regex, "isolated")
    t = byte_level(pre_tokenizers.Sequence([split, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]))
    t.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=False), processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 1)])])
    state = json.loads(t.to_str())
    state["model"]["ignore_merges"] = True
    state["model"]["vocab"]["unreachable"] = 400  # no merge gives this token, so it is found only as a whole piece
    return Tokenizer.from_str(json.dumps(state))


def characters(vocab_size=300, specials=("<unk>", "<s>", "</s>"), normalizer=None, pre=None, **model):
    t = Tokenizer(models.BPE(unk_token="<unk>", **model))
    t.normalizer = normalizer
    t.pre_tokenizer = pre
    t.train_from_iterator(CORPUS, trainers.BpeTrainer(vocab_size=vocab_size, special_tokens=list(specials)))
    return t


def llama2():
    fallback = [f"<0x{b:02X}>" for b in range(256)]
    spaces = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    # The tokenizer is trained on words, so that tokens contain no inner spaces, but it is used without a pre-tokenizer.
    t = characters(550, ["<unk>", "<s>", "</s>"] + fallback, spaces, pre_tokenizers.Metaspace(), byte_fallback=True, fuse_unk=True)
    state = json.loads(t.to_str())
    state["pre_tokenizer"] = None
    state["added_tokens"] = state["added_tokens"][:3]
    t = Tokenizer.from_str(json.dumps(state))
    t.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    t.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    return t


def metaspace(scheme, split, fuse):
    return characters(pre=pre_tokenizers.Metaspace(prepend_scheme=scheme, split=split), fuse_unk=fuse)


def splits(*steps):
    return characters(pre=pre_tokenizers.Sequence(list(steps)))


def added():
    t = characters(normalizer=normalizers.Lowercase(), pre=pre_tokenizers.Whitespace())
    t.add_special_tokens([AddedToken("[MASK]", lstrip=True, normalized=False)])
    t.add_tokens([AddedToken("[W]", single_word=True, normalized=False), AddedToken("CAT", normalized=True),
                  AddedToken("mir", rstrip=True, lstrip=True), AddedToken("low", normalized=False), AddedToken("lowest", normalized=False)])
    return t


def unigram(normalizer, byte_fallback):
    t = Tokenizer(models.Unigram())
    t.normalizer = normalizer
    t.pre_tokenizer = pre_tokenizers.Metaspace()
    t.train_from_iterator(CORPUS, trainers.UnigramTrainer(vocab_size=150, unk_token="<unk>", special_tokens=["<unk>", "<s>", "</s>"]))
    state = json.loads(t.to_str())
    state["model"]["byte_fallback"] = byte_fallback
    if byte_fallback:
        state["model"]["vocab"] += [[f"<0x{b:02X}>", -20.0] for b in range(256)]
    return Tokenizer.from_str(json.dumps(state))


def tokenizers():
    n, p = normalizers, pre_tokenizers
    yield "gpt2", gpt2()
    yield "llama3", llama3()
    yield "llama2", llama2()
    yield "metaspace_always", metaspace("always", True, True)
    yield "metaspace_first", metaspace("first", True, False)
    yield "metaspace_never_whole", metaspace("never", False, True)
    yield "nfd_accents", characters(normalizer=n.Sequence([n.NFD(), n.StripAccents(), n.Lowercase()]), pre=p.Whitespace())
    yield "strip_nfkc", characters(normalizer=n.Sequence([n.Strip(), n.NFKC(), n.Replace(Regex(" {2,}"), " ")]), pre=p.WhitespaceSplit())
    yield "digits_punctuation", splits(p.WhitespaceSplit(), p.Punctuation(), p.Digits(individual_digits=True))
    yield "merged", splits(p.Split(Regex(r"[aeiou]"), "merged_with_previous"), p.Split("t", "merged_with_next"))
    yield "contiguous", splits(p.Split(Regex(r"\s"), "removed"), p.Split(Regex(r"[a-m]"), "contiguous"), p.Digits())
    yield "inverted", splits(p.Split(Regex(r"\w+"), "merged_with_next", invert=True), p.Punctuation("merged_with_previous"))
    yield "empty_matches", splits(p.Split(Regex(r"(?=(\d{3})+(?!\d))"), "isolated"), p.Split(Regex(r"(?=[aeiou])"), "contiguous"))
    yield "oniguruma", splits(p.Split(Regex(r"^\w|\p{Han}{1,2}+|\p{N}{2}+|\bs\w|\s$"), "isolated"))
    yield "added", added()
    yield "unigram", unigram(n.Sequence([n.NFKC(), n.Lowercase()]), False)
    yield "unigram_bytes", unigram(n.NFC(), True)


def hiding_special(state):
    """Renames the special tokens of a Unigram, because it would otherwise find their names in plain text."""
    state = json.loads(json.dumps(state))
    if state["model"]["type"] == "Unigram":
        special = {token["content"] for token in state["added_tokens"] if token["special"]}
        state["added_tokens"] = [token for token in state["added_tokens"] if not token["special"]]
        for i, piece in enumerate(state["model"]["vocab"]):
            piece[0] = chr(0xe000 + i) if piece[0] in special else piece[0]
    return Tokenizer.from_str(json.dumps(state))


def case(tokenizer, hiding, text, decodes):
    hiding.encode_special_tokens = True
    tokenizer.encode_special_tokens = False
    plain, special = (t.encode(text, add_special_tokens=False).ids for t in (hiding, tokenizer))
    return {"text": text, "ids": plain, "ids_with_special": special, "decoded": tokenizer.decode(plain) if decodes else None}


def main():
    rows = []
    for name, t in tokenizers():
        decodes = name in ("gpt2", "llama3", "llama2")
        state = json.loads(t.to_str())
        cases = [case(t, hiding_special(state), text, decodes) for text in TEXTS + (["unreachable"] if name == "llama3" else [])]
        rows.append(json.dumps({"name": name, "tokenizer": state, "cases": cases}, ensure_ascii=True, separators=(",", ":")))
    with open(sys.argv[1], "w") as file:
        file.write("[\n" + ",\n".join(rows) + "\n]\n")


if __name__ == "__main__":
    main()
