// Reads the elements of parameters and states that a rank holds, from checkpoints of any layout.
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
/// Returns the place of an optimizer state. The states of AdamW have their own kinds. States of other optimizers are
/// stored as model states, named after the parameter.
StoredAs stored_as(const optim::Optimizer::State& s);

/// Calls f(rectangle, begin, end) for each rectangle of the global tensor that this rank owns of `p`. The rectangle has
/// elements [begin, end) of the flat owned elements.
template <class F>
void for_each_rectangle(const Parameter& p, F&& f) {
  int64_t begin = 0;
  for (const io::Region& r : io::regions_of_flat_range(p.region(), p.owned())) {
    const int64_t end = begin + r.size.numel();
    f(r, begin, end);
    begin = end;
  }
}
/// Calls f(rectangle, part) for each rectangle of the global tensor in `owned`. `owned` has the elements of `p` that
/// this rank owns. `part` has the elements of the rectangle, in its shape.
template <class F>
void for_each_rectangle(const Parameter& p, const Tensor& owned, F&& f) {
  for_each_rectangle(
      p, [&](const io::Region& r, int64_t begin, int64_t end) { f(r, owned.slice(0, begin, end).reshape(r.size)); });
}

/// Calls f(parameter, weights) for each frozen parameter, of which this rank owns the flat tensor `weights`.
template <class F>
void for_each_frozen(const ModelInstance& instance, F&& f) {
  for (const auto& p : instance.parameters)
    if (!p->trainable() && !p->owned().empty()) f(*p, p->owned_weights());
}

/// Copies host memory to `target`. If `target` has another dtype, rounds the elements to the nearest value, ties to
/// even.
void copy_from_host(const Tensor& target, const Tensor& host);

/// Throws Error(usage) unless the stored shape is `shape`, which is the shape in the recipe's model. `remedy` is
/// appended to the message.
void require_shape(const io::Checkpoint& checkpoint, const std::string& name, io::Kind kind, const base::Shape& shape,
                   const std::string& remedy = {});

/// Reads a region of a tensor to the host. Throws Error(numeric) if an element is not finite.
Tensor read_finite(io::Checkpoint& checkpoint, const StoredAs& stored, const io::Region& region, Device host);

/// Reads (name, kind) into `target`, which may have another dtype: the run that saved the elements may have had another
/// precision or another dtype of moments. Throws Error(usage) unless the stored shape is `shape`.
void read_into(io::Checkpoint& checkpoint, const StoredAs& stored, const base::Shape& shape, const io::Region& region,
               const Tensor& target);

/// Returns `shape` without dimension `dim`.
base::Shape without(const base::Shape& shape, int dim);

/// True if an older program stored the stacked parts of the parameter as separate tensors.
bool stored_apart(const io::Checkpoint& checkpoint, const Parameter& p, const StoredAs& stored);

/// Reads the elements of `p` that this rank owns into the flat tensor `owned`.
void read_owned(io::Checkpoint& checkpoint, const Parameter& p, const StoredAs& stored, const Tensor& owned);

/// Reads the states of the model that the checkpoint has.
void load_states(io::Checkpoint& checkpoint, ModelInstance& instance);

}  // namespace hexad::train
