// The tensors of one foreign checkpoint, and the Hexad parameters to which they correspond.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "framework/io/manifest.h"
#include "tools/interop/family.h"
#include "tools/interop/model_keys.h"

namespace hexad::interop {

using base::Shape;

/// Layout of the experts of a block in a checkpoint: separate tensors for each expert, tensors that hold all experts,
/// or tensors that hold all experts in MXFP4. MXFP4 is supported only for reading.
enum class ExpertLayout : uint8_t { separate, fused, mxfp4 };

/// Sizes of a model by the letters that the tables use, and evaluation of the tables' conditions.
class Sizes {
 public:
  Sizes(const ModelKeys& keys, const Family& family, ExpertLayout layout);

  int64_t layers() const { return keys_.integer("model.layers"); }
  /// Returns the number of layers and prediction blocks.
  int64_t blocks() const { return keys_.blocks(); }
  int64_t experts() const { return keys_.integer("model.moe.experts"); }
  int64_t head() const { return keys_.integer("model.head_size"); }
  /// Returns the number of dimensions of each head that rotate.
  int64_t rotary() const;
  /// Returns the row of the foreign tensor for each of `rows` rows of the parameters. Requires a `rearrangement` that
  /// moves rows.
  std::vector<int64_t> moved_rows(Rearrangement rearrangement, int64_t rows) const;
  /// Returns the shape that a text such as "E 2I H" describes.
  Shape shape(std::string_view text) const;
  /// True if all conditions in `words` hold for block `layer`.
  bool hold(std::string_view words, int64_t layer) const;

 private:
  bool is_latent() const;
  int64_t delta_keys() const;  // number of key heads of a delta net
  int64_t size(char letter) const;
  bool holds(std::string_view word, int64_t layer) const;

  const ModelKeys& keys_;
  bool pairs_;
  ExpertLayout layout_;
};

/// A parameter or state tensor of Hexad.
struct OwnTensor {
  std::string name;
  io::Kind kind;  // main or state
  Shape shape;
};

/// A foreign tensor. After the rearrangement, it is the concatenation of `parts`.
struct Link {
  struct Part {
    size_t own;         // index into TensorMap::own
    io::Region region;  // region of the parameter own[own]
    int64_t first;      // index of the region's first element in the parameter, in row-major order
  };
  std::string theirs;
  Shape shape;
  Rearrangement rearrangement;
  std::vector<Part> parts;
  std::string original{};  // name of the foreign tensor that this copy repeats; empty: this is no copy

  /// Returns the shape in which the tensor is rearranged: its first dimension is the expert if is_by_expert() is true.
  Shape rearranged_shape() const;
  /// Returns the index at which part `part` begins in the rearranged tensor.
  int64_t begin_of(size_t part) const;
};

struct TensorMap {
  std::vector<OwnTensor> own;
  std::vector<Link> links;
  std::vector<Link> copies;  // foreign tensors that repeat a tensor of `links`
};

/// True if the rearrangement works on each expert separately.
bool is_by_expert(Rearrangement rearrangement);
/// These functions rearrange the elements of one expert of a link: from the foreign form to Hexad's, and back. Each
/// element has `bytes` bytes. `to` has the size of `from`. The contents of `from` may change.
void expert_to_own(std::vector<std::byte>& to, std::vector<std::byte>& from, const Link& link, int64_t bytes);
void expert_to_foreign(std::vector<std::byte>& to, std::vector<std::byte>& from, const Link& link, int64_t bytes);

/// Returns the tensors of a model. Throws std::logic_error if the tables do not cover every parameter exactly once.
TensorMap map_tensors(const Family& family, const Sizes& sizes);

}  // namespace hexad::interop
