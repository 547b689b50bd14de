// The safetensors format: the length (u64) of a JSON header, the header, and the bytes of the tensors (little-endian,
// row-major). https://github.com/huggingface/safetensors#format
//
// Tensors can only be read into host memory. Tensors on a GPU are copied to the host before they are written.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "framework/base/file_work.h"
#include "framework/io/region.h"
#include "framework/io/tensor_source.h"
#include "framework/io/write_fault.h"

namespace hexad::io {

using base::FileWork;
using device::Category;
using device::Device;

struct TensorInfo {
  std::string name;
  Dtype dtype;
  Shape shape;
  int64_t begin, end;  // byte offsets from the start of the file
};

/// A file whose header has been read and checked. The check covers lengths, names, types, products of sizes and ranges.
/// The file is not kept open, because a checkpoint may have more shards than a process may have open files.
class SafetensorsFile {
 public:
  /// Opens a file. Throws Error(data) if the file cannot be read or is invalid. The message names the file, the problem
  /// and, if the problem concerns a tensor, the tensor. Progress of this and later reads is reported to `work`.
  static SafetensorsFile open(const std::string& path, FileWork work = {});

  const std::string& path() const { return path_; }
  /// Returns the tensors in the order of their bytes.
  std::span<const TensorInfo> tensors() const { return tensors_; }
  /// Returns a tensor's header entry. Throws Error(data) if there is no tensor of that name.
  const TensorInfo& info(std::string_view name) const;
  bool contains(std::string_view name) const { return index_.contains(name); }
  /// Returns the strings in `__metadata__`.
  const std::map<std::string, std::string>& metadata() const { return metadata_; }

  /// Reads a whole tensor. `device` must be the host.
  Tensor read(std::string_view name, Device device, Category category = Category::parameter) const;
  /// Reads the rectangle of shape `size` whose first element has indices `begin`. Throws Error(data) if the rectangle
  /// is not inside the tensor.
  Tensor read_region(std::string_view name, const Shape& begin, const Shape& size, Device device,
                     Category category = Category::parameter) const;
  /// Reads `region` into existing host memory. `out` may be strided. Throws std::logic_error if `out` is not in host
  /// memory, or does not have the dtype of the tensor and the shape region.size. Also throws std::logic_error if the
  /// region is not inside the tensor.
  void read_into(const Tensor& out, std::string_view name, const Region& region) const;
  /// Returns the XXH3-128 digest of the tensor's bytes, as 32 hexadecimal digits.
  std::string digest(std::string_view name) const;

 private:
  std::string path_;
  FileWork work_;
  std::vector<TensorInfo> tensors_;
  std::map<std::string, size_t, std::less<>> index_;
  std::map<std::string, std::string> metadata_;
};

struct NamedTensor {
  std::string name;
  TensorSource tensor;
};

struct SafetensorsResult {
  int64_t bytes;                     // length of the file in bytes
  std::string digest;                // XXH3-128 digest of the file
  std::vector<std::string> tensors;  // digest of the bytes of each tensor, in the order of the arguments
};

/// Writes and fsyncs `path`. Throws Error(resource) like OutputFile; the caller must then remove the incomplete file.
/// Throws Error(resource) before writing if a reader would reject the file.
SafetensorsResult write_safetensors(const std::string& path, std::span<const NamedTensor> tensors,
                                    const std::map<std::string, std::string>& metadata = {},
                                    const FaultHook& fault = {}, const FileWork& work = {});

/// Returns the name of a dtype in the format, for example "F32" or "BF16".
std::string_view safetensors_name_of(Dtype dtype);

}  // namespace hexad::io
