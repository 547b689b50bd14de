#include "framework/data/binary_kind.h"

#include <algorithm>
#include <array>

#include "framework/base/error.h"

namespace hexad::data {
namespace {

using namespace std::string_view_literals;

struct Magic {
  size_t offset;
  std::string_view bytes;
  BinaryKind kind;
  bool is_word = false;  // true: `bytes` could also begin a text, so has_control() must also be true
};

constexpr std::string_view columns = "convert to JSON lines (.jsonl)";
constexpr std::string_view parquet = "convert to JSON lines (.jsonl) with tools/parquet_to_jsonl.py";
constexpr std::string_view unpack = "unpack";

constexpr auto magics = std::to_array<Magic>({
    {0, "\x1f\x8b"sv, {"gzip-compressed file", "gunzip, or name it .gz"}},
    {0, "\x1f\x9d"sv, {"compress-compressed file", "uncompress"}},
    {0, "\x1f\xa0"sv, {"compress-compressed file", "uncompress"}},
    {4, "1AY&SY"sv, {"bzip2-compressed file", "bunzip2"}},
    {0, "\xfd\x37zXZ\0"sv, {"xz-compressed file", "unxz"}},
    {0, "\x5d\0\0"sv, {"lzma-compressed file", "unlzma"}},
    {0, "\x28\xb5\x2f\xfd"sv, {"zstd-compressed file", "unzstd, or name it .zst"}},
    {0, "\x04\x22\x4d\x18"sv, {"lz4-compressed file", "unlz4"}},
    {0, "\x02\x21\x4c\x18"sv, {"lz4-compressed file", "unlz4"}},
    {0, "LZIP"sv, {"lzip-compressed file", "lzip -d"}, true},
    {0, "\xff\x06\0\0sNaPpY"sv, {"snappy-compressed file", "decompress"}},
    {0, "PAR1"sv, {"Parquet file", parquet}},
    {0, "PARE"sv, {"Parquet file", parquet}, true},
    {0, "ARROW1\0\0"sv, {"Arrow file", columns}},
    {0, "\xff\xff\xff\xff"sv, {"Arrow stream", columns}},
    {0, "FEA1"sv, {"Feather file", columns}, true},
    {0, "ORC"sv, {"ORC file", columns}, true},
    {0, "Obj\x01"sv, {"Avro file", columns}},
    {0, "\x89HDF\r\n\x1a\n"sv, {"HDF5 file", columns}},
    {0, "SQLite format 3\0"sv, {"SQLite database", columns}},
    {0, "PK\x03\x04"sv, {"zip archive", unpack}},
    {0, "PK\x05\x06"sv, {"zip archive", unpack}},
    {0, "7z\xbc\xaf\x27\x1c"sv, {"7z archive", unpack}},
    {0, "Rar!\x1a\x07"sv, {"rar archive", unpack}},
    {257, "ustar"sv, {"tar archive", unpack}, true},
    {0, "!<arch>\n"sv, {"ar archive", unpack}},
    {0, "\xed\xab\xee\xdb"sv, {"RPM package", unpack}},
    {0, "%PDF-"sv, {"PDF document", "pdftotext"}},
    {0, "\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"sv, {"Microsoft Office document", "save as text"}},
    {0, "\x93NUMPY"sv, {"NumPy array", ""}},
    {0, "\x80\x02}"sv, {"Python pickle", ""}},
    {0, "\x80\x03"sv, {"Python pickle", ""}},
    {0, "\x80\x04\x95"sv, {"Python pickle", ""}},
    {0, "\x80\x05\x95"sv, {"Python pickle", ""}},
    {0, "GGUF"sv, {"GGUF model", ""}, true},
    {0, "\x89PNG\r\n\x1a\n"sv, {"PNG image", ""}},
    {0, "\xff\xd8\xff"sv, {"JPEG image", ""}},
    {0, "GIF87a"sv, {"GIF image", ""}},
    {0, "GIF89a"sv, {"GIF image", ""}},
    {0, "II*\0"sv, {"TIFF image", ""}},
    {0, "MM\0*"sv, {"TIFF image", ""}},
    {0, "BM"sv, {"BMP image", ""}, true},
    {0, "\0\0\x01\0"sv, {"icon", ""}},
    {8, "WEBPVP8"sv, {"WebP image", ""}},
    {8, "WAVEfmt "sv, {"WAV sound", ""}},
    {8, "AVI LIST"sv, {"AVI video", ""}},
    {4, "ftyp"sv, {"MP4 file", ""}, true},
    {0, "\x1a\x45\xdf\xa3"sv, {"Matroska video", ""}},
    {0, "OggS\0"sv, {"Ogg file", ""}},
    {0, "fLaC\0"sv, {"FLAC sound", ""}},
    {0, "ID3"sv, {"MP3 sound", ""}, true},
    {0, "\xff\xfb"sv, {"MP3 sound", ""}},
    {0, "\x7f\x45LF"sv, {"ELF program", ""}},
    {0, "MZ"sv, {"Windows program", ""}, true},
    {0, "\xfe\xed\xfa\xce"sv, {"Mach-O program", ""}},
    {0, "\xcf\xfa\xed\xfe"sv, {"Mach-O program", ""}},
    {0, "\xca\xfe\xba\xbe"sv, {"Java class file", ""}},
    {0, "\0asm"sv, {"WebAssembly module", ""}},
    {1, "\r\r\n"sv, {"compiled Python file", ""}, true},
    {0, "wOFF"sv, {"font", ""}, true},
    {0, "wOF2"sv, {"font", ""}, true},
    {0, "OTTO\0"sv, {"font", ""}},
    {0, "\0\x01\0\0\0"sv, {"font", ""}},
    {0, "HEXADTOK"sv, {"prepared dataset", ""}},
});

/// True if `head` contains a byte below 0x07. Text contains no such byte.
bool has_control(std::string_view head) {
  return std::ranges::any_of(head, [](char c) { return static_cast<unsigned char>(c) < 0x07; });
}

/// True if `head` begins like a safetensors file: an 8-byte length below 2^40, then the '{' of a JSON header.
bool is_safetensors(std::string_view head) { return head.size() > 9 && head.substr(5, 4) == "\0\0\0{"sv; }

}  // namespace

std::string BinaryKind::with_article() const {
  const bool vowel = std::string_view("aeioAEIO").find(name.front()) != name.npos;
  // Abbreviations that take the article "an", because the name of their first letter begins with a vowel sound.
  constexpr std::array<std::string_view, 5> spelled{"MP", "RPM", "HDF", "xz", "lz"};
  const bool an = vowel || std::ranges::any_of(spelled, [&](std::string_view s) { return name.starts_with(s); });
  return base::cat(an ? "an " : "a ", name);
}

BinaryKind binary_kind(std::string_view head) {
  for (const Magic& magic : magics) {
    const bool there = head.size() > magic.offset && head.substr(magic.offset).starts_with(magic.bytes);
    if (there && (!magic.is_word || has_control(head))) return magic.kind;
  }
  if (is_safetensors(head)) return {"safetensors file", ""};
  return {};
}

}  // namespace hexad::data
