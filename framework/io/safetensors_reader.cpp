#include <algorithm>
#include <cstring>

#include "framework/data/digest.h"
#include "framework/data/file.h"
#include "framework/io/safetensors.h"
#include "framework/io/safetensors_header.h"

namespace hexad::io {

using namespace base;

namespace {

constexpr int64_t window_bytes = 1 << 20;

/// Reads ascending ranges of a tensor in a file. Short ranges, such as rows of a column-parallel weight, are copied
/// from a larger range that is read at once. A system call for each short range would be slower.
class RunReader {
 public:
  RunReader(const data::ReadFile& file, int64_t end, const FileWork& work) : file_(file), end_(end), work_(work) {}

  void read(int64_t offset, void* out, int64_t bytes) {
    if (bytes >= window_bytes / 16) return read_directly(offset, static_cast<std::byte*>(out), bytes);
    if (offset < begin_ || offset + bytes > begin_ + static_cast<int64_t>(window_.size())) {
      begin_ = offset;
      window_.resize(std::min(window_bytes, end_ - offset));
      file_.read_at(offset, window_.data(), static_cast<int64_t>(window_.size()));
      work_.moved(file_.path(), static_cast<int64_t>(window_.size()));
    }
    std::memcpy(out, window_.data() + (offset - begin_), bytes);
  }

 private:
  void read_directly(int64_t offset, std::byte* out, int64_t bytes) {
    for (int64_t done = 0; done < bytes;) {
      const int64_t count = std::min(16 * window_bytes, bytes - done);
      file_.read_at(offset + done, out + done, count);
      done += count;
      work_.moved(file_.path(), count);
    }
  }

  const data::ReadFile& file_;
  int64_t end_;  // end of the tensor
  const FileWork& work_;
  int64_t begin_ = 0;
  std::vector<char> window_;
};

}  // namespace

std::string read_header_text(const data::ReadFile& file, const FileWork& work) {
  const std::string& path = file.path();
  if (file.size() < length_bytes) {
    fail(ExitCode::data, path, ": has ", file.size(), " bytes, expected a safetensors file, which has at least ",
         length_bytes, " bytes");
  }
  uint64_t length = 0;
  file.read_at(0, &length, length_bytes);
  if (length > static_cast<uint64_t>(max_header_bytes)) {
    fail(ExitCode::data, path, ": claims a header of ", length, " bytes, expected at most ", max_header_bytes,
         "; is it a safetensors file?");
  }
  if (static_cast<int64_t>(length) > file.size() - length_bytes) {
    fail(ExitCode::data, path, ": claims a header of ", length, " bytes but has only ", file.size(),
         " bytes in all, expected at least ", static_cast<int64_t>(length) + length_bytes, "; is it truncated?");
  }
  std::string text(length, '\0');
  file.read_at(length_bytes, text.data(), static_cast<int64_t>(length));
  work.moved(path, length_bytes + static_cast<int64_t>(length));
  if (text.empty() || text.front() != '{')
    fail(ExitCode::data, path, ": the header does not begin with '{', expected a safetensors file");
  return text;
}

SafetensorsFile SafetensorsFile::open(const std::string& path, FileWork work) {
  const data::ReadFile file(path);
  const std::string text = read_header_text(file, work);
  SafetensorsHeader header = parse_header(text, file.size(), path);
  SafetensorsFile result;
  result.path_ = path;
  result.work_ = std::move(work);
  result.tensors_ = std::move(header.tensors);
  result.metadata_ = std::move(header.metadata);
  for (size_t i = 0; i < result.tensors_.size(); ++i) result.index_[result.tensors_[i].name] = i;
  return result;
}

const TensorInfo& SafetensorsFile::info(std::string_view name) const {
  const auto found = index_.find(name);
  if (found == index_.end())
    fail(ExitCode::data, path_, ": contains no tensor '", name, "', expected ",
         index_.empty()       ? "a file with this tensor"
         : index_.size() == 1 ? "its only tensor"
                              : base::cat("one of its ", index_.size(), " tensors"));
  return tensors_[found->second];
}

Tensor SafetensorsFile::read(std::string_view name, Device device, Category category) const {
  const Shape& shape = info(name).shape;
  return read_region(name, whole(shape).begin, shape, device, category);
}

Tensor SafetensorsFile::read_region(std::string_view name, const Shape& begin, const Shape& size, Device device,
                                    Category category) const {
  const TensorInfo& t = info(name);
  if (!inside({begin, size}, t.shape)) {
    fail(ExitCode::data, path_, ": region ", to_string(Region{begin, size}), " is not inside tensor '", name, "' ",
         t.shape, "; expected a region inside it");
  }
  Tensor out = Tensor::empty(size, t.dtype, device, category);
  read_into(out, name, {begin, size});
  return out;
}

void SafetensorsFile::read_into(const Tensor& out, std::string_view name, const Region& region) const {
  const TensorInfo& t = info(name);
  require(inside(region, t.shape), "[safetensors] region ", to_string(region), " is not inside '", name, "' ", t.shape,
          "; expected a region inside it");
  require(out.dtype() == t.dtype && out.shape() == region.size, "[safetensors] '", name, "' is ", t.dtype, " ",
          region.size, ", read into ", out.dtype(), " ", out.shape(), "; expected the same dtype and shape");
  require(out.device().on_host(), "[safetensors] '", name, "' is read into memory of device ",
          device::name_of(out.device().kind()), "; expected host memory");
  if (out.numel() == 0) return;
  const data::ReadFile file(path_);
  RunReader reader(file, t.end, work_);
  const Shape strides = t.shape.row_major_strides();
  const int64_t element = size_of(t.dtype);
  int64_t first = t.begin;
  for (int d = 0; d < t.shape.rank(); ++d) first += region.begin[d] * strides[d] * element;
  auto* memory = static_cast<std::byte*>(out.raw());
  for_each_run(region.size, strides, out.strides(), [&](int64_t from, int64_t to, int64_t count) {
    reader.read(first + from * element, memory + to * element, count * element);
  });
}

std::string SafetensorsFile::digest(std::string_view name) const {
  const TensorInfo& t = info(name);
  const data::ReadFile file(path_);
  data::StreamingDigest digest;
  std::vector<char> window(std::min(window_bytes, t.end - t.begin));
  for (int64_t at = t.begin; at < t.end;) {
    const int64_t count = std::min<int64_t>(window_bytes, t.end - at);
    file.read_at(at, window.data(), count);
    digest.add(window.data(), count);
    at += count;
    work_.moved(path_, count);
  }
  return digest.value().to_string();
}

}  // namespace hexad::io
