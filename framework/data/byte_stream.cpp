#include "framework/data/byte_stream.h"

#include <zlib.h>
#include <zstd.h>
#include <zstd_errors.h>

#include <algorithm>
#include <cctype>
#include <new>
#include <vector>

#include "framework/data/file.h"

namespace hexad::data {
using namespace base;
namespace {

constexpr size_t input_bytes = size_t{1} << 17;

class PlainStream final : public ByteStream {
 public:
  explicit PlainStream(const std::string& path) : file_(path) {}

  size_t read(char* out, size_t bytes) override {
    const int64_t n = std::min<int64_t>(static_cast<int64_t>(bytes), file_.size() - position_);
    file_.read_at(position_, out, n);
    position_ += n;
    return n;
  }
  int64_t position() const override { return position_; }

 private:
  ReadFile file_;
  int64_t position_ = 0;
};

// The compressed bytes of a file, in blocks.
class CompressedFile {
 public:
  CompressedFile(const std::string& path, std::string_view kind) : file_(path), kind_(kind), block_(input_bytes) {}

  /// Returns the next block; empty at the end of the file.
  std::string_view next() {
    const int64_t n = std::min<int64_t>(static_cast<int64_t>(block_.size()), file_.size() - read_);
    file_.read_at(read_, block_.data(), n);
    read_ += n;
    return {block_.data(), static_cast<size_t>(n)};
  }
  /// Returns the position in the file if `unused` bytes of the last block have not been used.
  int64_t position(size_t unused) const { return read_ - static_cast<int64_t>(unused); }

  [[noreturn]] void damaged(size_t unused, std::string_view reason) const {
    fail(ExitCode::data, file_.path(), ": damaged ", kind_, " stream after byte ", position(unused), ": ", reason,
         "; copy or download the file again");
  }
  [[noreturn]] void needs_large_window() const {
    fail(ExitCode::data, file_.path(), ": needs more than 128 MiB of memory to decompress, expected a ", kind_,
         " stream made without --long or --ultra; compress the file again");
  }
  [[noreturn]] void truncated() const {
    fail(ExitCode::data, file_.path(), ": truncated ", kind_, " stream: the file ends at byte ", read_,
         " inside the compressed data; copy or download the file again");
  }

 private:
  ReadFile file_;
  std::string_view kind_;
  std::vector<char> block_;
  int64_t read_ = 0;
};

class GzipStream final : public ByteStream {
 public:
  explicit GzipStream(const std::string& path) : file_(path, "gzip") {
    constexpr int gzip_only = 15 + 16;
    if (::inflateInit2(&z_, gzip_only) != Z_OK) throw std::bad_alloc();
  }
  ~GzipStream() override { ::inflateEnd(&z_); }
  GzipStream(const GzipStream&) = delete;
  GzipStream& operator=(const GzipStream&) = delete;

  size_t read(char* out, size_t bytes) override {
    z_.next_out = reinterpret_cast<Bytef*>(out);
    z_.avail_out = static_cast<uInt>(bytes);
    while (z_.avail_out > 0) {
      if (z_.avail_in == 0 && !refill()) break;
      if (!in_member_) {
        if (!skip_padding()) continue;
        ::inflateReset(&z_);
        in_member_ = true;
      }
      const int code = ::inflate(&z_, Z_NO_FLUSH);
      if (code == Z_STREAM_END)
        in_member_ = false;
      else if (code != Z_OK && code != Z_BUF_ERROR)
        file_.damaged(z_.avail_in, z_.msg != nullptr ? z_.msg : "the bytes do not follow the format");
    }
    return bytes - z_.avail_out;
  }
  int64_t position() const override { return file_.position(z_.avail_in); }

 private:
  // Skips zero bytes, with which some programs pad a file after its last member. Returns true if a member follows.
  bool skip_padding() {
    Bytef* const end = z_.next_in + z_.avail_in;
    Bytef* const rest = std::find_if(z_.next_in, end, [](Bytef byte) { return byte != 0; });
    padded_ = padded_ || rest != z_.next_in;
    z_.next_in = rest;
    z_.avail_in = static_cast<uInt>(end - rest);
    if (rest == end) return false;
    if (padded_) file_.damaged(z_.avail_in, "zero bytes after a member are followed by other bytes");
    return true;
  }
  bool refill() {
    const std::string_view block = file_.next();
    if (block.empty() && in_member_) file_.truncated();
    z_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(block.data()));
    z_.avail_in = static_cast<uInt>(block.size());
    return !block.empty();
  }

  CompressedFile file_;
  z_stream z_{};
  bool in_member_ = true;
  bool padded_ = false;  // true once zero bytes have been skipped after a member
};

class ZstdStream final : public ByteStream {
 public:
  explicit ZstdStream(const std::string& path) : file_(path, "zstd"), stream_(::ZSTD_createDStream()) {
    if (stream_ == nullptr) throw std::bad_alloc();
  }
  ~ZstdStream() override { ::ZSTD_freeDStream(stream_); }
  ZstdStream(const ZstdStream&) = delete;
  ZstdStream& operator=(const ZstdStream&) = delete;

  size_t read(char* out, size_t bytes) override {
    ZSTD_outBuffer to{out, bytes, 0};
    while (to.pos < to.size) {
      if (in_.pos == in_.size && !holds_output_ && !refill()) break;
      const size_t code = ::ZSTD_decompressStream(stream_, &to, &in_);
      if (::ZSTD_getErrorCode(code) == ZSTD_error_frameParameter_windowTooLarge) file_.needs_large_window();
      if (::ZSTD_isError(code) != 0) file_.damaged(in_.size - in_.pos, ::ZSTD_getErrorName(code));
      in_frame_ = code != 0;
      holds_output_ = in_frame_ && to.pos == to.size;  // the decompressor may hold bytes that did not fit into `to`
    }
    return to.pos;
  }
  int64_t position() const override { return file_.position(in_.size - in_.pos); }

 private:
  bool refill() {
    const std::string_view block = file_.next();
    if (block.empty() && in_frame_) file_.truncated();
    in_ = {block.data(), block.size(), 0};
    return !block.empty();
  }

  CompressedFile file_;
  ZSTD_DStream* stream_;
  ZSTD_inBuffer in_{nullptr, 0, 0};
  bool in_frame_ = true;
  bool holds_output_ = false;
};

bool ends_with(std::string_view path, std::string_view ending) {
  return path.size() >= ending.size() &&
         std::equal(ending.begin(), ending.end(), path.end() - static_cast<std::ptrdiff_t>(ending.size()),
                    [](char a, char b) { return a == std::tolower(static_cast<unsigned char>(b)); });
}

}  // namespace

std::unique_ptr<ByteStream> open_stream(const std::string& path) {
  if (ends_with(path, ".gz")) return std::make_unique<GzipStream>(path);
  if (ends_with(path, ".zst")) return std::make_unique<ZstdStream>(path);
  return std::make_unique<PlainStream>(path);
}

std::string_view without_compression(std::string_view path) {
  for (const std::string_view ending : {".gz", ".zst"})
    if (ends_with(path, ending)) return path.substr(0, path.size() - ending.size());
  return path;
}

std::string head_of(ByteStream& stream, size_t bytes) {
  std::string head(bytes, '\0');
  head.resize(stream.read(head.data(), bytes));
  return head;
}

void for_each_block(ByteStream& stream, const std::function<bool(std::string_view)>& f) {
  std::vector<char> block(size_t{1} << 20);
  size_t n = 0;
  do {
    n = stream.read(block.data(), block.size());
    if (!f({block.data(), n})) return;
  } while (n == block.size());
}

}  // namespace hexad::data
