#include "framework/data/bpe_tokenizer.h"

#include <algorithm>
#include <limits>
#include <unordered_map>

#include "framework/base/error.h"
#include "framework/data/tokenizers/piece_cache.h"

namespace hexad::data {
using namespace base;
namespace {

uint64_t key_of(int32_t left, int32_t right) {
  return (static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32) | static_cast<uint32_t>(right);
}

class BpeTokenizer final : public Tokenizer {
 public:
  explicit BpeTokenizer(std::vector<Merge> merges) : merges_(std::move(merges)) {
    bytes_.reserve(256 + merges_.size());
    for (int i = 0; i < 256; ++i) bytes_.emplace_back(1, static_cast<char>(i));
    for (const Merge& m : merges_) {
      const auto id = static_cast<int32_t>(bytes_.size());
      require(m.left >= 0 && m.left < id && m.right >= 0 && m.right < id, "[bpe] the merge that makes id ", id,
              " joins ids ", m.left, " and ", m.right, "; expected joined ids from 0 to ", id - 1);
      merged_id_.emplace(key_of(m.left, m.right), id);
      bytes_.push_back(bytes_[m.left] + bytes_[m.right]);
    }
  }

  std::vector<int32_t> encode(std::string_view text) const override {
    const PieceCaches::Loan cache(caches_);
    std::vector<int32_t> ids;
    ids.reserve(text.size() / 3);
    for_each_piece(text, [&](std::string_view piece) {
      (*cache).append(piece, ids, [&] {
        const std::vector<int32_t> encoded = merge_all(piece);
        ids.insert(ids.end(), encoded.begin(), encoded.end());
      });
    });
    return ids;
  }

  int32_t vocab_size() const override { return static_cast<int32_t>(bytes_.size()) + 2; }

  std::string_view bytes_of(int32_t id) const override {
    check_id(id);
    return id < text_ids() ? std::string_view(bytes_[id]) : std::string_view();
  }

  TokenizerContents contents() const override { return {"bpe", merges_}; }

 private:
  // Repeatedly applies the possible merge that was learned first. A piece has at most longest_piece bytes, so a linear
  // search suffices.
  std::vector<int32_t> merge_all(std::string_view piece) const {
    std::vector<int32_t> ids(reinterpret_cast<const unsigned char*>(piece.data()),
                             reinterpret_cast<const unsigned char*>(piece.data()) + piece.size());
    while (ids.size() > 1) {
      int32_t best = std::numeric_limits<int32_t>::max();
      size_t at = 0;
      for (size_t i = 0; i + 1 < ids.size(); ++i) {
        const auto found = merged_id_.find(key_of(ids[i], ids[i + 1]));
        if (found != merged_id_.end() && found->second < best) best = found->second, at = i;
      }
      if (best == std::numeric_limits<int32_t>::max()) break;
      ids[at] = best;
      ids.erase(ids.begin() + static_cast<std::ptrdiff_t>(at) + 1);
    }
    return ids;
  }

  std::vector<Merge> merges_;
  std::vector<std::string> bytes_;  // bytes of each text id
  std::unordered_map<uint64_t, int32_t> merged_id_;
  mutable PieceCaches caches_;  // lent to the threads that encode
};

}  // namespace

std::unique_ptr<Tokenizer> make_bpe_tokenizer(std::vector<Merge> merges) {
  return std::make_unique<BpeTokenizer>(std::move(merges));
}

}  // namespace hexad::data
