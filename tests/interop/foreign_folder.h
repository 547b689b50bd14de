// Hugging Face model folders for tests: copies of golden models whose files a test may change.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "tests/training/test_folder.h"

namespace hexad::tests {

using Json = nlohmann::ordered_json;

std::string read_text(const std::string& path);
void write_text(const std::string& path, const std::string& text);
/// Returns the folder of a golden model.
std::string golden_folder(const std::string& family);

/// A tensor of a safetensors file, of any dtype.
struct RawTensor {
  std::string dtype;
  std::vector<int64_t> shape;
  std::string bytes;
};
using RawTensors = std::map<std::string, RawTensor>;

RawTensors read_tensors(const std::string& path);
void write_tensors(const std::string& path, const RawTensors& tensors);
/// Returns the tensors of all .safetensors files of a folder, except reference.safetensors.
RawTensors tensors_of(const std::string& folder);

/// A copy of the configuration and weights of a golden model, in a scratch folder.
class ForeignFolder {
 public:
  explicit ForeignFolder(const std::string& family);

  std::string path() const { return scratch_ / "model"; }
  /// Returns the path of a new file or folder next to the copy.
  std::string beside(const std::string& name) const { return scratch_ / name; }
  void change_config(const std::function<void(Json&)>& change) const;
  void change_tensors(const std::function<void(RawTensors&)>& change) const;
  /// Replaces model.safetensors with two shards and an index.
  void divide() const;

 private:
  Scratch scratch_;
};

}  // namespace hexad::tests
