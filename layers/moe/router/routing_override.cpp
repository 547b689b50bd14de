#include "layers/moe/router/routing_override.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <numeric>
#include <sstream>

#include "framework/base/counted.h"
#include "framework/base/path_problem.h"
#include "framework/base/philox.h"

namespace hexad::moe {

using namespace base;
namespace {

std::vector<int32_t> read_trace(const MoeConfig& c) {
  if (const std::string problem = file_problem(c.trace); !problem.empty())
    fail(ExitCode::data, "model.moe.trace: cannot read '", c.trace, "': ", problem);
  std::ifstream in(c.trace);
  std::vector<int32_t> ids;
  std::string line;
  for (int64_t number = 1; std::getline(in, line); ++number) {
    std::istringstream words(line);
    const size_t begin = ids.size();
    for (int64_t id; words >> id;) {
      if (id < 0 || id >= c.experts)
        fail(ExitCode::data, c.trace, ":", number, ": expert ", id,
             " is out of range; expected a whole number from 0 to ", c.experts - 1);
      if (std::find(ids.begin() + static_cast<ptrdiff_t>(begin), ids.end(), id) != ids.end())
        fail(ExitCode::data, c.trace, ":", number, ": expert ", id, " is named twice, expected different experts");
      ids.push_back(static_cast<int32_t>(id));
    }
    const size_t found = ids.size() - begin;
    if (!words.eof())
      fail(ExitCode::data, c.trace, ":", number, ": word ", found + 1, " of '", line,
           "' is not an expert number; expected a whole number from 0 to ", c.experts - 1);
    if (static_cast<int64_t>(found) != c.top_k)
      fail(ExitCode::data, c.trace, ":", number, ": the line has ",
           counted(static_cast<int64_t>(found), "expert number"), ", expected ", c.top_k, " (model.moe.top_k)");
  }
  if (ids.empty())
    fail(ExitCode::data, "model.moe.trace: '", c.trace, "' is empty, expected a line of expert numbers for each token");
  return ids;
}

}  // namespace

RoutingOverride::RoutingOverride(const MoeConfig& c, int64_t layer) : config_(c), layer_(layer) {
  if (c.routing == Routing::trace) trace_ = read_trace(c);
  // zipf() marks a chosen expert with weight zero. No other weight may therefore underflow to zero, even with a large
  // exponent.
  for (int64_t e = 0; e < c.experts; ++e)
    zipf_weights_.push_back(
        std::max(std::pow(static_cast<double>(e + 1), -c.zipf_exponent), std::numeric_limits<double>::min()));
}

// Draws K experts without replacement. In each draw, the probability of an expert is its share of the remaining
// weights.
void RoutingOverride::zipf(int32_t* ids, const ForwardContext& context, int64_t token) const {
  const Philox random(context.seed, Purpose::route, cat("layer.", layer_), context.step);
  std::vector<double> left = zipf_weights_;
  for (int64_t k = 0; k < config_.top_k; ++k) {
    double point = random.uniform_double(static_cast<uint64_t>(token * config_.top_k + k)) *
                   std::accumulate(left.begin(), left.end(), 0.0);
    size_t e = 0;
    while (e + 1 < left.size() && (left[e] == 0 || point >= left[e])) point -= left[e++];
    while (left[e] == 0) --e;  // rounding may have moved e past the last remaining expert
    ids[k] = static_cast<int32_t>(e);
    left[e] = 0;
  }
}

Tensor RoutingOverride::choose(const ForwardContext& context, int64_t begin, int64_t count, Device device) const {
  const int64_t top_k = config_.top_k;
  std::vector<int32_t> chosen(count * top_k);
  int32_t* ids = chosen.data();
  for (int64_t r = begin; r < begin + count; ++r, ids += top_k) {
    const int64_t token = context.batch.first_token + context.batch.token(r);
    switch (config_.routing) {
      case Routing::balanced:
        for (int64_t k = 0; k < top_k; ++k) ids[k] = static_cast<int32_t>((token * top_k + k) % config_.experts);
        break;
      case Routing::zipf:
        zipf(ids, context, token);
        break;
      case Routing::trace: {
        const int64_t lines = static_cast<int64_t>(trace_.size()) / top_k;
        std::copy_n(trace_.data() + token % lines * top_k, top_k, ids);
        break;
      }
      case Routing::model:
        fail_invariant("[routing] model.moe.routing is model, which overrides nothing; expected another routing");
    }
  }
  return Tensor::from<int32_t>(chosen, {count, top_k}, device);
}

std::unique_ptr<RoutingOverride> make_routing_override(const MoeConfig& c, int64_t layer) {
  return c.routing == Routing::model ? nullptr : std::make_unique<RoutingOverride>(c, layer);
}

}  // namespace hexad::moe
