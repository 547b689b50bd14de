// Writing of a safetensors file whose tensors arrive in pieces, so that no tensor must be in memory as a whole.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "framework/data/digest.h"
#include "framework/io/output_file.h"
#include "framework/io/safetensors_header.h"

namespace hexad::io {

/// A tensor of a file that is written in pieces.
struct StreamedTensor {
  std::string name;
  StoredDtype dtype;
  Shape shape;

  int64_t bytes() const { return shape.numel() * dtype.bytes; }
};

/// Sorts tensors in the usual order of safetensors files: by descending size of their elements, so that all tensors are
/// aligned, then by name.
void sort_for_file(std::vector<StreamedTensor>& tensors);

/// A safetensors file that is written sequentially. The caller appends the bytes of all tensors, in the order of the
/// header.
class SafetensorsStream {
 public:
  /// Creates `path` and writes its header. The tensors must be in the order of sort_for_file(), except that tensors
  /// with elements of the same size may have any order. Throws Error(resource) if the header is larger than readers
  /// accept, or if the file cannot be written; the caller must then remove the incomplete file.
  SafetensorsStream(const std::string& path, std::vector<StreamedTensor> tensors,
                    const std::map<std::string, std::string>& metadata = {}, const FileWork& work = {});

  /// Appends the next bytes. Throws std::logic_error if they extend beyond the end of the current tensor, and
  /// Error(resource) if the file cannot be written.
  void append(const void* bytes, int64_t count);
  /// Fsyncs and closes the file. Throws std::logic_error if a tensor is incomplete, and Error(resource) if the file
  /// cannot be written.
  SafetensorsResult finish();

 private:
  void begin_next();

  std::vector<StreamedTensor> tensors_;
  OutputFile file_;
  size_t next_ = 0;   // index of the tensor after the current tensor
  int64_t left_ = 0;  // remaining bytes of the current tensor
  std::optional<data::StreamingDigest> digest_;
  SafetensorsResult result_{};
};

}  // namespace hexad::io
