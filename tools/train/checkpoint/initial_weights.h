// Initial weights of a run, made from a checkpoint whose model may have other experts or a smaller vocabulary.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>

#include "tools/train/checkpoint/parameter_reader.h"

namespace hexad::train {

/// Makes the weights of the recipe's model from the checkpoint train.init_from. train.init_experts and
/// train.init_vocabulary select how missing weights are made. Each rank reads only the tensors that its own elements
/// need. The values do not depend on the layout.
class InitialWeights {
 public:
  /// Keeps references to the checkpoint and the recipe, which must outlive this object.
  InitialWeights(io::Checkpoint& checkpoint, const Recipe& recipe) : checkpoint_(checkpoint), recipe_(recipe) {}

  /// Checks that the checkpoint fits the model, without reading weights. Throws:
  /// - Error(usage) with the name of a parameter or state whose shape differs from the stored shape, unless a key of
  ///   the recipe allows that
  /// - Error(usage) with the stored tensor's name if the recipe's model does not use this tensor
  /// - Error(usage) with the key if a key of model.moe does not fit train.init_experts
  /// - Error(data) if a weight is not stored and cannot be made from other weights
  void require_shapes(const ModelInstance& instance) const;
  /// Loads the weights into the model and the optimizer's main weights. Also loads the model's states. Throws like
  /// require_shapes(), and Error(numeric) if a stored element is not finite. Collective.
  void load(ModelInstance& instance, optim::Optimizer& optimizer) const;

 private:
  enum class Way : uint8_t {
    stored,       // the stored tensor, unchanged
    initial,      // random values, as in a model without a checkpoint; nothing is read
    group_rows,   // router of split experts: all experts of a group have the row drawn for the group's first expert
    grown,        // the stored rows, and new rows after them
    router_rows,  // router rows: copies of the stored rows, repeated cyclically
    experts,      // copies of stored experts, or of a dense MLP or its parts
  };
  // Stored tensor from which a parameter is made, and how it is made.
  struct Source {
    Way way = Way::stored;
    std::string name{};  // name of the stored tensor
    // Grown tensors: number of stored rows. Routers and experts: number of stored experts or, if the experts come from
    // a dense MLP, number of parts of this MLP. group_rows: number of experts in a group.
    int64_t copied = 1;
    bool dense = false;  // true if the stored tensor belongs to a dense MLP, which has no dimension of experts
    int cut = -1;        // dimension along which experts divide the dense tensor; -1: each expert has the whole tensor
    double factor = 1;   // factor by which copied values are multiplied
  };
  Source source_of(const Parameter& p) const;
  Source source_of_resized(const Parameter& p, const base::Shape& stored) const;
  Source source_of_new(const Parameter& p, const std::string& dense, const std::string& tail) const;
  int64_t parts_of_dense(const std::string& mlp) const;
  bool becomes_expert(const std::string& stored, const std::set<std::string>& names) const;
  void require_place_for_all(const Extensions& extensions) const;
  void require_dense_start(int64_t parts) const;

  void read(const Parameter& p, const Tensor& owned) const;
  void read_grown(const Parameter& p, const Source& source, const io::Region& region, const Tensor& target) const;
  void read_rows(const Parameter& p, const Source& source, const io::Region& region, const Tensor& target) const;
  void read_experts(const Parameter& p, const Source& source, const io::Region& region, const Tensor& target) const;
  void load_states(ModelInstance& instance) const;

  io::Checkpoint& checkpoint_;
  const Recipe& recipe_;
};

/// Returns the remedy for a stored parameter that the recipe's model does not have, as the end of a message.
std::string_view remedy_for_unused(std::string_view parameter);

}  // namespace hexad::train
