// Options and helpers of the commands that predict steps on a cluster.
#pragma once

#include <cmath>
#include <string>
#include <string_view>
#include <vector>

#include "framework/base/counted.h"
#include "framework/base/error.h"
#include "framework/base/units.h"
#include "tools/hexad/command_line.h"
#include "tools/plan/cluster_error.h"
#include "tools/plan/memory_estimate.h"
#include "tools/plan/routing_model.h"
#include "tools/plan/state_bound.h"

namespace hexad::app {

/// Overrides of the command line, divided into overrides of the recipe and of the cluster file. The prefix "cluster."
/// is removed.
struct DividedOverrides {
  std::vector<std::string> recipe, cluster;
};

inline DividedOverrides divided(const std::vector<std::string>& all) {
  constexpr std::string_view of_cluster = "cluster.";
  DividedOverrides out;
  for (const std::string& o : all)
    o.starts_with(of_cluster) ? out.cluster.push_back(o.substr(of_cluster.size())) : out.recipe.push_back(o);
  return out;
}

/// Adds --routing, whose value is an argument of load_of().
inline Option add_routing(const Command& command, std::string& routing) {
  return command
      .add_option("--routing", &routing,
                  "load of the experts: even, p99 (one rank has a load that only 1% of routers exceed), worst (all "
                  "tokens visit one rank), or a file: metrics.jsonl of a run, or for each layer a line with the number "
                  "of tokens of each expert")
      .path();
}

/// Returns the load of the experts of `model`. `routing` is a word (even, p99, worst), or the path of a file with the
/// load. Throws Error(usage) if the experts of the model cannot have this load.
inline plan::RoutingLoad load_of(const std::string& routing, const layers::ModelConfig& model) {
  using plan::RoutingLoad;
  if (routing == "even") return RoutingLoad::even;
  if (model.moe.experts == 0 && (routing == "p99" || routing == "worst"))
    base::fail(base::ExitCode::usage, "--routing: '", routing,
               "' given, expected even, because the model has no experts (model.moe.experts is 0)");
  if (model.moe.experts > 0 && model.moe.experts_choose())
    base::fail(base::ExitCode::usage, "--routing: '", routing,
               "' given, expected even, because with model.moe.router: ", model.moe.router,
               " all experts choose the same number of tokens");
  if (routing == "p99") return RoutingLoad::p99;
  if (routing == "worst") return RoutingLoad::one_rank;
  return RoutingLoad(plan::read_expert_shares(routing, model));
}

/// Calls `predict` and returns its result. If `predict` throws plan::ClusterError, throws Error(usage) with the
/// position of the error's key in the cluster's file before the message. `overrides` are the overrides of the file.
template <class Predict>
auto on_cluster(const std::string& path, const std::vector<std::string>& overrides, const Predict& predict) try {
  return predict();
} catch (const plan::ClusterError& e) {
  base::fail(e.code(), plan::position_in_cluster(path, overrides, e.key()), ": ", e.what());
}

/// Returns a warning if a rank needs more memory than its tensors may take on `cluster`, which was read from the file
/// `path`; otherwise an empty text. `recipe` is a legal recipe for `ranks` ranks.
inline std::string caution_of_cluster_memory(const train::Recipe& recipe, const train::Extensions& extensions,
                                             const plan::Cluster& cluster, const std::string& path, int64_t ranks,
                                             const plan::RoutingLoad& load) {
  const double memory = plan::tensor_memory(cluster);
  if (std::isinf(memory)) return {};
  const double bytes = plan::estimate_memory_within(memory, recipe, extensions, ranks, load).total;
  if (bytes <= memory) return {};
  return base::cat("the layout does not fit ", base::counted(ranks, "rank"), " of ", path, ": a rank needs ",
                   base::human_bytes(bytes), ", more than the ", base::human_bytes(memory),
                   " that its tensors may take; `hexad plan` searches for layouts that fit");
}

}  // namespace hexad::app
