#include "parallel/pp/stage_split.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <string>

#include "framework/base/counted.h"
#include "framework/base/error.h"

namespace hexad::pp {
namespace {

using base::cat;
using base::counted;
using base::ExitCode;
using base::fail;

constexpr double infinity = std::numeric_limits<double>::infinity();

// Costs of virtual stages, each of which consists of consecutive layers.
class StageCosts {
 public:
  StageCosts(const ModelCosts& costs, int stages) : costs_(costs), stages_(stages), before_(costs.layers.size() + 1) {
    std::partial_sum(costs.layers.begin(), costs.layers.end(), before_.begin() + 1);
  }
  size_t layers() const { return costs_.layers.size(); }
  size_t stages() const { return stages_; }
  double operator()(size_t stage, size_t begin, size_t end) const {
    return before_[end] - before_[begin] + (stage == 0 ? costs_.embedding : 0) +
           (stage + 1 == stages() ? costs_.head : 0);
  }

 private:
  const ModelCosts& costs_;
  int stages_;
  std::vector<double> before_;  // total cost of the layers before each layer
};

// Computes the totals of the cheapest splits by dynamic programming. score(c) is the contribution of a stage of cost c,
// and `join` combines contributions. best[s][l] is the lowest total of stage s and all later stages if stage s begins
// with layer l.
template <class Score, class Join>
std::vector<std::vector<double>> best_totals(const StageCosts& cost, Score score, Join join) {
  const size_t stages = cost.stages(), layers = cost.layers();
  std::vector best(stages + 1, std::vector<double>(layers + 1, infinity));
  best[stages][layers] = 0;
  for (size_t s = stages; s-- > 0;)
    for (size_t begin = s; begin < layers; ++begin)
      for (size_t end = begin + 1; end <= layers; ++end)
        best[s][begin] = std::min(best[s][begin], join(score(cost(s, begin, end)), best[s + 1][end]));
  return best;
}

std::string join(const std::vector<int64_t>& numbers, const char* between) {
  std::string text;
  for (size_t i = 0; i < numbers.size(); ++i) text += cat(i ? between : "", numbers[i]);
  return text;
}

std::string stages_text(const StageMap& stages) {
  return cat("parallel.pp (", stages.ranks, ") x ", counted(stages.stages_a_rank, "virtual stage"),
             " per rank = ", stages.stages());
}

// Throws Error(usage) if `split` is not a legal split of `layers` layers.
void check_split(const StageMap& stages, const std::vector<int64_t>& split, int64_t layers) {
  if (static_cast<int>(split.size()) != stages.stages())
    fail(ExitCode::usage, "schedule.pipeline.split has ", counted(std::ssize(split), "number"), ", but ",
         stages_text(stages), "; expected ", counted(stages.stages(), "number"));
  for (size_t i = 0; i < split.size(); ++i)
    if (split[i] < 1) fail(ExitCode::usage, "schedule.pipeline.split[", i, "] (", split[i], ") must be at least 1");
  const int64_t sum = std::accumulate(split.begin(), split.end(), int64_t{0});
  if (sum == layers) return;
  const int64_t last = split.back() + layers - sum;
  fail(ExitCode::usage, "schedule.pipeline.split: ", join(split, " + "), " = ", sum, ", but model.layers is ", layers,
       last > 0 ? cat("; nearest: ", last, " as the last number") : "; expected smaller numbers");
}

}  // namespace

std::vector<int64_t> balanced_split(const ModelCosts& costs, int stages) {
  const StageCosts cost(costs, stages);
  base::require(stages >= 1 && cost.layers() >= cost.stages(), "[pp] ", cost.layers(), " layers in ", stages,
                " virtual stages; expected at least one stage, and at least one layer in each");
  const auto larger = [](double a, double b) { return std::max(a, b); };
  const double dearest = best_totals(
      cost, [](double c) { return c; }, larger)[0][0];
  const auto square = [&](double c) { return c > dearest ? infinity : c * c; };
  const auto best = best_totals(cost, square, [](double a, double b) { return a + b; });
  std::vector<int64_t> split;
  for (size_t s = 0, begin = 0; s < cost.stages(); ++s) {
    size_t end = cost.layers();
    while (square(cost(s, begin, end)) + best[s + 1][end] != best[s][begin]) --end;
    split.push_back(static_cast<int64_t>(end - begin));
    begin = end;
  }
  return split;
}

StageSplit::StageSplit(const StageMap& stages, const std::vector<int64_t>& split, const ModelCosts& costs)
    : stages_(stages) {
  const int64_t layers = static_cast<int64_t>(costs.layers.size());
  if (layers < stages.stages())
    fail(ExitCode::usage, stages_text(stages), ", but model.layers is ", layers,
         ": every virtual stage needs a layer; nearest: ", stages.stages(), " layers",
         layers >= stages.stages_a_rank ? cat(", or parallel.pp ", layers / stages.stages_a_rank) : "");
  if (!split.empty()) check_split(stages, split, layers);
  counts_ = split.empty() ? balanced_split(costs, stages.stages()) : split;
  begins_.resize(counts_.size());
  std::exclusive_scan(counts_.begin(), counts_.end(), begins_.begin(), int64_t{0});
}

StageSplit::Layers StageSplit::layers(int rank, int local_stage) const {
  const size_t stage = stages_.stage(rank, local_stage);
  return {begins_[stage], begins_[stage] + counts_[stage]};
}

std::string StageSplit::to_string() const { return cat('[', join(counts_, ", "), ']'); }

}  // namespace hexad::pp
