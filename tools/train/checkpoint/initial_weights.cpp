#include "tools/train/checkpoint/initial_weights.h"

#include <algorithm>
#include <span>
#include <vector>

#include "framework/base/philox.h"
#include "layers/model_size.h"

namespace hexad::train {

using namespace autograd;
using namespace base;
using namespace tensor;

namespace {

constexpr io::Kind main_kind = io::Kind::main;

// Splits a name such as "layers.3.moe.experts.down.weight" at ".moe." into `block` ("layers.3") and `tail`
// ("experts.down.weight"). Both are empty if the name does not belong to an MoE layer.
struct MoeName {
  explicit MoeName(const std::string& name) {
    constexpr std::string_view middle = ".moe.";
    const size_t at = name.find(middle);
    if (at == std::string::npos) return;
    block = name.substr(0, at), tail = name.substr(at + middle.size());
  }
  bool is_router() const { return tail == "router.weight"; }
  // Returns the name inside an expert, such as "gate_up.weight"; empty if the parameter belongs to no expert.
  std::string of_expert() const {
    constexpr std::string_view prefix = "experts.";
    return tail.starts_with(prefix) ? tail.substr(prefix.size()) : "";
  }
  // True if each row of the parameter may belong to one routed expert.
  bool may_have_rows_of_experts() const { return tail.starts_with("router.") || !of_expert().empty(); }
  std::string block{}, tail{};
};

bool is_vocabulary(const std::string& name) {
  return name == "embedding.weight" || name == "head.weight" || name == "head.bias";
}

// Returns the dimension of a dense MLP's tensor along which the MLP's width extends; -1 if there is none. `rank` is the
// tensor's number of dimensions, and `tail` its name inside the MLP.
int width_dim(const std::string& tail, int rank) {
  if (tail == "down.bias") return -1;
  if (tail == "down.weight" || tail.ends_with(".bias")) return rank - 1;
  return rank - 2;
}

bool same_beyond_rows(const Shape& a, const Shape& b) { return a.rank() == b.rank() && without(a, 0) == without(b, 0); }

// Calls f(local, global, count) for each row of the region. The row's `count` elements begin at index `local` of the
// region and at index `global` of the global tensor.
template <class F>
void for_each_row(const Shape& global, const io::Region& region, F&& f) {
  const Shape strides = global.row_major_strides();
  const int last = global.rank() - 1;
  const int64_t count = region.size[last], rows = count > 0 ? region.size.numel() / count : 0;
  for (int64_t r = 0; r < rows; ++r) {
    int64_t rest = r, index = region.begin[last];
    for (int d = last - 1; d >= 0; --d) {
      index += (region.begin[d] + rest % region.size[d]) * strides[d];
      rest /= region.size[d];
    }
    f(r * count, index, count);
  }
}

// Returns row `i` of `t`, with a first dimension of size 1.
Tensor row_of(const Tensor& t, int64_t i) { return t.slice(0, i, i + 1); }

// Returns the values of `t` times `factor`, in the accumulator dtype. If `noise` > 0, also multiplies each value by
// 1 + `noise` * z with a standard normal number z. The number z depends only on the seed, the parameter's name and
// the element's index.
Tensor changed(const Tensor& t, const io::Region& region, double factor, const Parameter& p, double noise,
               uint64_t seed) {
  const Philox random(seed, Purpose::noise, p.name());
  const Tensor out = Tensor::empty(region.size, accumulator_dtype(t.dtype()), t.device(), Category::temporary);
  with_dtype<float, double, bf16>("initial weights", t.dtype(), [&]<class T>() {
    using A = accumulator_t<T>;
    const T* from = t.data<T>();
    A* to = out.data<A>();
    std::vector<float> normals(noise > 0 ? region.size[-1] : 0);
    for_each_row(p.global_shape(), region, [&](int64_t local, int64_t global, int64_t count) {
      if (noise > 0) random.normals(normals, static_cast<uint64_t>(global));
      for (int64_t i = 0; i < count; ++i) {
        const double times = noise > 0 ? 1 + noise * static_cast<double>(normals[i]) : 1;
        to[local + i] = static_cast<A>(static_cast<double>(static_cast<A>(from[local + i])) * (factor * times));
      }
    });
  });
  return out;
}

// Returns the mean of all stored rows as one row with the columns of `region`. Adds the rows in ascending order, so the
// result does not depend on the layout.
Tensor mean_row(io::Checkpoint& checkpoint, const std::string& name, io::Region region, Device host) {
  constexpr int64_t rows_at_once = 1024;
  Shape row = region.size;
  row[0] = 1;
  const int64_t rows = checkpoint.record(name, main_kind).shape[0], columns = row.numel();
  const Tensor mean = Tensor::zeros(row, Dtype::f64, host, Category::temporary);
  double* sums = mean.data<double>();
  for (int64_t begin = 0; begin < rows; begin += rows_at_once) {
    region.begin[0] = begin, region.size[0] = std::min(rows_at_once, rows - begin);
    const Tensor block = read_finite(checkpoint, {name, main_kind}, region, host);
    with_dtype<float, double, bf16>("initial weights", block.dtype(), [&]<class T>() {
      const T* values = block.data<T>();
      for (int64_t i = 0; i < block.numel(); ++i)
        sums[i % columns] += static_cast<double>(static_cast<accumulator_t<T>>(values[i]));
    });
  }
  for (int64_t c = 0; c < columns; ++c) sums[c] /= static_cast<double>(rows);
  return mean;
}

}  // namespace

std::string_view remedy_for_unused(std::string_view parameter) {
  return parameter.starts_with("prediction.") ? "; set model.prediction_blocks as in the stored model"
                                              : "; set the section model as in the recipe or config.json of the "
                                                "checkpoint";
}

// Returns the number of experts that together form the dense MLP `mlp`.
int64_t InitialWeights::parts_of_dense(const std::string& mlp) const {
  const int64_t width = checkpoint_.record(mlp + ".down.weight", main_kind).shape[-1],
                part = recipe_.model.moe.expert_hidden;
  if (recipe_.train.init_experts == InitExperts::copy) {
    if (width != part)
      fail(ExitCode::usage, "model.moe.expert_hidden (", part, ") must be ", width, ", the width of ", mlp, " in ",
           checkpoint_.folder(), ", for train.init_experts: copy; train.init_experts: split accepts the divisors of ",
           width);
    return 1;
  }
  if (part > width || width % part != 0) {
    int64_t below = std::min(part, width), above = below;
    while (width % below != 0) --below;
    while (width % above != 0) ++above;
    const int64_t nearest = part - below <= above - part ? below : above;
    fail(ExitCode::usage, "model.moe.expert_hidden (", part, ") must divide ", width, ", the width of ", mlp, " in ",
         checkpoint_.folder(), ", for train.init_experts: split; nearest: ", nearest);
  }
  return width / part;
}

// Throws Error(usage) if the first loss would differ from the loss of the dense model. The losses are equal if all
// of these conditions hold:
// - The routing weights of a token's experts sum to model.moe.scale and multiply the experts' results.
// - A token's experts are whole groups of `parts` experts.
// - The block has no dense MLP besides the experts.
// - The experts read what the dense MLP reads: the normalised sum of the block's input and attention.
void InitialWeights::require_dense_start(int64_t parts) const {
  const moe::MoeConfig& m = recipe_.model.moe;
  const auto refuse = [&](std::string_view key, const auto& value, const std::string& rule,
                          const std::string& nearest = "") {
    fail(ExitCode::usage, "model.moe.", key, " (", value, ") must be ", rule,
         " for train.init_experts, because the first loss must equal that of the dense model in ", checkpoint_.folder(),
         nearest);
  };
  const auto require_multiple = [&](std::string_view key, int64_t value) {
    if (value % parts != 0)
      refuse(key, value, cat("a multiple of the ", parts, " experts that form a dense MLP"),
             cat("; nearest: ", std::max<int64_t>(1, (value + parts / 2) / parts) * parts));
  };
  if (m.router != "top_k") refuse("router", m.router, "top_k");
  if (!m.normalize) refuse("normalize", "false", "true");
  if (m.normalize_floor > 0) refuse("normalize_floor", m.normalize_floor, "0");
  if (m.dense_residual) refuse("dense_residual", "true", "false");
  if (m.input != moe::ExpertInput::after_attention) refuse("input", "before_attention", "after_attention");
  if (m.weigh != moe::Weighing::output) refuse("weigh", "input", "output");
  require_multiple("experts", m.experts), require_multiple("top_k", m.top_k);
  if ((m.experts / m.groups) % parts != 0)
    refuse("groups", m.groups, cat("1, or a number of groups that each have a multiple of ", parts, " experts"));
}

InitialWeights::Source InitialWeights::source_of(const Parameter& p) const {
  const StoredAs stored{p.name(), main_kind};
  if (stored_apart(checkpoint_, p, stored)) {
    for (const std::string& name : p.spec().stack.names)
      require_shape(checkpoint_, name, main_kind, without(p.global_shape(), p.spec().stack.dim));
    return {.name = p.name()};
  }
  if (checkpoint_.contains(p.name(), main_kind)) {
    const Shape& shape = checkpoint_.record(p.name(), main_kind).shape;
    if (shape == p.global_shape()) return {.name = p.name()};
    return source_of_resized(p, shape);
  }
  const MoeName moe(p.name());
  const std::string mlp = moe.block + ".mlp", tail = moe.of_expert(), dense = mlp + "." + tail;
  const bool from_dense = checkpoint_.contains(mlp + ".down.weight", main_kind);
  if (from_dense && (moe.is_router() || (!tail.empty() && checkpoint_.contains(dense, main_kind))))
    return source_of_new(p, mlp, tail);
  checkpoint_.record(p.name(), main_kind);  // throws, because the parameter is not stored
  return {};
}

// Returns the source of a parameter whose stored tensor has another shape, `stored`.
InitialWeights::Source InitialWeights::source_of_resized(const Parameter& p, const Shape& stored) const {
  const Shape& shape = p.global_shape();
  const MoeName moe(p.name());
  std::string remedy;
  if (same_beyond_rows(stored, shape) && is_vocabulary(p.name())) {
    if (recipe_.train.init_vocabulary != InitVocabulary::none && stored[0] < shape[0])
      return {.way = Way::grown, .name = p.name(), .copied = stored[0]};
    remedy = stored[0] < shape[0]
                 ? std::string("; to keep the stored rows and add new ones, set train.init_vocabulary: grow")
                 : cat("; model.vocab must be at least that of the stored model (", stored[0], ")");
  } else if (same_beyond_rows(stored, shape) && moe.may_have_rows_of_experts() &&
             shape[0] == recipe_.model.moe.experts) {
    const int64_t experts = stored[0];
    const bool multiple = shape[0] > experts && shape[0] % experts == 0;
    if (recipe_.train.init_experts == InitExperts::copy && multiple)
      return {.way = moe.is_router() ? Way::router_rows : Way::experts, .name = p.name(), .copied = experts};
    remedy = multiple ? std::string("; to copy the stored experts to the new ones, set train.init_experts: copy")
                      : cat("; model.moe.experts must be ", experts, ", or a multiple of ", experts,
                            " with train.init_experts: copy");
  } else if (p.name() == "position_embedding.weight") {
    remedy = "; model.context must be that of the stored model, because learned positions cannot be extended";
  }
  require_shape(checkpoint_, p.name(), main_kind, shape, remedy);  // throws, because the shapes differ
  return {};
}

// Returns the source of a parameter of an MoE layer, in a block whose stored MLP `mlp` is dense. `tail` is the
// parameter's name inside the expert; empty for the router.
InitialWeights::Source InitialWeights::source_of_new(const Parameter& p, const std::string& mlp,
                                                     const std::string& tail) const {
  if (recipe_.train.init_experts == InitExperts::none)
    fail(ExitCode::data, checkpoint_.folder(), ": contains no main weights of '", p.name(), "', but the dense MLP ",
         mlp, "; set train.init_experts to copy or split to build experts from the MLP");
  const int64_t parts = parts_of_dense(mlp);
  require_dense_start(parts);
  if (tail.empty()) return {.way = parts == 1 ? Way::initial : Way::group_rows, .copied = parts};
  Shape whole = without(p.global_shape(), 0);
  const int cut = width_dim(tail, whole.rank());
  if (cut >= 0) whole[cut] *= parts;
  const std::string dense = mlp + "." + tail;
  require_shape(checkpoint_, dense, main_kind, whole);
  // A token's experts are whole groups, and the experts of a group have equal routing weights. Therefore, the routing
  // weights of a token's experts that have the same part of the dense MLP sum to scale / parts.
  const double scale = recipe_.model.moe.scale;
  const double factor = tail == "down.weight" ? static_cast<double>(parts) / scale
                        : tail == "down.bias" ? 1 / scale
                                              : 1;
  return {.way = Way::experts, .name = dense, .copied = parts, .dense = true, .cut = cut, .factor = factor};
}

// True if `stored` is a parameter of a dense MLP from which experts are made. The MLP's block then has experts in the
// recipe's model, but not in the checkpoint. `names` are the parameters of the recipe's model.
bool InitialWeights::becomes_expert(const std::string& stored, const std::set<std::string>& names) const {
  constexpr std::string_view middle = ".mlp.";
  const size_t at = stored.find(middle);
  if (at == std::string::npos) return false;
  const std::string moe = stored.substr(0, at) + ".moe.";
  return names.contains(moe + "experts." + stored.substr(at + middle.size())) &&
         !checkpoint_.contains(moe + "router.weight", main_kind);
}

// Throws Error(usage) if the checkpoint has a weight or a selection bias that the recipe's model lacks. Without this
// tensor, the recipe's model would compute another function than the stored model.
void InitialWeights::require_place_for_all(const Extensions& extensions) const {
  layers::ModelConfig model = recipe_.model;
  model.moe.routing = moe::Routing::model;  // other routings may read a file
  std::set<std::string> names;
  for (const layers::NamedSize& p : layers::parameter_sizes(model, extensions)) {
    names.insert(p.name);
    names.insert(p.parts.begin(), p.parts.end());
  }
  const auto refuse = [&](const std::string& name, std::string_view remedy) {
    fail(ExitCode::usage, checkpoint_.folder(), ": contains ", name, ", which the recipe's model does not have",
         remedy);
  };
  for (const io::TensorRecord& t : checkpoint_.manifest().tensors) {
    if (t.kind == main_kind && !names.contains(t.name) && !becomes_expert(t.name, names))
      refuse(t.name, remedy_for_unused(t.name));
    if (t.kind == io::Kind::state && t.name.ends_with(".router.bias") && !model.moe.has_selection_bias())
      refuse(t.name, "; to keep this bias, set model.moe.selection_bias: true");
  }
}

void InitialWeights::require_shapes(const ModelInstance& instance) const {
  for (const auto& p : instance.parameters) source_of(*p);
  require_place_for_all(instance.extensions);
  for (const auto& s : instance.states) {
    if (!checkpoint_.contains(s.name, io::Kind::state)) continue;
    const Shape& stored = checkpoint_.record(s.name, io::Kind::state).shape;
    const bool copied = recipe_.train.init_experts == InitExperts::copy && stored.rank() == 1 && s.tensor.rank() == 1 &&
                        s.tensor.dim(0) % stored[0] == 0;
    if (!copied) require_shape(checkpoint_, s.name, io::Kind::state, s.tensor.shape());
  }
}

// Reads the rows of `region` that are stored. With train.init_vocabulary: grow, the remaining rows keep their initial
// values; with mean, each remaining row is the mean of the stored rows.
void InitialWeights::read_grown(const Parameter& p, const Source& source, const io::Region& region,
                                const Tensor& target) const {
  const Device host = target.device().host();
  const int64_t rows = region.size[0], kept = std::clamp<int64_t>(source.copied - region.begin[0], 0, rows);
  if (kept > 0) {
    io::Region old = region;
    old.size[0] = kept;
    copy_from_host(target.slice(0, 0, kept), read_finite(checkpoint_, {p.name(), main_kind}, old, host));
  }
  if (kept == rows || recipe_.train.init_vocabulary == InitVocabulary::grow) return;
  const Tensor mean = mean_row(checkpoint_, p.name(), region, host);
  for (int64_t r = kept; r < rows; ++r) copy_from_host(row_of(target, r), mean);
}

// Fills the rows of a router: copies stored rows, or draws the same random row for all experts of a group. Reads no
// stored row twice.
void InitialWeights::read_rows(const Parameter& p, const Source& source, const io::Region& region,
                               const Tensor& target) const {
  const Device host = target.device().host();
  const int64_t columns = region.size[1], width = p.global_shape()[1];
  const Philox random(recipe_.train.seed, Purpose::init, p.name());
  std::vector<Tensor> known(source.copied);
  for (int64_t r = 0; r < region.size[0]; ++r) {
    const int64_t expert = region.begin[0] + r;
    if (source.way == Way::router_rows) {
      Tensor& values = known[expert % source.copied];
      if (!values.defined()) {
        io::Region row = region;
        row.begin[0] = expert % source.copied, row.size[0] = 1;
        values = read_finite(checkpoint_, {source.name, main_kind}, row, host);
      }
      copy_from_host(row_of(target, r), values);
      continue;
    }
    const int64_t first = expert / source.copied * source.copied;
    const Tensor row = Tensor::empty({1, columns}, Dtype::f32, host, Category::temporary);
    const std::span<float> values(row.data<float>(), static_cast<size_t>(columns));
    random.normals(values, static_cast<uint64_t>(first * width + region.begin[1]));
    for (float& v : values) v *= static_cast<float>(p.spec().init.value);
    copy_from_host(row_of(target, r), row);
  }
}

// Reads a stored expert, or a part of the dense MLP, for each expert of the region. Reads each stored expert or part
// only once, even if several experts copy it.
void InitialWeights::read_experts(const Parameter& p, const Source& source, const io::Region& region,
                                  const Tensor& target) const {
  const Device host = target.device().host();
  const bool is_weight = p.name().ends_with(".weight");
  std::vector<Tensor> known(source.copied);
  for (int64_t e = 0; e < region.size[0]; ++e) {
    io::Region here = region;
    here.begin[0] += e, here.size[0] = 1;
    const int64_t expert = here.begin[0];
    // A dense tensor that is not divided has the same values for all experts.
    const int64_t from = source.dense && source.cut < 0 ? 0 : expert % source.copied;
    Tensor& values = known[from];
    if (!values.defined()) {
      io::Region there = here;
      there.begin[0] = from;
      if (source.dense) {
        there = {without(here.begin, 0), without(here.size, 0)};
        if (source.cut >= 0) there.begin[source.cut] += from * p.global_shape()[source.cut + 1];
      }
      values = read_finite(checkpoint_, {source.name, main_kind}, there, host).reshape(here.size);
    }
    const bool is_copy = source.dense || expert >= source.copied;
    const double noise = is_copy && is_weight ? recipe_.train.init_noise : 0;
    copy_from_host(row_of(target, e), source.factor == 1 && noise == 0
                                          ? values
                                          : changed(values, here, source.factor, p, noise, recipe_.train.seed));
  }
}

void InitialWeights::read(const Parameter& p, const Tensor& owned) const {
  const Source source = source_of(p);
  if (source.way == Way::stored) return read_owned(checkpoint_, p, {p.name(), main_kind}, owned);
  for_each_rectangle(p, owned, [&](const io::Region& region, const Tensor& part) {
    switch (source.way) {
      case Way::grown:
        return read_grown(p, source, region, part);
      case Way::group_rows:
      case Way::router_rows:
        return read_rows(p, source, region, part);
      case Way::experts:
        return read_experts(p, source, region, part);
      case Way::stored:
      case Way::initial:
        return;
    }
  });
}

// Multiplies `values` by `factor`.
void scale_values(const Tensor& values, double factor) {
  with_dtype<float, double>("initial weights", values.dtype(), [&]<class T>() {
    for (T& v : std::span(values.data<T>(), static_cast<size_t>(values.numel()))) v *= static_cast<T>(factor);
  });
}

// Reads the states of the model. New experts get the states of the experts from which they are copied. Softmax scores
// sum to 1 over all experts, so scores are about k times smaller with k times as many experts. Selection biases are
// added to the scores, so the biases are divided by k.
void InitialWeights::load_states(ModelInstance& instance) const {
  for (const auto& s : instance.states) {
    if (!checkpoint_.contains(s.name, io::Kind::state)) continue;
    const StoredAs stored{s.name, io::Kind::state};
    const Shape shape = checkpoint_.record(s.name, stored.kind).shape;
    if (shape == s.tensor.shape()) {
      read_into(checkpoint_, stored, shape, io::whole(shape), s.tensor);
      continue;
    }
    const Tensor values = read_finite(checkpoint_, stored, io::whole(shape), s.tensor.device().host());
    if (recipe_.model.moe.score == kernels::RouterScore::softmax)
      scale_values(values, static_cast<double>(shape[0]) / static_cast<double>(s.tensor.dim(0)));
    for (int64_t begin = 0; begin < s.tensor.dim(0); begin += shape[0])
      copy_from_host(s.tensor.slice(0, begin, begin + shape[0]), values);
  }
}

void InitialWeights::load(ModelInstance& instance, optim::Optimizer& optimizer) const {
  require_shapes(instance);
  Stream& stream = instance.context.compute();
  instance.weights.update(stream, [&] {
    for (const auto& s : optimizer.states())
      if (s.kind == "main") s.load([&](const Tensor& values) { read(*s.parameter, values); });
    optimizer.main_changed(stream);
    for_each_frozen(instance, [&](const Parameter& p, const Tensor& weights) { read(p, weights); });
  });
  load_states(instance);
}

}  // namespace hexad::train
