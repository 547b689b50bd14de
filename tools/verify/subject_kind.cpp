#include "tools/verify/subject_kind.h"

#include <algorithm>
#include <cmath>

#include "framework/base/atomic_file.h"
#include "framework/base/error.h"
#include "tools/verify/exactness.h"

namespace hexad::verify {
namespace {

using train::Extensions, train::Recipe;
using Overrides = std::vector<std::string>;

bool has_experts(const Recipe& r) { return r.model.moe.experts > 0; }

// Returns overrides that prevent rounding from flipping decisions, such as which slot is dropped or the sign of an
// update.
Overrides for_rounding(const OwnSubject& own) {
  // If eps is small relative to the gradient, Adam's first update is the sign of the gradient. Rounding would then
  // decide the sign for elements near zero.
  const double typical =
      1 / std::sqrt(static_cast<double>(own.parameters));  // typical element of a gradient with norm one
  Overrides out{base::cat("optim.eps=", std::max(own.recipe.optim.eps, typical))};
  // Drops by position instead of by score. The runs get the choices of experts from the oracle.
  if (has_experts(own.recipe) && !own.recipe.model.moe.experts_choose()) out.emplace_back("model.moe.drop=position");
  // Muon makes all singular values of an update equal, so rounding would decide the directions of the smallest
  // singular values. AdamW replaces Muon.
  if (own.recipe.optim.name == "muon")
    out.insert(out.end(),
               {"optim.name=adamw", "optim.muon_momentum=0.95", "optim.muon_iterations=5", "optim.muon_except=[]"});
  return out;
}

Overrides joined(Overrides all, const Overrides& more) {
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

// Returns the overrides of a subject in bf16.
// - Removes biases, because the gradient of a key bias is only a small difference of large terms: a softmax ignores a
//   term that all keys share.
// - Removes fp8 rows, because this additional rounding would hide missing parts.
Overrides in_bf16(const OwnSubject& own) {
  return joined(for_rounding(own),
                {"train.precision=bf16", "model.bias=false", "model.qkv_bias=auto", "schedule.moe.wire=model"});
}

// Returns overrides that select less common forms of attention and MoE layers, which some model families use.
Overrides forms(const OwnSubject& own) {
  const layers::ModelConfig& m = own.recipe.model;
  Overrides out{"model.o_bias=true", "model.sinks=true", "model.head_bias=true"};
  const bool centred = m.norm == layers::NormKind::zero_centred_rms_norm;
  if (!m.is_latent()) {
    out.emplace_back(centred ? "model.qk_norm=head" : "model.qk_norm=all_heads");
    out.insert(out.end(), {"model.qkv_bias=true", "model.attention_gate=true"});
    // The limit is about one standard deviation of the initial queries, keys and values, so a third of them are
    // clamped.
    if (!m.qkv_clip) out.push_back(base::cat("model.qkv_clip=", m.init_std * std::sqrt(static_cast<double>(m.hidden))));
  }
  // The lists of LongRoPE have an entry for each rotated pair, and no other scaling reads them.
  const bool longrope = m.rotary_scaling.kind == layers::RotaryScaling::longrope;
  if (!m.is_latent() && !longrope && m.rotary_share == 1 && m.size_of_head() % 4 == 0)
    out.emplace_back("model.rotary_share=0.5");
  const auto set = [&](std::string_view section, std::initializer_list<std::string_view> settings) {
    for (const std::string_view setting : settings) out.push_back(base::cat(section, ".", setting));
  };
  if (m.yarn.factor == 1 && !longrope) set("model.rotary_scaling", {"kind=llama3", "factor=4", "original_context=16"});
  const bool gated = has_experts(own.recipe) ? m.moe.expert == moe::ExpertKind::swiglu : m.mlp == "swiglu";
  if (gated && !m.swiglu_limit) out.emplace_back("model.swiglu_limit=0.2");
  if (m.kind == layers::ModelKind::decoder && !m.window && !m.attention_chunk && !m.delta_net.used()) {
    out.push_back(base::cat("model.window=", std::max<int64_t>(1, m.context / 3)));
    if (m.layers > 1) out.emplace_back("model.full_attention_every=2");
  }
  if (!has_experts(own.recipe)) return out;
  out.push_back(base::cat("model.moe.shared_experts=", std::max<int64_t>(1, m.moe.shared_experts)));
  set("model.moe", {"shared_gate=true", "expert_bias=true", "dense_residual=true"});
  const bool before = m.moe.input == moe::ExpertInput::before_attention;
  set("model.moe", {before ? "input=after_attention" : "input=before_attention"});
  if (m.moe.router != "top_k") return out;
  set("model.moe", {"selection_bias=true", "router_bias=true", "normalize=true", "normalize_floor=0.5"});
  if (m.moe.top_groups < m.moe.groups) {
    const bool best = m.moe.group_score == kernels::RouterGroupScore::best;
    set("model.moe", {best ? "group_score=best_two" : "group_score=best"});
  } else if (m.moe.experts % 2 == 0 && 2 * m.moe.top_k <= m.moe.experts) {
    set("model.moe", {"groups=2", "top_groups=1", "group_score=best"});
  }
  return out;
}

// Returns overrides that select a router without a score rule, and the defaults of the keys that this router does not
// read. `settings` are additional overrides of model.moe.
Overrides router_without_rule(std::string_view router, std::initializer_list<std::string_view> settings) {
  Overrides out{base::cat("model.moe.router=", router)};
  for (const std::string_view setting :
       {"router_options=[]", "score=softmax", "router_bias=false", "normalize=true", "normalize_floor=0", "scale=1",
        "groups=1", "top_groups=1", "group_score=best_two", "bias_rate=0", "selection_bias=auto"})
    out.push_back(base::cat("model.moe.", setting));
  for (const std::string_view setting : settings) out.push_back(base::cat("model.moe.", setting));
  return out;
}

Overrides sparse_mixer(const OwnSubject&) { return router_without_rule("sparse_mixer", {"mixer_jitter=0.2"}); }

// Returns overrides that select an encoder whose experts choose tokens, with fewer choices than slots.
Overrides expert_choice(const OwnSubject& own) {
  const Recipe& r = own.recipe;
  Overrides out =
      router_without_rule("expert_choice", {base::cat("mixer_jitter=", moe::usual_mixer_jitter), "capacity_factor=0.7",
                                            "drop=probability", "aux_loss.coefficient=0", "routing=model"});
  out.insert(out.end(),
             {"model.kind=encoder", "model.window=none", "model.attention_chunk=none", "model.full_attention_every=0",
              "model.prediction_blocks=0", base::cat("model.prediction_weight=", layers::usual_prediction_weight)});
  if (!r.data.registered() && r.data.mlm_probability == 0) out.emplace_back("data.mlm_probability=0.15");
  return out;
}

// Returns overrides that select the forms of Llama 4.
Overrides llama4(const OwnSubject& own) {
  const layers::ModelConfig& m = own.recipe.model;
  Overrides out{"model.qk_norm=unit",          "model.no_rotary_every=2",
                "model.temperature.scale=0.5", "model.temperature.floor=3",
                "model.window=none",           base::cat("model.attention_chunk=", std::max<int64_t>(1, m.context / 3)),
                "model.full_attention_every=2"};
  if (!has_experts(own.recipe) || m.moe.router != "top_k") return out;
  for (const std::string_view setting :
       {"top_k=1", "weigh=input", "score=sigmoid", "normalize=false", "normalize_floor=0"})
    out.push_back(base::cat("model.moe.", setting));
  return out;
}

// Returns overrides that select latent attention with sizes that ranks cannot divide evenly.
Overrides latent(const OwnSubject& own) {
  Overrides out{"model.attention=latent",  "model.kv_heads=auto",      "model.head_size=auto",
                "model.position=rotary",   "model.rotary_share=1",     "model.qk_norm=none",
                "model.qkv_clip=none",     "model.qkv_bias=false",     "model.attention_gate=false",
                "model.no_rotary_every=0", "model.temperature.scale=0"};
  for (const std::string_view size : {"q_rank=7", "kv_rank=5", "nope_size=3", "rope_size=2", "value_size=3"})
    out.push_back(base::cat("model.latent.", size));
  const layers::ModelConfig& m = own.recipe.model;
  if (m.yarn.factor != 1) out.emplace_back("model.yarn.mscale_all_dim=1");
  if (m.rotary_scaling.kind == layers::RotaryScaling::longrope)  // LongRoPE's lists do not fit the heads
    for (const std::string_view setting :
         {"kind=none", "short_factors=[]", "long_factors=[]", "short_magnitude=1", "long_magnitude=1"})
      out.push_back(base::cat("model.rotary_scaling.", setting));
  return out;
}

// Returns overrides that select delta nets in every second block, or in the only block. Two value heads share a key
// head. Also selects the attention gate and the zero-centred norms of Qwen3-Next if the recipe permits them.
Overrides delta_net(const OwnSubject& own) {
  const layers::ModelConfig& m = own.recipe.model;
  Overrides out{"model.window=none", "model.attention_chunk=none",
                base::cat("model.full_attention_every=", m.layers > 1 ? 2 : 0),
                base::cat("model.delta_net.heads=", 2 * m.heads), base::cat("model.delta_net.key_heads=", m.heads)};
  // With a small norm_eps, the norm of a head whose output is nearly zero enlarges rounding errors more than a
  // tolerance allows.
  for (const std::string_view set : {"key_size=3", "value_size=5", "conv_size=2", "norm_eps=0.1"})
    out.push_back(base::cat("model.delta_net.", set));
  if (m.qk_norm != layers::QkNorm::all_heads) out.emplace_back("model.norm=zero_centred_rms_norm");
  if (!m.is_latent()) out.emplace_back("model.attention_gate=true");
  return out;
}

bool always(const Recipe&, const Extensions&) { return true; }
// True if some layout can have a rank without rows: no token visits all experts.
bool if_ranks_may_be_idle(const Recipe& r, const Extensions&) {
  return has_experts(r) && !r.model.moe.experts_choose() && r.model.moe.top_k < r.model.moe.experts;
}
bool if_tokens_choose(const Recipe& r, const Extensions&) { return has_experts(r) && !r.model.moe.experts_choose(); }

bool if_moments_may_be_bf16(const Recipe& r, const Extensions& extensions) {
  const auto* rule = extensions.optimizers.find(r.optim.name);
  return rule && rule->reads_moment_dtype;
}

bool if_main_weights_may_be_rests(const Recipe& r, const Extensions& extensions) {
  const auto* rule = extensions.optimizers.find(r.optim.name);
  return rule && !rule->marked_state.empty();
}

}  // namespace

std::span<const SubjectKind> subject_kinds() {
  static const std::vector<SubjectKind> all{
      {"own", always, [](const OwnSubject&) { return Overrides{}; }},
      {"tied", [](const Recipe& r, const Extensions&) { return !r.model.tied_embedding; },
       [](const OwnSubject&) { return Overrides{"model.tied_embedding=true"}; }},
      {"forms",
       [](const Recipe& r, const Extensions&) {
         const bool other_attention = !r.model.is_latent() && r.model.qk_norm != layers::QkNorm::all_heads;
         return other_attention || !r.model.sinks || (has_experts(r) && !r.model.moe.shared_gate);
       },
       forms},
      {"latent", [](const Recipe& r, const Extensions&) { return !r.model.is_latent(); }, latent},
      {"sparse_mixer",
       [](const Recipe& r, const Extensions&) { return has_experts(r) && r.model.moe.router != "sparse_mixer"; },
       sparse_mixer},
      {"expert_choice",
       [](const Recipe& r, const Extensions& e) { return if_tokens_choose(r, e) && !r.model.delta_net.used(); },
       expert_choice},
      {"llama4",
       [](const Recipe& r, const Extensions&) {
         const layers::ModelConfig& m = r.model;
         return m.kind == layers::ModelKind::decoder && !m.is_latent() && !m.attention_chunk && !m.delta_net.used() &&
                m.position == layers::PositionKind::rotary && m.size_of_head() % 2 == 0 &&
                m.moe.routing != moe::Routing::trace;
       },
       llama4},
      {"delta_net",
       [](const Recipe& r, const Extensions&) {
         return r.model.kind == layers::ModelKind::decoder && !r.model.delta_net.used();
       },
       delta_net},
      {"prediction",
       [](const Recipe& r, const Extensions&) {
         return r.model.kind == layers::ModelKind::decoder && r.model.context > 1 && r.model.prediction_blocks == 0;
       },
       [](const OwnSubject& own) {
         return Overrides{base::cat("model.prediction_blocks=", std::min<int64_t>(2, own.recipe.model.context - 1)),
                          "model.prediction_weight=0.7"};
       }},
      {"aux_global_batch",
       [](const Recipe& r, const Extensions&) {
         const moe::AuxLossConfig& aux = r.model.moe.aux_loss;
         return has_experts(r) && aux.coefficient > 0 && aux.scope != moe::AuxScope::global_batch;
       },
       [](const OwnSubject&) { return Overrides{"model.moe.aux_loss.scope=global_batch"}; }},
      {"sequences",
       always,
       [](const OwnSubject& own) {
         if (!has_experts(own.recipe)) return Overrides{};
         return Overrides{"model.moe.aux_loss.scope=sequence", "model.moe.capacity_scope=sequence"};
       },
       {"batch.micro=1"}},
      {"zipf", if_tokens_choose,
       [](const OwnSubject&) {
         return Overrides{"model.moe.routing=zipf", "model.moe.zipf_exponent=2"};
       }},
      {"idle_ranks", if_ranks_may_be_idle,
       [](const OwnSubject& own) {
         return Overrides{"model.moe.routing=trace", "model.moe.trace=" + own.trace};
       }},
      {"eventful",
       always,
       [](const OwnSubject&) {
         return Overrides{"optim.schedule=cosine", "optim.warmup=1"};
       },
       {},
       Course::eventful},
      {"f32", always, [](const OwnSubject& own) { return joined(for_rounding(own), {"train.precision=f32"}); }},
      {"bf16", always, in_bf16},
      {"bf16_gradients",
       [](const Recipe& r, const Extensions&) { return r.optim.grad_dtype != optim::GradientDtype::bf16; },
       [](const OwnSubject& own) { return joined(in_bf16(own), {"optim.grad_dtype=bf16"}); }},
      {"bf16_logits", always, [](const OwnSubject& own) { return joined(in_bf16(own), {"train.logits_dtype=bf16"}); }},
      {"bf16_moments", if_moments_may_be_bf16,
       [](const OwnSubject& own) { return joined(in_bf16(own), {"optim.moment_dtype=bf16"}); }},
      {"bf16_rests", if_main_weights_may_be_rests,
       [](const OwnSubject& own) { return joined(in_bf16(own), {"optim.main_weights=rest"}); }},
      {"muon", [](const Recipe& r, const Extensions&) { return r.optim.name != "muon"; },
       [](const OwnSubject& own) {
         // Newton-Schulz iterations amplify rounding errors of small singular values. A small learning rate limits
         // their effect.
         constexpr double largest_lr = 1e-3;
         return Overrides{"optim.name=muon", "optim.options=[]", "optim.overlap=false",
                          base::cat("optim.lr=", std::min(own.recipe.optim.lr, largest_lr)), "schedule.moe.wire=model"};
       }},
      {"fp8", [](const Recipe& r, const Extensions&) { return has_experts(r) && !sends_fp8(r); },
       [](const OwnSubject& own) { return joined(for_rounding(own), {"schedule.moe.wire=fp8"}); }}};
  return all;
}

const SubjectKind& subject_kind(std::string_view name) {
  const auto all = subject_kinds();
  const auto found = std::find_if(all.begin(), all.end(), [&](const SubjectKind& k) { return k.name == name; });
  base::require(found != all.end(), "[verify] subject ", name, " is unknown; expected a name in subject_kinds()");
  return *found;
}

std::vector<std::string> overrides_of(const SubjectKind& kind, const OwnSubject& own) {
  Overrides all = joined(sends_fp8(own.recipe) ? for_rounding(own) : Overrides{}, kind.overrides(own));
  // A subject with another model may lack the parameters that optim.freeze and optim.muon_except name.
  const bool other_model = std::ranges::any_of(all, [](const std::string& o) { return o.starts_with("model."); });
  if (other_model && !own.recipe.optim.freeze.empty()) all.emplace_back("optim.freeze=[]");
  if (other_model && !own.recipe.optim.muon_except.empty()) all.emplace_back("optim.muon_except=[]");
  return all;
}

void write_routing_trace(const Recipe& recipe, const std::string& file) {
  const moe::MoeConfig& m = recipe.model.moe;
  const int64_t busy = std::max(m.top_k, m.experts / 4), tokens = recipe.batch.global * recipe.model.context;
  const int64_t second = std::min(m.experts / 2, m.experts - busy);  // first expert for the second half of batch one
  std::string text;
  for (int64_t token = 0; token < 2 * tokens; ++token) {
    const int64_t first = token >= tokens / 2 && token < tokens ? second : 0;
    for (int64_t k = 0; k < m.top_k; ++k) text += base::cat(first + (token + k) % busy, " ");
    text += '\n';
  }
  base::write_file(file, text);
}

}  // namespace hexad::verify
