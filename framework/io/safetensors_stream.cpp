#include "framework/io/safetensors_stream.h"

#include <algorithm>
#include <bit>
#include <tuple>

namespace hexad::io {

using namespace base;

static_assert(std::endian::native == std::endian::little, "tensors are written without byte swapping");

namespace {

std::vector<HeaderEntry> lay_out(std::span<const StreamedTensor> tensors) {
  std::vector<HeaderEntry> entries;
  int64_t at = 0, element = tensors.empty() ? 0 : tensors.front().dtype.bytes;
  for (const StreamedTensor& t : tensors) {
    require(t.dtype.bytes <= element, "[safetensors] '", t.name, "' has elements of ", t.dtype.bytes,
            " bytes after a tensor with elements of ", element,
            "; expected elements of descending size (sort_for_file())");
    element = t.dtype.bytes;
    entries.push_back({t.name, t.dtype, t.shape, at, at + t.bytes()});
    at += t.bytes();
  }
  return entries;
}

// Returns the beginning of the file: the length of the header, followed by the header.
std::string beginning(std::span<const StreamedTensor> tensors, const std::map<std::string, std::string>& metadata,
                      const std::string& path) {
  const std::vector<HeaderEntry> entries = lay_out(tensors);
  const std::string header = make_header(entries, metadata);
  const auto length = static_cast<uint64_t>(header.size());
  if (static_cast<int64_t>(length) > max_header_bytes)
    fail(ExitCode::resource, path, ": would have a header of ", length, " bytes, expected at most ", max_header_bytes,
         "; use smaller shards");
  std::string text(reinterpret_cast<const char*>(&length), length_bytes);
  text += header;
  return text;
}

}  // namespace

void sort_for_file(std::vector<StreamedTensor>& tensors) {
  std::ranges::sort(tensors, {}, [](const StreamedTensor& t) { return std::tuple(-t.dtype.bytes, t.name); });
}

SafetensorsStream::SafetensorsStream(const std::string& path, std::vector<StreamedTensor> tensors,
                                     const std::map<std::string, std::string>& metadata, const FileWork& work)
    : tensors_(std::move(tensors)), file_(path, work) {
  const std::string text = beginning(tensors_, metadata, path);
  file_.append(text.data(), static_cast<int64_t>(text.size()));
  begin_next();
}

void SafetensorsStream::begin_next() {
  while (left_ == 0 && next_ <= tensors_.size()) {
    if (digest_) result_.tensors.push_back(digest_->value().to_string());
    digest_.reset();
    if (next_ == tensors_.size()) break;
    digest_.emplace();
    left_ = tensors_[next_++].bytes();
  }
}

void SafetensorsStream::append(const void* bytes, int64_t count) {
  if (count == 0) return;
  require(left_ > 0, "[safetensors] ", count, " bytes were appended after the last of ", tensors_.size(),
          " tensors; expected none");
  require(count <= left_, "[safetensors] ", count, " bytes were appended to '", tensors_[next_ - 1].name,
          "'; expected at most its remaining ", left_, " bytes");
  digest_->add(bytes, count);
  file_.append(bytes, count);
  left_ -= count;
  begin_next();
}

SafetensorsResult SafetensorsStream::finish() {
  if (const size_t complete = result_.tensors.size(); complete != tensors_.size())
    fail_invariant(cat("[safetensors] ", tensors_.size() - complete, " of ", tensors_.size(),
                       " tensors are incomplete: '", tensors_[complete].name, "' lacks ", left_,
                       " bytes; expected all bytes before finish()"));
  file_.finish();
  result_.bytes = file_.bytes();
  result_.digest = file_.digest();
  return result_;
}

}  // namespace hexad::io
