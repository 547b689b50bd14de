#include "framework/data/token_dataset.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "framework/base/error.h"

namespace hexad::data {

using namespace base;
namespace {

int64_t contents_bytes(const DatasetHeader& h) {
  return h.tokens * (h.bytes_per_id + (h.has_loss_mask ? 1 : 0)) + (h.documents + 1) * int64_t{sizeof(int64_t)};
}

template <class T>
int64_t number_at(const char* bytes, int64_t i) {
  T value = 0;
  std::memcpy(&value, bytes + i * int64_t{sizeof(T)}, sizeof(T));
  return value;
}

// Returns id number `i` of an array of ids in the format `ids`.
int64_t id_at(const char* bytes, IdFormat ids, int64_t i) {
  switch (ids.bytes) {
    case 1:
      return ids.is_signed ? number_at<int8_t>(bytes, i) : number_at<uint8_t>(bytes, i);
    case 2:
      return ids.is_signed ? number_at<int16_t>(bytes, i) : number_at<uint16_t>(bytes, i);
    case 4:
      return number_at<int32_t>(bytes, i);
    default:
      return number_at<int64_t>(bytes, i);
  }
}

std::unique_ptr<MegatronIndex> index_of(const std::string& path) {
  return is_megatron_index(path) ? std::make_unique<MegatronIndex>(read_megatron_index(path)) : nullptr;
}

}  // namespace

TokenDataset::TokenDataset(std::string path, const DatasetOpenOptions& options)
    : TokenDataset(path, index_of(path), options) {}

TokenDataset::TokenDataset(const std::string& path, std::unique_ptr<MegatronIndex> index,
                           const DatasetOpenOptions& options)
    : file_(index ? index->data_path : path) {
  if (index) {
    take_index(std::move(*index), options.vocab_size);
  } else {
    read_header();
    read_offsets();
  }
  if (options.check == DatasetCheck::everything) check_contents(options.work);
  if (options.expected && *options.expected != fingerprint()) {
    fail(ExitCode::data, file_.path(), ": changed since the checkpoint: its fingerprint is ", fingerprint(),
         ", but the checkpoint was trained on the file with fingerprint ", *options.expected,
         "; restore the file, or start a new run with another run.dir");
  }
}

void TokenDataset::read_header() {
  const auto refuse = [&](const auto&... parts) { fail(ExitCode::data, file_.path(), ": ", parts...); };
  if (file_.size() < int64_t{sizeof header_}) {
    refuse("truncated: ", file_.size(), " bytes, expected at least ", sizeof header_, "; run 'hexad prepare' again");
  }
  file_.read_at(0, &header_, sizeof header_);
  if (header_.magic != dataset_magic)
    refuse("is not a token dataset (wrong magic), expected a file that 'hexad prepare' writes");
  if (header_.version != dataset_version) {
    refuse("dataset version ", header_.version, ", expected ", dataset_version, "; run 'hexad prepare' again");
  }
  if (const Digest digest = header_digest(header_); digest != header_.header) {
    refuse("damaged header: its digest is ", header_.header, ", expected ", digest, "; run 'hexad prepare' again");
  }
  if (header_.bytes_per_id != 2 && header_.bytes_per_id != 4) {
    refuse("ids of ", header_.bytes_per_id, " bytes, expected 2 or 4; run 'hexad prepare' again");
  }
  if (header_.vocab_size < 1 || header_.vocab_size > INT32_MAX) {
    refuse("vocabulary of ", header_.vocab_size, " ids, expected 1 to ", INT32_MAX, "; run 'hexad prepare' again");
  }
  // Rejects counts larger than the file; otherwise the sizes computed below could overflow.
  const auto in_file = [&](int64_t n) { return n >= 0 && n <= file_.size(); };
  if (!in_file(header_.tokens) || !in_file(header_.documents) || header_.text_bytes < 0) {
    refuse("truncated or damaged: the header's numbers of tokens (", header_.tokens, "), documents (",
           header_.documents, ") and bytes of text (", header_.text_bytes, ") do not fit a file of ", file_.size(),
           " bytes; run 'hexad prepare' again");
  }
  const int64_t expected = int64_t{sizeof header_} + contents_bytes(header_);
  if (file_.size() != expected) {
    refuse(file_.size() < expected ? "truncated: " : "too long: ", file_.size(), " bytes, expected ", expected,
           "; run 'hexad prepare' again");
  }
  ids_ = {.bytes = header_.bytes_per_id, .is_signed = false};
  ids_begin_ = int64_t{sizeof header_};
}

void TokenDataset::take_index(MegatronIndex index, int64_t vocab_size) {
  require(vocab_size >= 1 && vocab_size <= INT32_MAX, "[dataset] vocab_size is ", vocab_size, "; expected 1 to ",
          INT32_MAX);
  ids_ = index.ids;
  offsets_ = std::move(index.offsets);
  header_.tokens = offsets_.back();
  header_.documents = std::ssize(offsets_) - 1;
  header_.vocab_size = vocab_size;
  header_.header = index.digest;
  if (file_.size() != header_.tokens * ids_.bytes)
    fail(ExitCode::data, file_.path(), ": has ", file_.size(), " bytes, expected ", header_.tokens * ids_.bytes,
         ", the size that its index gives");
}

void TokenDataset::read_offsets() {
  offsets_.resize(header_.documents + 1);
  const auto bytes = static_cast<int64_t>(offsets_.size() * sizeof(int64_t));
  file_.read_at(file_.size() - bytes, offsets_.data(), bytes);
  if (offsets_.front() != 0)
    fail(ExitCode::data, file_.path(), ": first document starts at token ", offsets_.front(),
         ", expected 0; run 'hexad prepare' again");
  for (size_t d = 0; d + 1 < offsets_.size(); ++d) {
    if (offsets_[d + 1] > header_.tokens) {
      fail(ExitCode::data, file_.path(), ": document ", d, " ends at token ", offsets_[d + 1], ", expected at most ",
           header_.tokens, ", the end of the last document; run 'hexad prepare' again");
    }
    if (offsets_[d + 1] < offsets_[d]) {
      fail(ExitCode::data, file_.path(), ": document ", d, " starts at token ", offsets_[d], " and ends at ",
           offsets_[d + 1], ", expected an end at or after the start; run 'hexad prepare' again");
    }
  }
  if (offsets_.back() != header_.tokens) {
    fail(ExitCode::data, file_.path(), ": documents end at token ", offsets_.back(), ", expected ", header_.tokens,
         "; run 'hexad prepare' again");
  }
}

void TokenDataset::check_contents(const FileWork& work) const {
  StreamingDigest digest;
  std::vector<char> block(int64_t{1} << 20);
  const int64_t id_bytes = header_.tokens * ids_.bytes;
  const int64_t total = file_.size() - ids_begin_;
  for (int64_t at = 0; at < total;) {
    const int64_t n = std::min<int64_t>(static_cast<int64_t>(block.size()), (at < id_bytes ? id_bytes : total) - at);
    file_.read_at(ids_begin_ + at, block.data(), n);
    digest.add(block.data(), n);
    if (at < id_bytes) {
      for (int64_t i = 0; i < n / ids_.bytes; ++i) check_id(id_at(block.data(), ids_, i), at / ids_.bytes + i);
    }
    at += n;
    work.moved(file_.path(), n);
  }
  if (has_tokenizer() && digest.value() != header_.contents) {  // an index of Megatron-LM has no digest of contents
    fail(ExitCode::data, file_.path(), ": damaged: its contents have digest ", digest.value(), ", expected ",
         header_.contents, "; run 'hexad prepare' again");
  }
}

void TokenDataset::check_id(int64_t id, int64_t token) const {
  if (id < 0 || id >= header_.vocab_size) [[unlikely]] {
    fail(ExitCode::data, file_.path(), ": token ", token, " has id ", id, ", expected 0 to ", header_.vocab_size - 1);
  }
}

void TokenDataset::read_ids(int64_t first, std::span<int32_t> out) const {
  const auto count = static_cast<int64_t>(out.size());
  require(first >= 0 && first + count <= tokens(), "[dataset] tokens [", first, ", ", first + count,
          ") are read; expected a range in [0, ", tokens(), "]");
  std::array<char, 8192> block;
  const int64_t block_ids = static_cast<int64_t>(block.size()) / ids_.bytes;
  for (int64_t done = 0; done < count;) {
    const int64_t n = std::min(block_ids, count - done);
    file_.read_at(ids_begin_ + (first + done) * ids_.bytes, block.data(), n * ids_.bytes);
    for (int64_t i = 0; i < n; ++i) {
      const int64_t id = id_at(block.data(), ids_, i);
      check_id(id, first + done + i);
      out[done + i] = static_cast<int32_t>(id);
    }
    done += n;
  }
}

void TokenDataset::read_loss_mask(int64_t first, std::span<uint8_t> out) const {
  const auto count = static_cast<int64_t>(out.size());
  require(first >= 0 && first + count <= tokens(), "[dataset] tokens [", first, ", ", first + count,
          ") are read; expected a range in [0, ", tokens(), "]");
  if (!has_loss_mask()) {
    std::fill(out.begin(), out.end(), uint8_t{1});
    return;
  }
  file_.read_at(ids_begin_ + tokens() * ids_.bytes + first, out.data(), count);
}

}  // namespace hexad::data
