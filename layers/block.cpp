#include "layers/block.h"

#include "framework/autograd/recomputation.h"
#include "layers/dense/attention.h"
#include "layers/dense/delta_net.h"
#include "layers/dense/latent_attention.h"

namespace hexad::layers {

using namespace autograd;
using namespace base;
namespace {

// Returns the name of the block's mixer.
std::string mixer_of(const Block::Spec& s) { return s.model.is_delta(s.layer) ? "delta_net" : "attention"; }

std::unique_ptr<TokenMixer> make_mixer(const Block::Spec& s, const Builder& b) {
  if (s.model.is_delta(s.layer)) return std::make_unique<DeltaNet>(s.model, s.layer, b);
  if (s.model.attention == AttentionKind::grouped) {
    const RotaryTable* rotary = s.model.has_rotary(s.layer) ? s.rotary : nullptr;
    return std::make_unique<Attention>(s.model, rotary, s.layer, b, s.temperature);
  }
  require(s.rotary != nullptr, "[block] latent attention has no rotary table; expected Spec::rotary to be set");
  return std::make_unique<LatentAttention>(s.model, *s.rotary, s.layer, b);
}

std::unique_ptr<FeedForward> make_mlp(const Block::Spec& s, const Builder& b) {
  const FeedForwardDeclaration& declared = s.registry.feed_forward_of(s.model);
  return declared.make(FeedForwardSpec{s.model, s.layer, s.model.dense_hidden(), declared}, b);
}

std::unique_ptr<moe::MoeLayer> make_moe(const Block::Spec& s, const Builder& b) {
  const moe::MoeLayer::Spec spec{.model = s.model,
                                 .layer = s.layer,
                                 .index = s.model.moe_layers_before(s.layer),
                                 .router = s.registry.router_of(s.model),
                                 .schedule = s.schedule,
                                 .order = s.registry.moe_order_of(s.schedule)};
  return std::make_unique<moe::MoeLayer>(spec, b);
}

}  // namespace

Block::Block(const Spec& s, const Builder& b)
    : name_(b.prefix()),
      mixer_name_(name_ + "." + mixer_of(s)),
      mlp_name_(name_ + (s.model.is_moe(s.layer) ? ".moe" : ".mlp")),
      attention_norm_(norm_config(s.model), b / "attention_norm") {
  const bool has_moe = s.model.is_moe(s.layer), has_mlp = !has_moe || s.model.moe.dense_residual;
  const bool before = has_moe && s.model.moe.input == moe::ExpertInput::before_attention;
  // Parameters that are created one after the other share a bucket. The norms of the residual stream are created first,
  // so that their few elements belong to the bucket that the block needs first.
  if (has_mlp || !before) mlp_norm_.emplace(norm_config(s.model), b / "mlp_norm");
  if (before) moe_norm_.emplace(norm_config(s.model), b / "moe_norm");
  mixer_ = make_mixer(s, b / mixer_of(s));
  if (has_moe) moe_ = make_moe(s, b / "moe");
  if (has_mlp) mlp_ = make_mlp(s, b / "mlp");
}

Block::Output Block::run(Tape& t, const Value& x, const ForwardContext& context, bool recompute_attention) const {
  // Captures a copy of `context`, because backward may call `attend` again. `context.batch`, a reference, must be valid
  // until then.
  const auto attend = [this, context](Tape& tape, std::span<const Value> in) {
    return std::vector{(*mixer_)(tape, attention_norm_(tape, in[0]), context)};
  };
  Value to_experts;
  const auto with_attention = [&]() -> SumAndNorm {
    const Scope scope(t, x.device(), mixer_name_);
    const Value inputs[] = {x};
    if (moe_norm_) to_experts = (*moe_norm_)(t, x);
    const auto attended = recompute_attention ? checkpoint(t, "attention", inputs, attend) : attend(t, inputs);
    if (!mlp_norm_) return {.sum = add(t, x, attended[0]), .normed = {}};
    return mlp_norm_->add_and_normalize(t, x, attended[0]);
  };
  const auto [residual, normed] = with_attention();
  const Scope scope(t, x.device(), mlp_name_);
  if (!moe_) return {add(t, residual, (*mlp_)(t, normed, context)), {}};
  const auto [y, aux_losses] =
      (*moe_)(t, moe_norm_ ? to_experts : normed, context, {residual}, {.mlp = mlp_.get(), .input = normed});
  return {y, aux_losses};
}

Block::Output Block::operator()(Tape& t, const Value& x, const ForwardContext& context, Recompute recompute) const {
  if (recompute != Recompute::block) return run(t, x, context, recompute == Recompute::attention);
  const Scope scope(t, x.device(), name_);
  const Value inputs[] = {x};
  const auto out = checkpoint(t, "block", inputs, [this, context](Tape& tape, std::span<const Value> in) {
    const auto [y, aux_losses] = run(tape, in[0], context, false);
    return aux_losses.data.defined() ? std::vector{y, aux_losses} : std::vector{y};
  });
  return {out[0], out.size() > 1 ? out[1] : Value{}};
}

}  // namespace hexad::layers
