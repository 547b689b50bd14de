#include "framework/data/tokenizers/bpe_model.h"

#include <algorithm>

#include <fmt/format.h>

#include "framework/base/counted.h"
#include "framework/base/error.h"
#include "framework/data/tokenizers/code_point.h"

namespace hexad::data {
namespace {

// Returns a text that names the bytes without an id; empty if every byte has an id.
std::string without_ids(const ByteIds& ids) {
  constexpr int max_named = 8;
  std::string named;
  int64_t count = 0;
  for (size_t byte = 0; byte < ids.size(); ++byte) {
    if (ids[byte] >= 0) continue;
    if (count < max_named) named += fmt::format("{}0x{:02x}", count > 0 ? " " : "", byte);
    if (count == max_named) named += " ...";
    ++count;
  }
  return count == 0 ? named : base::cat("has no token for ", base::counted(count, "byte"), " (", named, ")");
}

class ByteBpe final : public TextModel {
 public:
  explicit ByteBpe(BpeParts parts) : parts_(std::move(parts)) {}

  void encode(std::string_view piece, PieceCache& cache, std::vector<int32_t>& ids) const override {
    cache.append(piece, ids, [&] { merge(piece, ids); });
  }
  int32_t id_of_byte(unsigned char byte) const override { return parts_.bytes[byte]; }
  std::string left_out() const override { return parts_.unknown >= 0 ? std::string() : without_ids(parts_.bytes); }

 private:
  void merge(std::string_view piece, std::vector<int32_t>& ids) const {
    if (const auto whole = parts_.whole_pieces.find(piece); whole != parts_.whole_pieces.end())
      return ids.push_back(whole->second);
    std::vector<int32_t> symbols;
    symbols.reserve(piece.size());
    for (const char c : piece) {
      const int32_t id = parts_.bytes[static_cast<unsigned char>(c)];
      if (id >= 0 || parts_.unknown >= 0) symbols.push_back(id >= 0 ? id : parts_.unknown);
    }
    merge_symbols(parts_.merges, symbols);
    ids.insert(ids.end(), symbols.begin(), symbols.end());
  }

  BpeParts parts_;
};

class CharacterBpe final : public TextModel {
 public:
  explicit CharacterBpe(CharacterBpeParts parts)
      : parts_(std::move(parts)),
        can_divide_(parts_.joints.size() > 0 && parts_.bpe.whole_pieces.empty() &&
                    (all_bytes(parts_.bpe.bytes) || (!parts_.fuse_unknown && parts_.bpe.bytes == no_byte_ids()))) {}

  void encode(std::string_view piece, PieceCache& cache, std::vector<int32_t>& ids) const override {
    if (!can_divide_) return cache.append(piece, ids, [&] { merge(piece, ids); });
    size_t begin = 0;
    int32_t before = -1;
    for (size_t i = 0; i < piece.size();) {
      const CodePoint c = code_point_at(piece.substr(i));
      const auto here = static_cast<int32_t>(c.value);
      if (i > begin && parts_.joints.find(before, here) == nullptr) {
        encode_part(piece.substr(begin, i - begin), cache, ids);
        begin = i;
      }
      before = here;
      i += c.bytes;
    }
    encode_part(piece.substr(begin), cache, ids);
  }
  int32_t id_of_byte(unsigned char byte) const override { return parts_.bpe.bytes[byte]; }
  std::string left_out() const override {
    if (parts_.bpe.unknown >= 0 || all_bytes(parts_.bpe.bytes)) return {};
    return base::cat("has tokens for ", base::counted(std::ssize(parts_.characters), "character"),
                     ", and no token for other characters");
  }

 private:
  void encode_part(std::string_view part, PieceCache& cache, std::vector<int32_t>& ids) const {
    cache.append(part, ids, [&] { merge(part, ids); });
  }
  void merge(std::string_view piece, std::vector<int32_t>& ids) const {
    if (const auto whole = parts_.bpe.whole_pieces.find(piece); whole != parts_.bpe.whole_pieces.end())
      return ids.push_back(whole->second);
    std::vector<int32_t> symbols;
    bool unknown = false;  // true: an unknown id must still be added; like in Hugging Face's library, it is added after
                           // the ids of any bytes that follow
    const auto end_unknown = [&] {
      if (unknown && parts_.bpe.unknown >= 0) symbols.push_back(parts_.bpe.unknown);
      unknown = false;
    };
    while (!piece.empty()) {
      const CodePoint c = code_point_at(piece);
      const std::string_view character = piece.substr(0, c.bytes);
      if (const auto found = parts_.characters.find(c.value); found != parts_.characters.end()) {
        end_unknown();
        symbols.push_back(found->second);
      } else if (have_bytes(parts_.bpe.bytes, character)) {
        for (const char byte : character) symbols.push_back(parts_.bpe.bytes[static_cast<unsigned char>(byte)]);
      } else {
        if (!parts_.fuse_unknown) end_unknown();
        unknown = true;
      }
      piece.remove_prefix(c.bytes);
    }
    end_unknown();
    merge_symbols(parts_.bpe.merges, symbols);
    ids.insert(ids.end(), symbols.begin(), symbols.end());
  }

  CharacterBpeParts parts_;
  bool can_divide_;
};

}  // namespace

bool all_bytes(const ByteIds& ids) {
  return std::ranges::all_of(ids, [](int32_t id) { return id >= 0; });
}

bool have_bytes(const ByteIds& ids, std::string_view text) {
  return std::ranges::all_of(text, [&](char byte) { return ids[static_cast<unsigned char>(byte)] >= 0; });
}

std::unique_ptr<TextModel> make_byte_bpe(BpeParts parts) { return std::make_unique<ByteBpe>(std::move(parts)); }

std::unique_ptr<TextModel> make_character_bpe(CharacterBpeParts parts) {
  return std::make_unique<CharacterBpe>(std::move(parts));
}

}  // namespace hexad::data
