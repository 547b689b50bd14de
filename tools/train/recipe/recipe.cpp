#include "tools/train/recipe/recipe.h"

#include <algorithm>
#include <cmath>

#include "framework/base/enum_names.h"
#include "framework/base/units.h"
#include "framework/config/constraints.h"
#include "framework/config/nearest.h"
#include "framework/config/words.h"
#include "framework/io/checkpoint_store.h"
#include "optim/lr_schedule.h"
#include "tools/train/recipe/device_choice.h"
#include "tools/train/recipe/expert_choice_check.h"
#include "tools/train/recipe/freeze_check.h"
#include "tools/train/recipe/layout_check.h"
#include "tools/train/recipe/renamed_keys.h"
#include "tools/train/recipe/schedule_check.h"
#include "tools/train/recipe/stage_documents.h"
#include "tools/train/recipe/step_range.h"

namespace hexad::train {

using base::cat;
using config::Problems;

Recipe::Recipe() = default;
Recipe::Recipe(const Recipe&) = default;
Recipe::Recipe(Recipe&&) noexcept = default;
Recipe& Recipe::operator=(const Recipe&) = default;
Recipe& Recipe::operator=(Recipe&&) noexcept = default;
Recipe::~Recipe() = default;

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

std::string MemoryConfig::limit_text() const {
  if (limit() > 0) return base::human_bytes(static_cast<double>(limit()));
  return limit_bytes ? "0: no limit" : "none: no limit";
}

namespace {

// Checks that model.rotary_share selects a whole number of pairs of dimensions. The share may be rounded to a few
// digits, such as 0.666667.
void check_rotary_share(const layers::ModelConfig& m, Problems& problems) {
  constexpr double rounding = 1e-3;  // tolerance in dimensions
  const int64_t size = m.size_of_head();
  const double turned = m.rotary_share * static_cast<double>(size);
  if (m.rotary_share == 1) {
    if (size % 2 != 0)
      problems.add(m.head_size ? "model.head_size" : "model.hidden",
                   cat("gives heads of odd size ", size, "; rotary positions need an even size"));
    return;
  }
  const int64_t rotated = m.rotary_size(), below = static_cast<int64_t>(turned) / 2 * 2;
  if (rotated >= 2 && rotated % 2 == 0 && std::abs(turned - static_cast<double>(rotated)) < rounding) return;
  std::string nearest;
  for (const int64_t even : {below, below + 2})
    if (even >= 2 && even <= size)
      nearest += cat(nearest.empty() ? "; nearest: " : ", ", static_cast<double>(even) / static_cast<double>(size));
  problems.add("model.rotary_share", cat("gives ", turned, " of the ", size,
                                         " dimensions of a head, but rotary positions need an even number", nearest));
}

void check_rotary_scaling(const layers::ModelConfig& m, Problems& problems) {
  const layers::RotaryScalingConfig& s = m.rotary_scaling;
  if (s.kind != layers::RotaryScaling::none && m.yarn.factor != 1)
    problems.add("model.rotary_scaling.kind",
                 cat("must be none with model.yarn.factor (", m.yarn.factor, "), which scales the same frequencies"));
  if (s.kind == layers::RotaryScaling::none && s.factor != 1)
    problems.add("model.rotary_scaling.factor",
                 "must be 1 for model.rotary_scaling.kind: none, which scales nothing; linear, ntk and llama3 read it");
  if (s.kind == layers::RotaryScaling::longrope) {
    const auto pairs = static_cast<size_t>(m.rotary_size() / 2);
    for (const auto& [key, list] : {std::pair{"short_factors", &s.short_factors}, {"long_factors", &s.long_factors}})
      if (list->size() != pairs)
        problems.add(
            cat("model.rotary_scaling.", key),
            cat("must have ", pairs, " numbers, one for each pair of dimensions that rotates, not ", list->size()));
    if (s.factor != 1)
      problems.add("model.rotary_scaling.factor",
                   "must be 1 for model.rotary_scaling.kind: longrope, which has a factor for each frequency");
  } else if (!s.short_factors.empty() || !s.long_factors.empty() || s.short_magnitude != 1 || s.long_magnitude != 1) {
    problems.add("model.rotary_scaling.kind",
                 "must be longrope for short_factors, long_factors, short_magnitude and long_magnitude, which only "
                 "longrope reads");
  }
  if (s.kind == layers::RotaryScaling::llama3 && s.high_freq_factor < s.low_freq_factor)
    problems.add("model.rotary_scaling.high_freq_factor",
                 cat("must be at least model.rotary_scaling.low_freq_factor (", s.low_freq_factor, ")"));
}

// Rejects settings that the selected attention (grouped or latent) does not read or support.
void check_latent(const layers::ModelConfig& m, Problems& problems) {
  const layers::LatentConfig& l = m.latent;
  if (!m.is_latent()) {
    if (l != layers::LatentConfig{})
      problems.add("model.latent", "is given, but model.attention is grouped; expected model.attention: latent");
    if (m.yarn.mscale_all_dim != 0)
      problems.add("model.yarn.mscale_all_dim", "must be 0 for model.attention: grouped, which does not read it");
    return;
  }
  const auto require_value = [&](bool holds, std::string_view key, std::string_view expected) {
    if (!holds) problems.add(key, cat("must be ", expected, " for model.attention: latent"));
  };
  require_value(m.key_value_heads() == m.heads, "model.kv_heads", "auto, or the number of heads,");
  require_value(m.head_size.value_or(l.key_size()) == l.key_size(), "model.head_size",
                cat("auto, or rope_size + nope_size (", l.key_size(), "),"));
  require_value(m.position == layers::PositionKind::rotary, "model.position", "rotary");
  require_value(m.rotary_share == 1, "model.rotary_share", "1");
  require_value(m.qk_norm == layers::QkNorm::none, "model.qk_norm", "none");
  require_value(!m.qkv_clip, "model.qkv_clip", "none");
  require_value(!m.has_qkv_bias(), "model.qkv_bias", "false");
  require_value(!m.attention_gate, "model.attention_gate", "false");
  if (l.rope_size % 2 != 0)
    problems.add(
        "model.latent.rope_size",
        cat("must be even, because rotary positions turn pairs; nearest: ", l.rope_size - 1, ", ", l.rope_size + 1));
  if (l.value_size > l.key_size())
    problems.add("model.latent.value_size",
                 cat("must be at most rope_size + nope_size (", l.key_size(), "), the size of a key head"));
}

void check_attention(const layers::ModelConfig& m, Problems& problems) {
  check_latent(m, problems);
  if (m.is_latent()) return;
  if (m.qk_norm == layers::QkNorm::all_heads && m.norm == layers::NormKind::zero_centred_rms_norm)
    problems.add("model.qk_norm", "must be none, head or unit for model.norm: zero_centred_rms_norm");
  if (!m.head_size) check_divisible(problems, "model.hidden", m.hidden, "model.heads", m.heads);
  check_divisible(problems, "model.heads", m.heads, "model.kv_heads", m.key_value_heads());
  if (m.position == layers::PositionKind::rotary) check_rotary_share(m, problems);
}

void check_no_rotary(const layers::ModelConfig& m, Problems& problems) {
  if (m.no_rotary_every > 0 && (m.position != layers::PositionKind::rotary || m.is_latent()))
    problems.add("model.no_rotary_every", "must be 0 for model.position: learned and for model.attention: latent");
  if (m.no_rotary_every == 1)
    problems.add("model.no_rotary_every",
                 "must not be 1, with which no block would have rotary positions; nearest: 0, 2");
  if (m.qk_norm == layers::QkNorm::unit && m.position != layers::PositionKind::rotary)
    problems.add("model.qk_norm", "must not be unit for model.position: learned, which has no rotary positions");
  if (m.temperature.scale == 0) return;
  if (m.no_rotary_every == 0)
    problems.add("model.temperature.scale", "must be 0 for model.no_rotary_every: 0, with which no block reads it");
  else if (m.size_of_head() % 2 != 0)
    problems.add("model.temperature.scale",
                 cat("needs heads of an even size, but they have ", m.size_of_head(), "; change the size, or set 0"));
}

void check_delta_net(const layers::ModelConfig& m, Problems& problems) {
  const layers::DeltaNetConfig& d = m.delta_net;
  if (!d.used()) {
    if (d != layers::DeltaNetConfig{})
      problems.add("model.delta_net", "is given, but model.delta_net.heads is 0; expected at least 1");
    return;
  }
  check_divisible(problems, "model.delta_net.heads", d.heads, "model.delta_net.key_heads", d.number_of_key_heads());
  if (m.kind != layers::ModelKind::decoder)
    problems.add("model.delta_net.heads",
                 "must be 0 for model.kind: encoder, because a delta net reads only earlier tokens");
  if (m.window)
    problems.add("model.window", "must be none with delta nets, because the other blocks have full attention");
  if (m.attention_chunk)
    problems.add("model.attention_chunk", "must be none with delta nets, because the other blocks have full attention");
  if (m.full_attention_every == 1)
    problems.add("model.full_attention_every",
                 "must not be 1 with delta nets, because no block would have one; nearest: 0, 2");
}

void check_window(const layers::ModelConfig& m, Problems& problems) {
  if (m.attention_chunk) {
    if (m.window) problems.add("model.attention_chunk", cat("must be none with model.window (", *m.window, ")"));
    if (m.kind != layers::ModelKind::decoder)
      problems.add("model.attention_chunk",
                   "must be none for model.kind: encoder, whose tokens also attend to later tokens");
    if (m.full_attention_every == 1)
      problems.add("model.full_attention_every", cat("must not be 1 with model.attention_chunk (", *m.attention_chunk,
                                                     "), which no block would read; nearest: 0, 2"));
    return;
  }
  if (!m.window) {
    if (m.full_attention_every != 0 && !m.delta_net.used())
      problems.add("model.full_attention_every",
                   "must be 0 for model.window: none and model.attention_chunk: none without delta nets, with which "
                   "all blocks have full attention");
    return;
  }
  if (m.kind != layers::ModelKind::decoder)
    problems.add("model.window", "must be none for model.kind: encoder, whose tokens also attend to later tokens");
  if (m.full_attention_every == 1)
    problems.add("model.full_attention_every",
                 cat("must not be 1 with model.window (", *m.window, "), which no block would read; nearest: 0, 2"));
}

void check_prediction(const layers::ModelConfig& m, Problems& problems) {
  if (m.prediction_blocks == 0) {
    if (m.prediction_weight != layers::usual_prediction_weight)
      problems.add("model.prediction_weight", "is given, but model.prediction_blocks is 0; expected at least 1");
    return;
  }
  if (m.kind != layers::ModelKind::decoder)
    problems.add("model.prediction_blocks", "must be 0 for model.kind: encoder, which predicts no further tokens");
  else if (m.prediction_blocks >= m.context)
    problems.add("model.prediction_blocks",
                 cat("must be below model.context (", m.context, "), because prediction block ", m.context,
                     " would have no targets; nearest: ", m.context - 1));
}

void check_swiglu_limit(const layers::ModelConfig& m, Problems& problems) {
  const bool dense = m.mlp == "swiglu" && (m.moe_layers() < m.blocks() || m.moe.dense_residual);
  const bool experts = m.moe.expert == moe::ExpertKind::swiglu && m.moe_layers() > 0;
  if (m.swiglu_limit && !dense && !experts)
    problems.add("model.swiglu_limit",
                 "must be none for a model without a SwiGLU: neither model.mlp nor model.moe.expert names one");
}

void check_moe(const layers::ModelConfig& model, Problems& problems) {
  const moe::MoeConfig& m = model.moe;
  if (m.experts == 0) return;
  if (m.top_k > m.experts) problems.add("model.moe.top_k", cat("must be at most model.moe.experts (", m.experts, ")"));
  check_divisible(problems, "model.moe.experts", m.experts, "model.moe.groups", m.groups);
  if (m.top_groups > m.groups)
    problems.add("model.moe.top_groups", cat("must be at most model.moe.groups (", m.groups, ")"));
  else if (m.groups > 1 && m.experts % m.groups == 0 && m.top_k > m.top_groups * (m.experts / m.groups))
    problems.add("model.moe.top_k",
                 cat("must be at most ", m.top_groups * (m.experts / m.groups),
                     ", the number of experts in model.moe.top_groups (", m.top_groups, ") of model.moe.groups (",
                     m.groups, "); set a smaller top_k or more top_groups"));
  if (m.group_score != kernels::RouterGroupScore::best_two && m.top_groups == m.groups)
    problems.add("model.moe.group_score",
                 cat("ranks groups, but a token may choose from all groups: model.moe.top_groups is model.moe.groups (",
                     m.groups, "); set more groups, or group_score: best_two"));
  if (m.shared_gate && m.shared_experts == 0)
    problems.add("model.moe.shared_gate", "must be false for model.moe.shared_experts: 0, which has no result to gate");
  if (m.mixer_jitter != moe::usual_mixer_jitter && m.router != "sparse_mixer")
    problems.add("model.moe.mixer_jitter", cat("is not read by the router ", m.router,
                                               ": remove this key, or set model.moe.router: sparse_mixer"));
  if (m.weigh == moe::Weighing::input && m.top_k != 1)
    problems.add("model.moe.weigh",
                 cat("must be output for model.moe.top_k (", m.top_k,
                     "): only a token with one expert can be multiplied before it enters the expert"));
  if (m.normalize_floor > 0 && !m.normalize)
    problems.add("model.moe.normalize_floor", "must be 0 for model.moe.normalize: false, which divides no weights");
  if (m.bias_rate > 0 && !m.has_selection_bias())
    problems.add("model.moe.selection_bias",
                 cat("must be auto or true for model.moe.bias_rate (", m.bias_rate, "), which changes it"));
  if (model.moe_layers_before(model.layers) == 0)
    problems.add("model.moe.experts", cat("is set, but no layer has experts: dense_layers ", m.dense_layers, ", every ",
                                          m.every, ", layers ", model.layers));
  if (m.routing == moe::Routing::trace && m.trace.empty())
    problems.add("model.moe.trace", "must name a file for model.moe.routing: trace");
}

void check_name(std::string_view key, const std::string& name, std::string_view kind,
                const std::vector<std::string>& known, Problems& problems) {
  if (std::ranges::find(known, name) == known.end())
    problems.add(key, cat("is not a registered ", kind, "; registered: ", config::nearest_first(name, known)));
}

// Rejects keys that the recipe's router does not read.
void check_router(const layers::ModelConfig& m, const moe::RouterDeclaration& router, Problems& problems) {
  config::check_options(moe::router_options(m), router.options, m.moe.router_options, problems);
  if (!router.uses_score_rule)
    for (const std::string_view key : moe::score_rule_keys(m))
      problems.add(cat("model.moe.", key),
                   cat("is not read by the router ", m.moe.router,
                       ", which computes weights from logits by its own rule: remove this key, or set "
                       "model.moe.router: top_k"));
  if (m.moe.bias_rate > 0 && !router.selects_by_bias)
    problems.add("model.moe.bias_rate",
                 cat("must be 0 for the router ", m.moe.router, ", whose selection has no bias"));
  else if (m.moe.has_selection_bias() && !router.selects_by_bias)
    problems.add("model.moe.selection_bias",
                 cat("must be auto or false for the router ", m.moe.router, ", whose selection has no bias"));
}

// Checks the names of registered parts, and their options. Uses only the parts' declarations; constructs no part.
void check_names(const Recipe& r, const Extensions& extensions, Problems& problems) {
  const layers::ModelConfig& m = r.model;
  if (problems.good({"model"})) {
    check_name("model.mlp", m.mlp, "layer", extensions.feed_forward_names(), problems);
    if (const auto* layer = extensions.feed_forward(m.mlp))
      config::check_options(layers::feed_forward_options(m), layer->options, m.mlp_options, problems);
    check_name("model.moe.router", m.moe.router, "router", extensions.router_names(), problems);
    if (const auto* router = extensions.router(m.moe.router)) check_router(m, *router, problems);
  }
  if (problems.good({"optim"})) {
    check_name("optim.name", r.optim.name, "optimizer", extensions.optimizers.names(), problems);
    if (const auto* rule = extensions.optimizers.find(r.optim.name)) {
      config::check_options(optim::rule_options(r.optim), rule->options, r.optim.options, problems);
      if (const std::string wrong = optim::moment_dtype_problem(r.optim, *rule); !wrong.empty())
        problems.add("optim.moment_dtype", wrong);
      if (const std::string wrong = optim::main_weights_problem(r.optim, *rule); !wrong.empty())
        problems.add("optim.main_weights", wrong);
      if (const std::string key = optim::misplaced_muon_key(r.optim); !key.empty())
        problems.add(key, cat("is given, but optim.name is ", r.optim.name, "; expected muon"));
    }
  }
  if (problems.good({"data"}) && !r.data.source.empty()) {
    check_name("data.source", r.data.source, "data source", extensions.sources.names(), problems);
    if (const auto* source = extensions.sources.find(r.data.source))
      config::check_options(data::source_options(r.data.source), source->options, r.data.source_options, problems);
  }
}

void check_moments(const Recipe& r, Problems& problems) {
  if (r.train.precision == Precision::f64 && r.optim.moment_dtype == optim::MomentDtype::bf16)
    problems.add("optim.moment_dtype", "must be f32 for train.precision: f64, because f32 then means moments in f64");
}

// Rejects the keys of train.init_* that have no effect without train.init_from or train.init_experts.
void check_init(const TrainConfig& t, Problems& problems) {
  constexpr std::string_view without = "is given, but train.init_from names no weights to start from";
  if (t.init_from.empty() && t.init_experts != InitExperts::none) problems.add("train.init_experts", without);
  if (t.init_from.empty() && t.init_vocabulary != InitVocabulary::none) problems.add("train.init_vocabulary", without);
  if (t.init_noise > 0 && t.init_experts == InitExperts::none)
    problems.add("train.init_noise", "must be 0 for train.init_experts: none, which copies no weights");
}

void check_main_weights(const Recipe& r, Problems& problems) {
  if (r.train.precision != Precision::bf16 && r.optim.main_weights == optim::MainWeights::rest)
    problems.add("optim.main_weights", cat("must be f32 for train.precision: ", base::enum_name(r.train.precision),
                                           ", because only bf16 weights have rests"));
}

void check_objective(const Recipe& r, Problems& problems) {
  const bool masked = r.data.mlm_probability > 0;
  if (r.model.kind == layers::ModelKind::encoder && !masked && !r.data.registered())
    problems.add("data.mlm_probability", "must be above 0 for model.kind: encoder, which sees the next token");
  if (r.model.kind == layers::ModelKind::decoder && masked)
    problems.add("data.mlm_probability", "must be 0 for model.kind: decoder, which predicts the next token");
  if (r.data.registered() && r.model.vocab == 0)
    problems.add_missing("model.vocab",
                         cat("must be given with ", r.data.synthetic ? "data.synthetic" : "data.source"));
}

void check_profile(const Recipe& r, Problems& problems) {
  if (r.profile.steps.empty()) return;
  const auto steps = parse_steps(r.profile.steps);
  if (!steps)
    problems.add("profile.steps", "must be a step such as 5, or a range of steps such as 3..5");
  else if (steps->last > r.train.steps)
    problems.add("profile.steps", cat("goes beyond the last step; nearest: ",
                                      to_string(StepRange{std::min(steps->first, r.train.steps), r.train.steps})));
}

void check_trace(const Recipe& r, Problems& problems) {
  const int64_t step = r.schedule.trace;
  if (step > 0 && r.model.moe_layers() == 0)
    problems.add("schedule.trace", "records MoE layers, but the model has none; set 0 to record nothing");
  else if (step > r.train.steps)
    problems.add("schedule.trace",
                 cat("is after the last step (train.steps is ", r.train.steps, "); set 0 to record nothing"));
}

// Reads the recipe and checks all rules, so that all problems are reported at once. A rule is checked only if all keys
// that it reads have legal values. `device` or, if it is none, HEXAD_DEVICE replaces the recipe's device.
Recipe read_checked(const config::Document& document, const Extensions& extensions, int64_t world, Problems& problems,
                    std::optional<device::DeviceKind> device = {}) {
  Recipe r = config::read<Recipe>(document, problems);
  if (!device) device = device_of_environment(problems);
  if (device) replace_device(r, *device);
  check_device(r, problems);
  if (problems.good({"model.hidden", "model.heads", "model.kv_heads", "model.head_size", "model.position",
                     "model.rotary_share", "model.attention", "model.latent", "model.qk_norm", "model.qkv_clip",
                     "model.bias", "model.qkv_bias", "model.yarn", "model.norm", "model.attention_gate"}))
    check_attention(r.model, problems);
  if (problems.good(
          {"model.kind", "model.window", "model.attention_chunk", "model.full_attention_every", "model.delta_net"})) {
    check_window(r.model, problems);
    check_delta_net(r.model, problems);
  }
  if (problems.good({"model.hidden", "model.heads", "model.head_size", "model.position", "model.attention",
                     "model.latent", "model.qk_norm", "model.no_rotary_every", "model.temperature"}))
    check_no_rotary(r.model, problems);
  if (problems.good({"model.kind", "model.context", "model.prediction_blocks", "model.prediction_weight"}))
    check_prediction(r.model, problems);
  if (problems.good({"model.yarn", "model.rotary_scaling", "model.hidden", "model.heads", "model.head_size",
                     "model.rotary_share", "model.attention", "model.latent"}))
    check_rotary_scaling(r.model, problems);
  if (problems.good({"model.moe", "model.layers"})) check_moe(r.model, problems);
  if (problems.good({"model.kind", "model.moe"})) check_expert_choice(r.model, problems);
  if (problems.good({"model.moe", "model.layers", "model.prediction_blocks", "model.mlp", "model.swiglu_limit"}))
    check_swiglu_limit(r.model, problems);
  check_names(r, extensions, problems);
  if (problems.good({"train"})) check_init(r.train, problems);
  if (problems.good({"train.precision", "optim.moment_dtype"})) check_moments(r, problems);
  if (problems.good({"train.precision", "optim.main_weights"})) check_main_weights(r, problems);
  if (problems.good({"model", "data"})) {
    data::check(r.data, problems);
    check_objective(r, problems);
  }
  check_layout(r, world, problems);
  check_moe_schedule(r, extensions, problems);
  check_micro_batch_overlap(r, world, problems);
  check_moe_order(r, extensions, problems);
  if (problems.good({"train.steps", "profile.steps"})) check_profile(r, problems);
  if (problems.good({"model", "train.steps", "schedule.trace"})) check_trace(r, problems);
  std::vector<comm::TrafficClass> classes = r.distributed.priority;
  std::sort(classes.begin(), classes.end());
  if (std::adjacent_find(classes.begin(), classes.end()) != classes.end())
    problems.add("distributed.priority", "must name each class of traffic at most once");
  if (r.distributed.network_classes.size() > r.distributed.priority.size())
    problems.add("distributed.network_classes",
                 cat("has ", r.distributed.network_classes.size(), " numbers for the ", r.distributed.priority.size(),
                     " classes in distributed.priority; expected at most one for each"));
  try {
    io::Resume::parse(r.checkpoint.resume);
  } catch (const base::Error&) {
    problems.add("checkpoint.resume", "must be auto, none or a step");
  }
  check_freeze(r, extensions, problems);
  return r;
}

// Fills in optimizer settings that the recipe does not contain: the states of the registered optimizer, and the seed.
Recipe completed(Recipe r, const Extensions& extensions) {
  r.optim.states = extensions.optimizers.make(r.optim)->fewest_states();
  r.optim.seed = r.train.seed;
  return r;
}

void rename(config::Document& document, const std::function<void(const std::string&)>& warn) {
  for (const std::string& line : rename_keys(document))
    if (warn) warn(line);
}

// Rejects optim.warmup > train.steps, unless train.steps, but not optim.warmup, is given on the command line. This is a
// short trial of a long recipe.
void check_warmup(const Recipe& r, Problems& problems) {
  const bool trial = problems.on_command_line("train.steps") && !problems.on_command_line("optim.warmup");
  if (trial || !problems.good({"optim.warmup", "train.steps"}) || r.optim.warmup <= r.train.steps) return;
  problems.add("optim.warmup", cat("must be at most train.steps (", r.train.steps,
                                   "): the learning rate would only rise and never reach optim.lr"));
}

// Rejects a decay that begins before the warm-up ends, because the learning rate would drop suddenly when the decay
// takes over.
void check_decay(const Recipe& r, Problems& problems) {
  const optim::OptimConfig& o = r.optim;
  if (!problems.good({"optim", "train.steps"})) return;
  const int64_t steps = r.train.steps;
  if (o.schedule != optim::ScheduleKind::wsd || o.warmup > steps) return;
  const double decay = o.decay_fraction * static_cast<double>(steps);
  const auto room = static_cast<double>(steps - o.warmup);
  if (decay <= room * (1 + 1e-9)) return;
  constexpr double digits = 1e4;
  const double fraction = std::floor(room / static_cast<double>(steps) * digits) / digits;
  std::string text = cat("of train.steps (", steps, ") gives ", decay, " steps of decay, which begin before the ",
                         o.warmup, " steps of optim.warmup end");
  if (o.warmup < steps)
    text += cat(": the learning rate would fall from ", optim::learning_rate(o, o.warmup, steps), " to ",
                optim::learning_rate(o, o.warmup + 1, steps), " in one step");
  problems.add("optim.decay_fraction", cat(text, "; the largest legal value is ", fraction));
}

// Calls `read` for the recipe, or for each of its stages. Throws Error(usage) with the problems that `read` adds.
Recipe read_all(const config::Document& document,
                const std::function<Recipe(const config::Document&, Problems&)>& read) {
  if (const auto stages = stage_documents(document); !stages.empty()) return read_stages(stages, read);
  Problems problems;
  Recipe r = read(document, problems);
  problems.throw_if_any();
  return r;
}

}  // namespace

Recipe load_recipe(config::Document document, const Extensions& extensions, int64_t world,
                   const std::function<void(const std::string&)>& warn, std::optional<device::DeviceKind> device) {
  rename(document, warn);
  return completed(
      read_all(document, [&](const config::Document& d,
                             Problems& problems) { return read_checked(d, extensions, world, problems, device); }),
      extensions);
}

Recipe load_to_train(config::Document document, const Extensions& extensions, int64_t world,
                     const std::function<void(const std::string&)>& warn) {
  rename(document, warn);
  const auto read = [&](const config::Document& d, Problems& problems) {
    Recipe r = read_checked(d, extensions, world, problems);
    check_warmup(r, problems);
    check_decay(r, problems);
    return r;
  };
  const auto read_and_suggest = [&](const config::Document& d, Problems& problems) {
    Recipe r = read(d, problems);
    config::suggest_nearest(d, problems, [&](const config::Document& changed) {
      Problems left;
      read(changed, left);
      return left;
    });
    return r;
  };
  return completed(read_all(document, read_and_suggest), extensions);
}

}  // namespace hexad::train
