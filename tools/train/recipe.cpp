#include "tools/train/recipe.h"

#include <algorithm>
#include <cstdlib>

#include "framework/config/constraints.h"
#include "framework/io/checkpoint_store.h"
#include "tools/train/divisible.h"
#include "tools/train/layout_check.h"
#include "tools/train/renamed_keys.h"
#include "tools/train/schedule_check.h"

namespace hexad::train {

using base::cat;
using config::Problems;

base::Dtype dtype_of(Precision precision) {
  switch (precision) {
    case Precision::bf16:
      return base::Dtype::bf16;
    case Precision::f64:
      return base::Dtype::f64;
    case Precision::f32:
      break;
  }
  return base::Dtype::f32;
}

namespace {

void check_attention(const layers::ModelConfig& m, Problems& problems) {
  if (!m.head_size) check_divisible(problems, "model.hidden", m.hidden, "model.heads", m.heads);
  check_divisible(problems, "model.heads", m.heads, "model.kv_heads", m.key_value_heads());
  if (m.position == layers::PositionKind::rotary && m.size_of_head() % 2 != 0)
    problems.add(m.head_size ? "model.head_size" : "model.hidden",
                 cat("gives heads of odd size ", m.size_of_head(), "; rotary positions need an even one"));
}

void check_moe(const layers::ModelConfig& model, Problems& problems) {
  const moe::MoeConfig& m = model.moe;
  if (m.experts == 0) return;
  if (m.top_k > m.experts) problems.add("model.moe.top_k", cat("must be at most model.moe.experts (", m.experts, ")"));
  check_divisible(problems, "model.moe.experts", m.experts, "model.moe.groups", m.groups);
  if (m.top_groups > m.groups)
    problems.add("model.moe.top_groups", cat("must be at most model.moe.groups (", m.groups, ")"));
  else if (m.groups > 1 && m.experts % m.groups == 0 && m.top_k > m.top_groups * (m.experts / m.groups))
    problems.add("model.moe.top_k", cat("must be at most the ", m.top_groups * (m.experts / m.groups), " experts of ",
                                        m.top_groups, " groups"));
  if (model.moe_layers() == 0)
    problems.add("model.moe.experts", cat("but no layer has experts: dense_layers ", m.dense_layers, ", every ",
                                          m.every, ", layers ", model.layers));
  if (m.routing == moe::Routing::trace && m.trace.empty())
    problems.add("model.moe.trace", "must name a file for model.moe.routing: trace");
}

void check_mlp(const layers::ModelConfig& m, const layers::Registry& registry, Problems& problems) {
  // Which options a user's layer has is known once it is built (FeedForwardSpec).
  if (!m.mlp_options.empty() && layers::Registry().feed_forward(m.mlp))
    problems.add("model.mlp_options.0.name", cat("is no option of the layer ", m.mlp, "; it has none"));
  if (registry.feed_forward(m.mlp)) return;
  std::string names;
  for (const std::string& name : registry.feed_forward_names()) names += (names.empty() ? "" : ", ") + name;
  problems.add("model.mlp", "is no registered layer; there are: " + names);
}

void check_objective(const Recipe& r, Problems& problems) {
  const bool masked = r.data.mlm_probability > 0;
  if (r.model.kind == layers::ModelKind::encoder && !masked && !r.data.synthetic)
    problems.add("data.mlm_probability", "must be above 0 for model.kind: encoder, which sees the next token");
  if (r.model.kind == layers::ModelKind::decoder && masked)
    problems.add("data.mlm_probability", "must be 0 for model.kind: decoder");
  if (r.data.synthetic && r.model.vocab == 0) problems.add("model.vocab", "must be given with data.synthetic");
}

void check_trace(const Recipe& r, Problems& problems) {
  const int64_t step = r.schedule.trace;
  if (step > 0 && r.model.moe_layers() == 0)
    problems.add("schedule.trace", "records MoE layers, of which the model has none; 0 records nothing");
  else if (step > r.train.steps)
    problems.add("schedule.trace", cat("is after the last step (train.steps is ", r.train.steps, ")"));
}

void take_device_from_environment(Recipe& r, Problems& problems) {
  const char* wanted = std::getenv("HEXAD_DEVICE");
  if (!wanted || !*wanted) return;
  std::string names;
  for (const auto& [kind, name] : enum_names(r.device)) {
    if (name == wanted) return void(r.device = kind);
    names += (names.empty() ? "" : ", ") + std::string(name);
  }
  problems.add("device", cat("is given by HEXAD_DEVICE=", wanted, ", which is no device; there are: ", names));
}

// What devices with memory of their own do not do is refused here, not found out in the middle of a step.
void check_device(const Recipe& r, Problems& problems) {
  if (r.device != device::DeviceKind::cpu && r.schedule.worker_lanes.value_or(false))
    problems.add("schedule.worker_lanes",
                 cat("lanes are the device's queues on device: ", name_of(r.device), "; device: cpu has it"));
  if (r.device != device::DeviceKind::cuda && r.distributed.device_collectives == comm::DeviceCollectives::nccl)
    problems.add("distributed.device_collectives", cat("needs device: cuda, but device is ", name_of(r.device)));
  if (r.distributed.register_buffers && r.distributed.device_collectives == comm::DeviceCollectives::host)
    problems.add("distributed.register_buffers", "needs NCCL, but distributed.device_collectives is host");
}

}  // namespace

Recipe load_recipe(config::Document document, const layers::Registry& registry, int64_t world,
                   const std::function<void(const std::string&)>& warn) {
  for (const std::string& line : rename_keys(document))
    if (warn) warn(line);
  Problems problems;
  Recipe r = config::read<Recipe>(document, problems);
  take_device_from_environment(r, problems);
  check_device(r, problems);
  if (problems.good({"model"})) {
    check_attention(r.model, problems);
    check_moe(r.model, problems);
    check_mlp(r.model, registry, problems);
  }
  if (problems.good({"model", "data"})) {
    data::check(r.data, problems);
    check_objective(r, problems);
  }
  check_layout(r, world, problems);
  check_moe_schedule(r, registry, problems);
  check_micro_batch_overlap(r, world, problems);
  check_moe_order(r, registry, problems);
  if (problems.good({"model", "train.steps", "schedule.trace"})) check_trace(r, problems);
  std::vector<Traffic> classes = r.distributed.priority;
  std::sort(classes.begin(), classes.end());
  if (std::adjacent_find(classes.begin(), classes.end()) != classes.end())
    problems.add("distributed.priority", "names a class of traffic twice");
  if (r.distributed.network_classes.size() > r.distributed.priority.size())
    problems.add("distributed.network_classes", cat("has ", r.distributed.network_classes.size(), " numbers for the ",
                                                    r.distributed.priority.size(), " classes in distributed.priority"));
  try {
    io::Resume::parse(r.checkpoint.resume);
  } catch (const base::Error&) {
    problems.add("checkpoint.resume", "must be auto, none or a step");
  }
  problems.throw_if_any();
  return r;
}

}  // namespace hexad::train
