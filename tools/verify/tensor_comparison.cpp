#include "tools/verify/tensor_comparison.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "parallel/comm/text_collectives.h"
#include "tools/verify/finding_json.h"
#include "tools/verify/ownership.h"
#include "tools/verify/rank_message.h"

namespace hexad::verify {
namespace {

using base::cat;
using nlohmann::json;

constexpr double infinite = std::numeric_limits<double>::infinity();
constexpr double smallest_share = 1e-3;  // smallest unit of a tensor, as a share of Whole::typical

double root_mean_square(double squares, int64_t count) {
  return count > 0 ? std::sqrt(squares / static_cast<double>(count)) : 0.0;
}

// Returns the difference divided by the larger of `unit` and the expected value. Returns 0 for equal values, including
// two NaNs. Returns infinity if the result is not finite, for example because only one value is NaN.
double relative_to(double unit, double expected, double actual) {
  if (expected == actual || (std::isnan(expected) && std::isnan(actual))) return 0;
  const double apart = std::abs(expected - actual);
  const double relative = apart / std::max(std::abs(expected), unit);
  return std::isfinite(relative) ? relative : infinite;
}

std::string coordinate(const Shape& shape, int64_t index) {
  Shape at = shape;
  for (int d = shape.rank() - 1; d >= 0; --d) {
    at[d] = index % shape[d];
    index /= shape[d];
  }
  return at.to_string();
}

std::string text_of(double value) {
  std::ostringstream out;
  out.precision(17);
  out << value;
  return out.str();
}

template <class T>
std::string text_of(const std::vector<T>& values) {
  std::string text;
  for (const T& v : values) text += cat(text.empty() ? "" : " ", v);
  return text;
}

// Returns the position of a kind of finding within its step, for sorting. Kinds that may cause other kinds come first.
// The loss comes last, because a wrong loss does not show the cause.
int order_of(const Finding& f) {
  constexpr std::string_view order[] = {"initial", "loaded", "router", "gradient",  "norm", "learning",
                                        "weight",  "state",  "saved",  "generated", "loss"};
  for (size_t i = 0; i < std::size(order); ++i)
    if (f.what.starts_with(order[i])) return static_cast<int>(i);
  return static_cast<int>(std::size(order));
}

}  // namespace

WholeMap whole_tensors(const TensorMap& tensors, const std::vector<std::string>& order) {
  WholeMap out;
  double squares = 0;
  int64_t count = 0;
  for (const auto& [name, tensor] : tensors) {
    Whole& w = out[name];
    w.shape = tensor.shape();
    w.values.resize(tensor.numel());
    base::with_dtype<float, double, int64_t>(
        "verify", tensor.dtype(), [&]<class T>() { std::copy_n(tensor.data<T>(), tensor.numel(), w.values.begin()); });
    double own = 0;
    for (double v : w.values)
      if (std::isfinite(v)) own += v * v;
    w.unit = root_mean_square(own, tensor.numel());
    const auto found = std::find(order.begin(), order.end(), name.substr(0, name.find('/')));
    w.place = found == order.end() ? 0 : found - order.begin();
    squares += own, count += tensor.numel();
  }
  for (auto& [name, w] : out) {
    w.typical = root_mean_square(squares, count);
    w.unit = std::max(w.unit, smallest_share * w.typical);
  }
  return out;
}

void Comparer::add(Finding f) {
  if (f.relative > worst_.relative) worst_ = f;
  if (f.relative > tolerance_) mismatches_.push_back(std::move(f));
}

void Comparer::number(int64_t step, const std::string& what, double expected, double actual) {
  // If values are rounded, the tolerance for a sum over all tokens or parameters is smaller, because rounding errors
  // mostly cancel.
  const double finer = measure_ == Measure::largest ? 1 : 8;
  add({step, what, finer * relative_to(0, expected, actual),
       cat("expected ", text_of(expected), ", got ", text_of(actual))});
}

void Comparer::exact(int64_t step, const std::string& what, const std::string& expected, const std::string& actual) {
  if (expected != actual) add({step, what, infinite, cat("expected ", expected, ", got ", actual)});
}

Compared& Compared::operator+=(const Compared& more) {
  steps += more.steps, tensors += more.tensors, elements += more.elements;
  return *this;
}

std::string to_string(const Compared& c) {
  const auto plural = [](int64_t n) { return n == 1 ? "" : "s"; };
  return fmt::format("{} step{}, {} tensor{}, {} element{}", c.steps, plural(c.steps), c.tensors, plural(c.tensors),
                     c.elements, plural(c.elements));
}

void Comparer::result(int64_t step, const train::StepResult& expected, const train::StepResult& actual) {
  ++steps_;
  number(step, "loss", expected.loss, actual.loss);
  number(step, "loss of prediction blocks", expected.prediction_loss.value_or(0), actual.prediction_loss.value_or(0));
  number(step, "norm of all gradients", expected.grad_norm, actual.grad_norm);
  number(step, "learning rate", expected.lr, actual.lr);
  exact(step, "loss: tokens", cat(expected.tokens), cat(actual.tokens));
  exact(step, "loss: targets", cat(expected.targets), cat(actual.targets));
  exact(step, "norm: step skipped", cat(expected.skipped), cat(actual.skipped));
  exact(step, "router: layers", cat(expected.routers.size()), cat(actual.routers.size()));
  for (size_t l = 0; l < std::min(expected.routers.size(), actual.routers.size()); ++l) {
    const auto &e = expected.routers[l], &a = actual.routers[l];
    const std::string name = cat("router of MoE layer ", l);
    exact(step, name + ": tokens by expert", text_of(e.counts), text_of(a.counts));
    exact(step, name + ": assignments", cat(e.assignments), cat(a.assignments));
    exact(step, name + ": dropped", cat(e.dropped), cat(a.dropped));
    number(step, name + ": auxiliary loss", e.aux_loss, a.aux_loss);
    number(step, name + ": z loss", e.z_loss, a.z_loss);
  }
}

void Comparer::reported(const train::StepResult& expected, const telemetry::StepMetrics& actual, bool ruined) {
  ++steps_;
  number(actual.step, "learning rate", expected.lr, actual.lr);
  if (ruined) return;
  number(actual.step, "loss", expected.loss, actual.loss.value_or(std::numeric_limits<double>::quiet_NaN()));
  if (expected.prediction_loss)
    number(actual.step, "loss of prediction blocks", *expected.prediction_loss,
           actual.prediction_loss.value_or(std::numeric_limits<double>::quiet_NaN()));
  number(actual.step, "norm of all gradients", expected.grad_norm, actual.grad_norm);
}

void Comparer::tensors(int64_t step, std::string_view kind, const WholeMap& expected, const std::vector<Piece>& held) {
  std::map<std::string, Tally> tallies;
  for (const auto& [name, whole] : expected)
    tallies[name] = {.step = step,
                     .what = cat(kind, " ", name),
                     .place = whole.place,
                     .expected = static_cast<int64_t>(whole.values.size())};
  for (const Piece& piece : held) {
    const std::string what = cat(kind, " ", piece.name);
    const auto found = expected.find(piece.name);
    if (found == expected.end()) {
      add({step, what, infinite, "the oracle has no such tensor"});
      continue;
    }
    const Whole& whole = found->second;
    if (!(whole.shape == piece.global)) {
      add({step, what, infinite, cat("expected the shape ", whole.shape, ", got ", piece.global), whole.place});
      continue;
    }
    Tally& tally = tallies[piece.name];
    tally.held += piece.values.numel();
    if (piece.values.numel() == 0) continue;
    if (piece.owned)
      for_each_run(piece, [&](int64_t global, int64_t, int64_t count) { tally.owned.push_back({global, count}); });
    const double unit = std::max(whole.unit, least_unit_ * whole.typical);
    double worst = -1;
    int64_t at = 0;
    double got = 0;
    base::with_dtype<float, double, base::bf16, int64_t>("verify", piece.values.dtype(), [&]<class T>() {
      const T* values = piece.values.data<T>();
      for_each_run(piece, [&](int64_t global, int64_t local, int64_t count) {
        for (int64_t i = 0; i < count; ++i) {
          const double actual = static_cast<double>(values[local + i]), want = whole.values[global + i];
          const double relative = relative_to(unit, want, actual);
          if (relative > worst) worst = relative, at = global + i, got = actual;
          const double apart = relative > 0 ? (actual - want) / unit : 0;  // infinite if the unit is zero
          tally.squares += apart * apart;
        }
      });
    });
    if (measure_ != Measure::largest) continue;
    const double want = whole.values[at];
    add({step, what, worst,
         worst > 0 ? cat("at ", coordinate(whole.shape, at), ": expected ", text_of(want), ", got ", text_of(got)) : "",
         whole.place});
  }
  for (auto& [name, tally] : tallies) tallies_.push_back(std::move(tally));
}

void Comparer::evaluation(int64_t step, const train::Evaluation& expected, const train::Evaluation& actual) {
  exact(step, "loss of held-out text: tokens", cat(expected.tokens), cat(actual.tokens));
  exact(step, "loss of held-out text: tokens processed", cat(expected.processed), cat(actual.processed));
  number(step, "loss of held-out text", expected.loss, actual.loss);
  number(step, "loss of held-out text: bits per byte", expected.bits_per_byte, actual.bits_per_byte);
}

void Comparer::generated(int64_t step, const std::vector<int32_t>& expected, const std::vector<int32_t>& actual) {
  exact(step, "generated tokens", text_of(expected), text_of(actual));
}

Comparison Comparer::merged(const comm::ProcessGroup& group, Device device) const {
  json findings{{"worst", to_json(worst_)}, {"mismatches", json::array()}};
  for (const Finding& f : mismatches_) findings["mismatches"].push_back(to_json(f));
  MessageWriter mine;
  mine.text(findings.dump());
  for (const Tally& t : tallies_) {
    mine.value(t.held), mine.value(t.squares), mine.value(t.owned.size());
    for (const Run& run : t.owned) mine.value(run);
  }

  Comparison out{.worst = {}, .mismatches = {}, .tolerance = tolerance_, .compared = {.steps = steps_}};
  std::vector<Tally> all = tallies_;
  for (Tally& t : all) t.held = 0, t.squares = 0;
  std::vector<Ownership> ownership(all.size());
  const std::vector<std::string> texts = comm::gather_texts(mine.take(), group, device);
  for (size_t r = 0; r < texts.size(); ++r) {
    MessageReader message("verify", texts[r], r);
    const json rank = json::parse(message.text());
    if (const Finding f = finding_from_json(rank["worst"]); f.relative > out.worst.relative) out.worst = f;
    for (const json& j : rank["mismatches"]) {
      Finding f = finding_from_json(j);
      const auto same = std::find_if(out.mismatches.begin(), out.mismatches.end(),
                                     [&](const Finding& o) { return o.step == f.step && o.what == f.what; });
      if (same == out.mismatches.end())
        out.mismatches.push_back(std::move(f));
      else if (f.relative > same->relative)
        *same = std::move(f);
    }
    for (size_t i = 0; i < all.size(); ++i) {
      all[i].held += message.value<int64_t>();
      const auto squares = message.value<double>();
      all[i].squares += std::isfinite(squares) ? squares : infinite;
      for (auto n = message.value<size_t>(); n > 0; --n) {
        const Run run = message.value<Run>();
        ownership[i].add(run.begin, run.count, static_cast<int>(r));
      }
    }
  }
  for (size_t i = 0; i < all.size(); ++i) {
    const Tally& t = all[i];
    const int64_t owned = ownership[i].owned();
    out.compared += {.steps = 0, .tensors = owned > 0 ? 1 : 0, .elements = owned};
    std::vector<Finding> found;
    if (measure_ == Measure::root_mean_square)
      found.push_back(
          {t.step, t.what, root_mean_square(t.squares, t.held),
           std::isfinite(t.squares) ? "root mean square of its differences" : "some elements are not finite", t.place});
    if (std::string problem = ownership[i].problem(t.expected); !problem.empty())
      found.push_back({t.step, t.what, infinite, std::move(problem), t.place});
    for (Finding& f : found) {
      if (f.relative > out.worst.relative) out.worst = f;
      if (f.relative > tolerance_) out.mismatches.push_back(std::move(f));
    }
  }
  // Sorts in the order of computation, because the first mismatch may cause later mismatches. Routers are sorted from
  // the first layer to the last. Gradients, and values computed from gradients, are sorted from the last layer to the
  // first.
  std::stable_sort(out.mismatches.begin(), out.mismatches.end(), [](const Finding& a, const Finding& b) {
    const auto size = [](const Finding& f) { return f.what.starts_with("router") ? 0 : -f.relative; };
    return std::tuple(a.step, order_of(a), -a.place, size(a)) < std::tuple(b.step, order_of(b), -b.place, size(b));
  });
  return out;
}

}  // namespace hexad::verify
