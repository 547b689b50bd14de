#include <algorithm>
#include <utility>

#include "framework/base/error.h"
#include "framework/data/token_dataset.h"

namespace hexad::data {

using namespace base;

TokenDatasetWriter::TokenDatasetWriter(std::string path, int64_t vocab_size, Digest tokenizer, bool has_loss_mask)
    : file_(std::move(path)) {
  require(vocab_size >= 1 && vocab_size <= INT32_MAX, "[dataset] vocab_size is ", vocab_size, "; expected 1 to ",
          INT32_MAX);
  header_.bytes_per_id = vocab_size <= 65536 ? 2 : 4;
  header_.has_loss_mask = has_loss_mask ? 1 : 0;
  header_.vocab_size = vocab_size;
  header_.tokenizer = tokenizer;
  file_.append(&header_, sizeof header_);  // reserves space for the header, whose values finish() writes
}

void TokenDatasetWriter::add_document(std::span<const int32_t> ids, int64_t text_bytes,
                                      std::span<const uint8_t> loss_mask) {
  for (int32_t id : ids) {
    require(id >= 0 && id < header_.vocab_size, "[dataset] id is ", id, "; expected 0 to ", header_.vocab_size - 1);
  }
  require(loss_mask.size() == (header_.has_loss_mask ? ids.size() : 0), "[dataset] a loss mask has ", loss_mask.size(),
          " bytes for ", ids.size(), " ids; expected ", header_.has_loss_mask ? ids.size() : 0);
  const auto append = [&](const void* bytes, size_t count) {
    file_.append(bytes, count);
    contents_.add(bytes, count);
  };
  if (header_.bytes_per_id == 2) {
    const std::vector<uint16_t> narrow(ids.begin(), ids.end());
    append(narrow.data(), narrow.size() * sizeof(uint16_t));
  } else {
    append(ids.data(), ids.size_bytes());
  }
  loss_mask_.insert(loss_mask_.end(), loss_mask.begin(), loss_mask.end());
  header_.tokens += static_cast<int64_t>(ids.size());
  header_.documents += 1;
  header_.text_bytes += text_bytes;
  offsets_.push_back(header_.tokens);
}

Digest TokenDatasetWriter::finish() {
  const auto append = [&](const auto& values) {
    const size_t bytes = values.size() * sizeof(values[0]);
    file_.append(values.data(), bytes);
    contents_.add(values.data(), bytes);
  };
  constexpr size_t block_tokens = size_t{1} << 20;
  for (size_t at = 0; at < loss_mask_.size(); at += block_tokens) {
    const auto begin = loss_mask_.begin() + static_cast<std::ptrdiff_t>(at);
    const size_t count = std::min(block_tokens, loss_mask_.size() - at);
    append(std::vector<uint8_t>(begin, begin + static_cast<std::ptrdiff_t>(count)));
  }
  append(offsets_);
  header_.contents = contents_.value();
  header_.header = header_digest(header_);
  file_.write_at(0, &header_, sizeof header_);
  file_.commit();
  return header_.header;
}

}  // namespace hexad::data
