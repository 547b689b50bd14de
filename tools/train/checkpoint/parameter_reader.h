// Reads this rank's elements of parameters and states from checkpoints of any layout.
#pragma once

#include <string>

#include "framework/io/checkpoint.h"
#include "framework/io/flat_regions.h"
#include "optim/optimizer.h"
#include "tools/train/model/model_instance.h"

namespace hexad::train {

using autograd::Parameter;
using tensor::Tensor;

/// Name and kind of a parameter or of an optimizer state in a checkpoint.
struct StoredAs {
  std::string name;
  io::Kind kind;
};
/// Returns the name and kind under which an optimizer state is stored. Main weights and AdamW's two moments have their
/// own kinds. All other states are stored as model states with names PARAMETER/STATE.
StoredAs stored_as(const optim::Optimizer::State& s);

/// Calls f(rectangle, begin, end) for each rectangle of the global tensor `p` that this rank owns. [begin, end) is the
/// range of the rectangle's elements in the flat owned elements.
template <class F>
void for_each_rectangle(const Parameter& p, F&& f) {
  int64_t begin = 0;
  for (const io::Region& r : io::regions_of_flat_range(p.region(), p.owned())) {
    const int64_t end = begin + r.size.numel();
    f(r, begin, end);
    begin = end;
  }
}
/// Calls f(rectangle, part) for each rectangle of the global tensor `p` that this rank owns. `owned` has all elements
/// of `p` that this rank owns. `part` has the elements of the rectangle, in the rectangle's shape.
template <class F>
void for_each_rectangle(const Parameter& p, const Tensor& owned, F&& f) {
  for_each_rectangle(
      p, [&](const io::Region& r, int64_t begin, int64_t end) { f(r, owned.slice(0, begin, end).reshape(r.size)); });
}

/// Calls f(parameter, weights) for each frozen parameter of which this rank owns elements. `weights` is the flat tensor
/// of these elements.
template <class F>
void for_each_frozen(const ModelInstance& instance, F&& f) {
  for (const auto& p : instance.parameters)
    if (!p->trainable() && !p->owned().empty()) f(*p, p->owned_weights());
}

/// Copies the tensor `host` to `target`. If the dtypes differ, rounds each element to the nearest value, ties to even.
void copy_from_host(const Tensor& target, const Tensor& host);

/// Throws Error(usage) if the stored shape is not `shape`, the shape in the recipe's model. `remedy` is appended to the
/// message.
void require_shape(const io::Checkpoint& checkpoint, const std::string& name, io::Kind kind, const base::Shape& shape,
                   const std::string& remedy = {});

/// Reads a region of a tensor into host memory. Throws Error(numeric) if an element is not finite.
Tensor read_finite(io::Checkpoint& checkpoint, const StoredAs& stored, const io::Region& region, Device host);

/// Reads a region of the stored tensor into `target`. The dtypes may differ, because the run that saved the tensor may
/// have had another precision or another dtype of moments. Throws Error(usage) if the stored shape is not `shape`, and
/// Error(numeric) if an element is not finite.
void read_into(io::Checkpoint& checkpoint, const StoredAs& stored, const base::Shape& shape, const io::Region& region,
               const Tensor& target);

/// Returns `shape` without dimension `dim`.
base::Shape without(const base::Shape& shape, int dim);

/// True if the checkpoint has the stacked parts of the parameter as separate tensors, as older programs stored them.
bool stored_apart(const io::Checkpoint& checkpoint, const Parameter& p, const StoredAs& stored);

/// Reads the elements of `p` that this rank owns into the flat tensor `owned`. Throws like read_into().
void read_owned(io::Checkpoint& checkpoint, const Parameter& p, const StoredAs& stored, const Tensor& owned);

/// Reads the model's states. States that the checkpoint does not have remain unchanged. Throws like read_into().
void load_states(io::Checkpoint& checkpoint, ModelInstance& instance);

}  // namespace hexad::train
