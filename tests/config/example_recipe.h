// Small recipe with members of every kind except ByteSize and Curve, and helpers for tests.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "framework/base/error.h"
#include "framework/config/typed_recipe.h"

namespace example {

using namespace hexad::config;

enum class Score { softmax, sigmoid };
constexpr auto enum_names(Score) {
  return std::to_array<std::pair<Score, std::string_view>>({{Score::softmax, "softmax"}, {Score::sigmoid, "sigmoid"}});
}

struct Moe {
  int64_t experts = 0;
  Score score = Score::softmax;
  std::optional<double> capacity_factor;
  bool operator==(const Moe&) const = default;

  template <class V>
  void fields(V& v) {
    v("experts", experts, "routed experts of a layer", at_least(0));
    v("score", score, "function that converts logits to weights");
    v("capacity_factor", capacity_factor, "maximum tokens per expert, relative to the mean | none: no limit",
      positive());
  }
};

struct Model {
  int64_t hidden = 0;
  int layers = 2;
  double dropout = 0;
  bool tied = false;
  Moe moe;
  bool operator==(const Model&) const = default;

  template <class V>
  void fields(V& v) {
    v("hidden", hidden, "width", at_least(1), divisible_by(8));
    v("layers", layers, "blocks", between(1, 1000));
    v("dropout", dropout, "dropped share", probability());
    v("tied", tied, "one matrix embeds and predicts");
    v("moe", moe, "the experts");
  }
};

struct Source {
  std::string path;
  double weight = 1;
  bool operator==(const Source&) const = default;

  template <class V>
  void fields(V& v) {
    v("path", path, "dataset", non_empty());
    v("weight", weight, "share", positive());
  }
};

struct Resume {
  uint64_t seed = 1;
  bool operator==(const Resume&) const = default;

  template <class V>
  void fields(V& v) {
    v("seed", seed, "random numbers");
  }
};

struct Recipe {
  std::string name = "run";
  Model model;
  std::optional<int64_t> etp;
  std::optional<std::string> note;
  std::optional<Resume> resume;
  std::vector<double> betas = {0.9, 0.95};
  std::vector<int64_t> steps;
  std::vector<Source> sources;
  bool operator==(const Recipe&) const = default;

  template <class V>
  void fields(V& v) {
    v("name", name, "name of the run", non_empty());
    v("model", model, "the network");
    v("etp", etp, "expert tensor parallelism; auto: tp", automatic, at_least(1));
    v("note", note, "free text");
    v("resume", resume, "a second section");
    v("betas", betas, "decay of the moments", size_exactly(2), at_least(0), less_than(1));
    v("steps", steps, "steps to save at", at_least(1));
    v("sources", sources, "mixture");
  }
};

/// Smallest legal recipe, to which tests add lines.
inline const std::string minimal = "model: {hidden: 64}\n";

/// Reads `text` as the file r.yaml. Throws Error(usage) if the recipe has problems.
inline Recipe read_text(std::string_view text, const std::vector<std::string>& overrides = {}) {
  Problems problems;
  Recipe recipe = read<Recipe>(parse(text, "r.yaml", overrides), problems);
  problems.throw_if_any();
  return recipe;
}

/// Returns the message of the Error(usage) that `action` throws, "wrong exit code" if it throws another Error, or
/// "accepted" if it throws nothing.
template <class F>
std::string refusal(F action) {
  try {
    action();
  } catch (const hexad::base::Error& e) {
    return e.code() == hexad::base::ExitCode::usage ? e.what() : "wrong exit code";
  }
  return "accepted";
}

inline std::string refusal_of(std::string_view text, const std::vector<std::string>& overrides = {}) {
  return refusal([&] { read_text(text, overrides); });
}

}  // namespace example
