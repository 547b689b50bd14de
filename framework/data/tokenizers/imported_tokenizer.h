// Base of the tokenizers of other programs: bytes of each id, special ids, and the source file.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "framework/data/tokenizers/special_ids.h"
#include "framework/data/tokenizers/tokenizer_source.h"

namespace hexad::data {

class ImportedTokenizer : public Tokenizer {
 public:
  int32_t vocab_size() const override { return static_cast<int32_t>(bytes_.size()); }
  std::string_view bytes_of(int32_t id) const override {
    check_id(id);
    return bytes_[id];
  }
  TokenizerContents contents() const override { return {source_->kind, {}, source_}; }
  int32_t end_of_document() const override { return source_->end_of_document; }
  std::optional<int32_t> beginning_of_document() const override {
    return source_->beginning_of_document < 0 ? std::nullopt : std::optional(source_->beginning_of_document);
  }
  int32_t mask() const override { return -1; }

 protected:
  ImportedTokenizer() = default;

  /// Sets the vocabulary: the bytes of each id, empty for special tokens and unused ids. Chooses the special ids
  /// (choose_special_ids()), and clears their bytes, so that decode() skips them.
  void set_vocabulary(TokenizerRequest request, std::vector<std::string> bytes, const SpecialHints& hints,
                      const IdByName& id_of) {
    bytes_ = std::move(bytes);
    choose_special_ids(request, hints, id_of, vocab_size());
    for (const int32_t id : {request.source.end_of_document, request.source.beginning_of_document})
      if (id >= 0) bytes_[id].clear();
    source_ = std::make_shared<const TokenizerSource>(std::move(request.source));
  }

 private:
  std::vector<std::string> bytes_;
  std::shared_ptr<const TokenizerSource> source_;
};

}  // namespace hexad::data
