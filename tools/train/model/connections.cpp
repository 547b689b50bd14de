#include "tools/train/model/connections.h"

#include "parallel/cp/context_attention.h"
#include "parallel/cp/delta_net_ops.h"
#include "parallel/pp/pipeline_runner.h"
#include "tools/train/recipe/stages.h"

namespace hexad::train {

using base::Axis;
using comm::Use;
using comm::Uses;
using moe::Duplicates;

namespace {

// Returns the operations that an MoE layer runs in the group of its tp ranks.
Uses of_duplicates(const Recipe& r, const moe::MoeSchedule& s) {
  if (r.parallel.sp || (s.gates_all() && !s.divides())) return {};
  // Collectives gather the shares of results and gradients. Messages gather most of these shares, chunk by chunk, if
  // each rank routes all its tokens in several chunks without memory reuse.
  const bool by_chunk = s.gates_all() && s.chunks > 1 && s.memory_reuse == moe::ReuseStrategy::none;
  return by_chunk ? Uses{Use::gathers, Use::messages} : Uses{Use::gathers};
}

// Properties of this rank's layers that determine which groups the layers use.
struct Layers {
  bool embedding, last, experts, delta_nets;
};

Layers layers_of(const layers::ModelConfig& model, const std::vector<layers::ModelPart>& parts) {
  Layers all{};
  for (const layers::ModelPart& p : parts) {
    all.embedding |= p.first || (p.last && model.prediction_blocks > 0), all.last |= p.last;
    const int64_t end = p.last ? model.blocks() : p.end;
    for (int64_t l = p.begin; l < end; ++l) all.experts |= model.is_moe(l), all.delta_nets |= model.is_delta(l);
  }
  return all;
}

Uses of_tensor_ranks(const Recipe& r, const moe::MoeSchedule& s, const Layers& mine) {
  Uses uses = r.parallel.sp ? Use::messages : Use::sums;
  if (r.parallel.sp && mine.embedding) uses = uses | Uses{Use::shares, Use::gathers};
  if (mine.last) uses = uses | Uses{Use::gathers, Use::sums};  // for head and loss
  return mine.experts ? uses | of_duplicates(r, s) : uses;
}

// Returns the operations that layers run in the etp group, whose ranks share the width of experts.
Uses of_expert_tensor_ranks(const moe::MoeSchedule& s) {
  Uses uses;
  if (s.duplicates == Duplicates::baseline) uses = Use::gathers;  // gathers tokens, ids and weights
  if (s.esp_exchange_used() == ep::EspExchange::gather) uses = uses | Use::messages;
  if (s.esp_exchange_used() == ep::EspExchange::replicated) uses = uses | Use::sums;
  return uses;
}

// Returns the operations that layers run in the group of ranks that share a micro-batch's tokens.
Uses of_token_ranks(const moe::MoeConfig& moe) {
  Uses uses;
  if (moe.aux_loss.coefficient > 0 && moe.aux_loss.scope != moe::AuxScope::global_batch) uses = Use::counts;
  return moe.capacity_factor ? uses | Use::gathers : uses;
}

void connect(const comm::ProcessGroup& group, Uses uses, device::Device device) {
  if (group.size() > 1 && !uses.empty()) group.connect(uses, device);
}

void connect_context(cp::ContextKind kind, const comm::ProcessGroup& group, device::Device device) {
  switch (kind) {
    case cp::ContextKind::ring:
      if (group.size() > 1) cp::connect_ring(group, device);
      return;
    case cp::ContextKind::all_gather:
      return connect(group, {Use::gathers, Use::shares}, device);
    case cp::ContextKind::ulysses:
      return connect(group, {Use::exchanges, Use::gathers}, device);  // gathers document boundaries
  }
}

void connect_experts(const moe::MoeSchedule& s, const mesh::Mesh& mesh, device::Device device) {
  connect(mesh[Axis::etp], of_expert_tensor_ranks(s), device);
  if (s.shadows())
    // The group gathers weights of hot experts, sums their gradients, and returns these sums.
    connect(mesh[Axis::ep], {Use::gathers, Use::shares, Use::exchanges}, device);
  const bool esp_direct = s.esp_exchange_used() == ep::EspExchange::direct;
  const comm::NodeGroups* nodes = esp_direct ? mesh.experts_nodes() : mesh.ep_nodes();
  if (s.all_to_all != ep::AllToAll::hierarchical || !nodes)
    return connect(esp_direct ? mesh.experts() : mesh[Axis::ep],
                   s.all_to_all == ep::AllToAll::window ? Uses{Use::exchanges, Use::counts} : Uses{Use::exchanges},
                   device);
  connect(*nodes->inside, Use::exchanges, device);
  connect(*nodes->across, Use::exchanges, device);
}

}  // namespace

void connect_layers(const Recipe& r, const std::vector<layers::ModelPart>& parts, const mesh::Mesh& mesh,
                    device::Device device) {
  const moe::MoeSchedule s = r.schedule.moe.settled();
  const Layers mine = layers_of(r.model, parts);
  connect(mesh[Axis::tp], of_tensor_ranks(r, s, mine), device);
  connect_context(r.parallel.cp_kind, mesh[Axis::cp], device);
  if (mine.delta_nets && mesh.size(Axis::cp) > 1) cp::connect_chain(mesh[Axis::cp], device);
  if (mine.experts) {
    connect(mesh.tokens(), of_token_ranks(r.model.moe), device);
    connect_experts(s, mesh, device);
  }
  const comm::ProcessGroup& pipeline = mesh[Axis::pp];
  if (pipeline.size() > 1) pp::connect(pipeline, pp::stage_map(pipeline_of(r), pipeline.size()), device);
}

}  // namespace hexad::train
