// A folder of the Hugging Face library: config.json, safetensors shards, tokenizer files. Its contents are not trusted.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "framework/base/file_work.h"
#include "framework/data/file.h"
#include "framework/io/safetensors_header.h"
#include "tools/interop/elements.h"

namespace hexad::interop {

using base::FileWork;
using base::Shape;

/// A tensor of the folder. Its size and its byte range have been checked.
struct SourceTensor {
  std::string file;        // name of the shard
  std::string_view dtype;  // as in the safetensors format, for example "BF16" or "BOOL"
  Shape shape;
  int64_t begin, end;  // byte offsets in the shard
  const data::ReadFile* shard;

  /// Reads `count` bytes, starting at byte `offset` of the tensor. Throws Error(data) if the file has become shorter.
  void read(int64_t offset, std::byte* out, int64_t count) const { shard->read_at(begin + offset, out, count); }
};

/// Returns the path of a file in a folder. Throws Error(data) in these cases:
/// - the name contains a folder or begins with a dot
/// - the file is missing or is not a regular file
/// - the file is a link that leads out of the folder
std::string checked_path(const std::string& folder, const std::string& name);

/// The tensors of a folder.
class SourceFolder {
 public:
  /// Opens the shards that model.safetensors.index.json lists, or model.safetensors. Reads headers only. Throws
  /// Error(data) naming the file and the tensor in these cases:
  /// - a file is missing, damaged or outside the folder
  /// - two shards have a tensor of the same name
  /// - the index and the shards disagree
  /// - the folder has model.safetensors, but also an index that does not list it
  /// - the folder has neither of these two files, for example only pickle files
  static SourceFolder open(const std::string& folder, FileWork work = {});

  const std::string& folder() const { return folder_; }
  const std::map<std::string, SourceTensor, std::less<>>& tensors() const { return tensors_; }
  const SourceTensor* find(std::string_view name) const;
  /// Returns the names of the files that describe or contain the weights: config.json, the index if there is one, and
  /// the shards.
  const std::vector<std::string>& files() const { return files_; }

 private:
  void add_shard(const std::string& file, const FileWork& work);
  void require_index(const std::map<std::string, std::string>& index, const std::string& path) const;

  std::string folder_;
  std::vector<std::string> files_{"config.json"};
  std::vector<std::unique_ptr<data::ReadFile>> shards_;
  std::map<std::string, SourceTensor, std::less<>> tensors_;
};

/// Returns the paths, relative to `folder`, of the files that belong to the tokenizer or to generation, sorted. Imports
/// and exports copy these files without interpreting them. The list contains no program code. Throws Error(data) if a
/// file cannot be read, is a link that leads out of the folder, or is longer than max_companion_bytes.
std::vector<std::string> companion_files(const std::string& folder);
/// Returns the path of a companion file. Throws Error(data) like companion_files().
std::string companion_path(const std::string& folder, const std::string& name);
/// Returns the names of the files of `folder` that imports do not copy, sorted. Omits weights and texts about the
/// model.
std::vector<std::string> uncopied_files(const std::string& folder);

/// Returns a text such as "tensors 'a', 'b' and 3 more", in a form that is safe to print.
std::string listed(std::string_view what, const std::vector<std::string>& names);

inline constexpr int64_t max_companion_bytes = int64_t{1} << 30;
inline constexpr int64_t max_config_bytes = int64_t{16} << 20;
inline constexpr int64_t max_index_bytes = int64_t{256} << 20;

}  // namespace hexad::interop
