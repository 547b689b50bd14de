// The safetensors format: u64 length of a JSON header, the header, the tensors' bytes (little-endian, row-major).
// https://github.com/huggingface/safetensors#format
//
// Tensors are in host memory; the owner of GPU tensors copies them to the host first.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "framework/base/file_work.h"
#include "framework/io/region.h"
#include "framework/io/write_fault.h"

namespace hexad::io {

using base::FileWork;
using device::Category;
using device::Device;

struct TensorInfo {
  std::string name;
  Dtype dtype;
  Shape shape;
  int64_t begin, end;  // byte offsets from the file's start
};

/// A file whose header has been read and checked: lengths, names, types, products of sizes, ranges. No descriptor stays
/// open, because a checkpoint may have more shards than a process may open files.
class SafetensorsFile {
 public:
  /// Throws Error(data) naming the file, the tensor and the problem. `work` records progress of later reads.
  static SafetensorsFile open(const std::string& path, FileWork work = {});

  const std::string& path() const { return path_; }
  /// Returns the tensors in the order of their bytes.
  std::span<const TensorInfo> tensors() const { return tensors_; }
  /// Throws Error(data) if there is no tensor of that name.
  const TensorInfo& info(std::string_view name) const;
  bool contains(std::string_view name) const { return index_.contains(name); }
  /// Returns the strings of `__metadata__`.
  const std::map<std::string, std::string>& metadata() const { return metadata_; }

  Tensor read(std::string_view name, Device device, Category category = Category::parameter) const;
  /// Reads the rectangle of shape `size` at element `begin`. Throws Error(data) if it is not inside the tensor.
  Tensor read_region(std::string_view name, const Shape& begin, const Shape& size, Device device,
                     Category category = Category::parameter) const;
  /// Like read_region(), into existing memory. `out` may be strided. The dtypes must agree.
  void read_into(const Tensor& out, std::string_view name, const Region& region) const;
  /// Returns the XXH3-128 of the tensor's bytes, as 32 hexadecimal digits.
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
  Tensor tensor;  // may be strided
};

struct SafetensorsResult {
  int64_t bytes;                     // length of the file
  std::string digest;                // XXH3-128 of the file
  std::vector<std::string> tensors;  // digest of each tensor's bytes, in the order given
};

/// Writes and fsyncs `path`. Throws Error(resource) naming the file, the number of bytes written and the system's
/// reason; the owner removes the incomplete file. Throws before writing if a reader would reject the file.
SafetensorsResult write_safetensors(const std::string& path, std::span<const NamedTensor> tensors,
                                    const std::map<std::string, std::string>& metadata = {},
                                    const FaultHook& fault = {}, const FileWork& work = {});

/// Returns the format's name: "F32", "BF16", ...
std::string_view safetensors_name_of(Dtype dtype);

}  // namespace hexad::io
