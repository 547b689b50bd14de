"""Text for the comparison of tokenizers: words in 12 scripts, code, numbers, white space, emoji and damaged UTF-8."""
import random
import unicodedata

# Ranges of assigned letters, and of combining marks if the script uses such marks.
SCRIPTS = {
    "latin": "az AZ àö øÿ āž",
    "greek": "αω άώ ΑΡ",
    "cyrillic": "ая АЯ ѐџ",
    "hebrew": "את",
    "arabic": "ءغ في ًْ",
    "devanagari": "कह ा्",
    "thai": "กฮ ะฺ เๆ",
    "han": "一龥",
    "kana": "ぁゖ ァヺ",
    "hangul": "가힣",
    "georgian": "აჰ",
    "ethiopic": "ሀቆ",
}
WORDS = 3000  # number of different words in each script
SPACES = [" "] * 40 + ["  ", "   ", "\n", "\n\n", "\r\n", "\t", " \n ", "\u00a0", "\u3000", "\u0085", "\u180e", "\u200b", "\u2028"]
MARKS = [",", ".", "!", "?", ";", ":", " - ", "…", "“", "”", "'s", "'LL", "’t", "(", ")", "/", "=>", "::", "。", "、", "·"]
OTHERS = ["😀", "👩‍👩‍👧", "🇩🇪", "é", "ﬁ", "Å", "①", "½", "Ⅷ", "ſ", "İ", "<|endoftext|>", "</s>", "[INST]", "▁", "\u0000", "\ufeff"]
CODE = """def f_%d(x: int, *args) -> dict[str, int]:
    \"\"\"Returns x + %d.\"\"\"
    if not (x <= 0x%x and x != %d):
        return {"key": [x ** 2, 1e-%d], 'other': "\\n\\t"}
\tfor (size_t i = 0; i < n; ++i) a[i] += b[i] * %d; // https://example.com/a?b=%d&c=%%20
"""
DAMAGE = [b"\xff", b"\xc3", b"\xe2\x82", b"\xf0\x9f\x98", b"\xed\xa0\x80", b"\xc0\xaf", b"\x80\x81", b"\xf5\x80\x80\x80"]


def letters_of(ranges):
    return [chr(c) for r in ranges.split() for c in range(ord(r[0]), ord(r[-1]) + 1) if unicodedata.category(chr(c))[0] in "LM"]


class Writer:
    def __init__(self, seed):
        self.random = random.Random(seed)
        self.words = {name: self._words(letters_of(ranges)) for name, ranges in SCRIPTS.items()}

    def _words(self, letters):
        return ["".join(self._pick(letters) for _ in range(1 + int(self.random.random() * 9))) for _ in range(WORDS)]

    def _pick(self, items):
        return items[int(self.random.random() * len(items))]

    def _frequent(self, items):  # small indices are more frequent, like common words in a language
        return items[int(len(items) ** self.random.random()) - 1]

    def paragraph(self):
        kind = self.random.random()
        if kind < 0.15:
            n = int(self.random.random() * 1e6)
            return (CODE % (n, n, n, n % 97, n % 9, n, n)).encode()
        words = self.words[self._pick(list(SCRIPTS))]
        parts = []
        for _ in range(20 + int(self.random.random() * 60)):
            word = self._frequent(words)
            parts.append(unicodedata.normalize("NFD", word) if self.random.random() < 0.03 else word)
            chance = self.random.random()
            if chance < 0.10:
                parts.append(self._pick(MARKS))
            elif chance < 0.13:
                parts.append(self._pick(OTHERS))
            elif chance < 0.16:
                parts.append(str(int(10 ** (self.random.random() * 12))))
            parts.append(self._pick(SPACES))
        text = "".join(parts).encode()
        if self.random.random() < 0.1:
            cut = int(self.random.random() * len(text))
            text = text[:cut] + self._pick(DAMAGE) + text[cut:]
        return text + b"\n"

    def text(self, size):
        parts, written = [], 0
        while written < size:
            parts.append(self.paragraph())
            written += len(parts[-1])
        return b"".join(parts)[:size]


def make_text(size, seed=29):
    return Writer(seed).text(size)


def make_excerpt(paragraphs=24, size=150, seed=31):
    """Returns the first bytes of paragraphs, cut even inside a character, and every kind of damage."""
    writer = Writer(seed)
    return b"\n".join([writer.paragraph()[:size] for _ in range(paragraphs)] + [b"a" + d + b"b" for d in DAMAGE])
