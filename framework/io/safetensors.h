// The safetensors format: u64 length of a JSON header, the header, the tensors' bytes (little-endian, row-major).
// https://github.com/huggingface/safetensors#format
//
// Tensors lie in host memory: those of a GPU are staged by their owner.
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
  int64_t begin, end;  // bytes from the file's start
};

/// A file whose header has been read and believed only after every claim in it was checked against the file: lengths,
/// names, types, products of sizes, ranges. No descriptor stays open: a checkpoint may have more shards than a process
/// may have files.
class SafetensorsFile {
 public:
  /// Throws Error(data) naming the file, the tensor and what is wrong. `work` is told what is read later.
  static SafetensorsFile open(const std::string& path, FileWork work = {});

  const std::string& path() const { return path_; }
  /// In the order of their bytes.
  std::span<const TensorInfo> tensors() const { return tensors_; }
  /// Throws Error(data) when there is none of that name.
  const TensorInfo& info(std::string_view name) const;
  bool contains(std::string_view name) const { return index_.contains(name); }
  /// The strings of `__metadata__`.
  const std::map<std::string, std::string>& metadata() const { return metadata_; }

  Tensor read(std::string_view name, Device device, Category category = Category::parameter) const;
  /// The rectangle from element `begin`, of shape `size`. Throws Error(data) when it leaves the tensor.
  Tensor read_region(std::string_view name, const Shape& begin, const Shape& size, Device device,
                     Category category = Category::parameter) const;
  /// Like read_region, into existing memory; `out` may be strided. The dtypes must agree.
  void read_into(const Tensor& out, std::string_view name, const Region& region) const;
  /// XXH3-128 of the tensor's bytes, as 32 hexadecimal digits.
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

/// Writes and fsyncs `path`. Throws Error(resource) naming the file, how much was written and the system's reason; the
/// incomplete file is left for its owner to remove. What a reader would refuse is not begun.
SafetensorsResult write_safetensors(const std::string& path, std::span<const NamedTensor> tensors,
                                    const std::map<std::string, std::string>& metadata = {},
                                    const FaultHook& fault = {}, const FileWork& work = {});

/// "F32", "BF16", ...: the format's names.
std::string_view safetensors_name_of(Dtype dtype);

}  // namespace hexad::io
