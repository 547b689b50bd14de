// The recipe's section `optim`.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "framework/base/dtype.h"
#include "framework/config/constraints.h"
#include "framework/config/options.h"

namespace hexad::optim {

enum class ScheduleKind : uint8_t { constant, cosine, linear, wsd };
constexpr auto enum_names(ScheduleKind) {
  return std::to_array<std::pair<ScheduleKind, std::string_view>>({{ScheduleKind::constant, "constant"},
                                                                   {ScheduleKind::cosine, "cosine"},
                                                                   {ScheduleKind::linear, "linear"},
                                                                   {ScheduleKind::wsd, "wsd"}});
}

/// Dtype in which the gradients of bf16 weights are stored and summed over ranks.
enum class GradientDtype : uint8_t { f32, bf16 };
constexpr auto enum_names(GradientDtype) {
  return std::to_array<std::pair<GradientDtype, std::string_view>>(
      {{GradientDtype::f32, "f32"}, {GradientDtype::bf16, "bf16"}});
}

/// Dtype in which AdamW stores its moments. Registered rules with RuleDeclaration::reads_moment_dtype also store their
/// states in this dtype. The value f32 means the accumulator dtype, which is f64 in an f64 run.
enum class MomentDtype : uint8_t { f32, bf16 };
constexpr auto enum_names(MomentDtype) {
  return std::to_array<std::pair<MomentDtype, std::string_view>>(
      {{MomentDtype::f32, "f32"}, {MomentDtype::bf16, "bf16"}});
}

/// Storage of the f32 main weights of bf16 weights. f32: all 32 bits. rest: only the 16 bits that the bf16 weight does
/// not contain (docs/adr/0014).
enum class MainWeights : uint8_t { f32, rest };
constexpr auto enum_names(MainWeights) {
  return std::to_array<std::pair<MainWeights, std::string_view>>(
      {{MainWeights::f32, "f32"}, {MainWeights::rest, "rest"}});
}

/// Storage of main weights and states between two updates. none: device memory. file: the device's offload memory.
enum class StateOffload : uint8_t { none, file };
constexpr auto enum_names(StateOffload) {
  return std::to_array<std::pair<StateOffload, std::string_view>>(
      {{StateOffload::none, "none"}, {StateOffload::file, "file"}});
}

struct OptimConfig {
  std::string name = "adamw";
  std::vector<config::NumberOption> options;
  double lr = 3e-4, beta1 = 0.9, beta2 = 0.95, eps = 1e-8, weight_decay = 0.1;
  double clip = 1.0;
  ScheduleKind schedule = ScheduleKind::cosine;
  int64_t warmup = 0;
  double min_lr_ratio = 0.1;
  double decay_fraction = 0.2;
  GradientDtype grad_dtype = GradientDtype::f32;
  MomentDtype moment_dtype = MomentDtype::f32;
  MainWeights main_weights = MainWeights::f32;
  bool overlap = false;
  double muon_momentum = 0.95;
  int64_t muon_iterations = 5;
  std::vector<std::string> muon_except;
  std::vector<std::string> freeze;

  // The recipe has no keys for the members below. They are set when a recipe is loaded.
  /// Minimum number of values per element that the chosen optimizer stores in addition to the main weights. Used for
  /// lower bounds of memory.
  int64_t states = 2;
  /// Seed of the stochastic rounding of bf16 moments: train.seed.
  uint64_t seed = 1;

  /// Returns the dtype of the states of weights whose accumulator dtype is `acc`.
  base::Dtype state_dtype(base::Dtype acc) const { return moment_dtype == MomentDtype::bf16 ? base::Dtype::bf16 : acc; }

  template <class V>
  void fields(V& v) {
    using config::at_least, config::less_than, config::positive, config::probability;
    v("name", name,
      "optimizer: adamw, sgd (plain, without weight decay, for tests), muon (orthogonal updates for matrices of hidden "
      "layers, AdamW for other parameters), or the name of a registered optimizer");
    v("options", options, "options of a registered optimizer, each with a name and a number");
    v("lr", lr, "peak learning rate", at_least(0));
    v("beta1", beta1, "AdamW: decay rate of the first moment", at_least(0), less_than(1));
    v("beta2", beta2, "AdamW: decay rate of the second moment", at_least(0), less_than(1));
    v("eps", eps, "AdamW: constant added to the square root of the second moment", positive());
    v("weight_decay", weight_decay,
      "decoupled weight decay; not applied to norms, biases, attention sinks, or log_rate and shift of delta nets",
      at_least(0));
    v("clip", clip,
      "maximum norm of all gradients together; if their norm is larger, they are scaled down to it. 0: no clipping",
      at_least(0));
    v("schedule", schedule,
      "learning rate after the warm-up: constant, cosine, linear, or wsd (constant, then a linear decay)");
    v("warmup", warmup, "number of steps of linear warm-up", at_least(0));
    v("min_lr_ratio", min_lr_ratio, "cosine, linear and wsd: learning rate at the end, as a share of lr",
      probability());
    v("decay_fraction", decay_fraction,
      "wsd: share of all steps, at the end of training, in which the learning rate decays", probability());
    v("grad_dtype", grad_dtype,
      "dtype of the gradients of bf16 weights: f32, or bf16, which halves their memory and traffic; gradients of other "
      "weights have the dtype of the weights");
    v("moment_dtype", moment_dtype,
      "AdamW: dtype of both moments: f32 (f64 in an f64 run), or bf16 with stochastic rounding, which halves their "
      "memory and traffic");
    v("main_weights", main_weights,
      "AdamW: storage of the f32 main weights of bf16 weights: f32, or rest, which stores only the 16 bits that the "
      "bf16 weight does not contain. rest needs half the memory, and its results are bitwise identical");
    v("overlap", overlap,
      "on a GPU, update the weights on a separate queue while the next forward computes. A layer waits for the buckets "
      "of its weights. Results are bitwise identical. On a CPU, updates always end before the next forward begins");
    v("muon_momentum", muon_momentum, "Muon: decay rate of the momentum", at_least(0), less_than(1));
    v("muon_iterations", muon_iterations, "Muon: number of Newton-Schulz iterations that orthogonalise an update",
      at_least(1));
    v("muon_except", muon_except,
      "Muon: further matrices that AdamW updates, besides embeddings, head, routers and convolutions: shell patterns "
      "of parameter names; each pattern must match a parameter");
    v("freeze", freeze,
      "parameters that are not trained: shell patterns of parameter names, such as embedding.weight or layers.0.*; "
      "each pattern must match a parameter; []: all parameters are trained");
  }
};

}  // namespace hexad::optim
