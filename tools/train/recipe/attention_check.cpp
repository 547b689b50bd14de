#include "tools/train/recipe/recipe_rules.h"

#include <string_view>

#include "framework/base/error.h"
#include "tools/train/recipe/layout_check.h"

namespace hexad::train {

using base::cat;
using config::Problems;

namespace {

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
  require_value(m.key_value_heads() == m.heads, "model.kv_heads", cat("auto or ", m.heads, ", the number of heads,"));
  require_value(m.head_size.value_or(l.key_size()) == l.key_size(), "model.head_size",
                cat("auto, or rope_size + nope_size (", l.key_size(), "),"));
  require_value(m.position == layers::PositionKind::rotary, "model.position", "rotary");
  require_value(m.rotary_share == 1, "model.rotary_share", "1");
  require_value(m.qk_norm == layers::QkNorm::none, "model.qk_norm", "none");
  require_value(!m.qkv_clip, "model.qkv_clip", "none");
  require_value(!m.has_qkv_bias(), "model.qkv_bias", "false");
  require_value(!m.attention_gate, "model.attention_gate", "false");
  if (l.rope_size % 2 != 0)
    problems.add("model.latent.rope_size",
                 cat("must be even, because rotary positions rotate pairs of elements; nearest: ", l.rope_size - 1,
                     ", ", l.rope_size + 1));
  if (l.value_size > l.key_size())
    problems.add("model.latent.value_size",
                 cat("must be at most rope_size + nope_size (", l.key_size(), "), the size of a key head"));
}

void check_head_sizes(const layers::ModelConfig& m, Problems& problems) {
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
    problems.add("model.no_rotary_every",
                 cat("must be 0 for ", m.is_latent() ? "model.attention: latent" : "model.position: learned"));
  if (m.no_rotary_every == 1)
    problems.add("model.no_rotary_every", "must not be 1, because no block would have rotary positions; nearest: 0, 2");
  if (m.qk_norm == layers::QkNorm::unit && m.position != layers::PositionKind::rotary)
    problems.add("model.qk_norm", "must not be unit for model.position: learned, which has no rotary positions");
  if (m.temperature.scale == 0) return;
  if (m.no_rotary_every == 0)
    problems.add("model.temperature.scale",
                 "must be 0 for model.no_rotary_every: 0, because only blocks without rotary positions read it");
  else if (m.size_of_head() % 2 != 0)
    problems.add("model.temperature.scale", cat("needs heads of an even size, but their size is ", m.size_of_head(),
                                                "; change this size, or set 0"));
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
                 "must not be 1 with delta nets, because no block would have a delta net; nearest: 0, 2");
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
                   "must be 0 without model.window, model.attention_chunk and delta nets, because all blocks then have "
                   "full attention");
    return;
  }
  if (m.kind != layers::ModelKind::decoder)
    problems.add("model.window", "must be none for model.kind: encoder, whose tokens also attend to later tokens");
  if (m.full_attention_every == 1)
    problems.add("model.full_attention_every",
                 cat("must not be 1 with model.window (", *m.window, "), which no block would read; nearest: 0, 2"));
}

}  // namespace

void check_attention(const layers::ModelConfig& model, Problems& problems) {
  if (problems.good({"model.hidden", "model.heads", "model.kv_heads", "model.head_size", "model.position",
                     "model.rotary_share", "model.attention", "model.latent", "model.qk_norm", "model.qkv_clip",
                     "model.bias", "model.qkv_bias", "model.yarn", "model.norm", "model.attention_gate"}))
    check_head_sizes(model, problems);
  if (problems.good(
          {"model.kind", "model.window", "model.attention_chunk", "model.full_attention_every", "model.delta_net"})) {
    check_window(model, problems);
    check_delta_net(model, problems);
  }
  if (problems.good({"model.hidden", "model.heads", "model.head_size", "model.position", "model.attention",
                     "model.latent", "model.qk_norm", "model.no_rotary_every", "model.temperature"}))
    check_no_rotary(model, problems);
}

}  // namespace hexad::train
