// Pass of rows to experts and back, with a function instead of the experts.
#pragma once

#include <memory>

#include "layers/moe/pass/combine.h"
#include "tests/moe/paper_letters.h"

namespace hexad::tests {

using device::Stream;
using tensor::Tensor;

class PlainPass {
 public:
  moe::Routes routes;
  Tensor like;  // its rows have the dtype and width of the pass
  std::function<moe::RowSource(Stream&, size_t)> rows;
  std::function<moe::Rows(Stream&, size_t, moe::Rows)> compute = [](Stream&, size_t, moe::Rows r) { return r; };
  std::function<void(size_t)> weight_gradients{};  // empty if there are none
  moe::SharedWork shared{};
  int64_t weights_out = 0, weights_back = 0;  // weights per slot of a row: sent, returned
  bool weighs = false;
  moe::Buffers buffers = moe::Buffers::own;

  PlainPass(moe::Routes r, Tensor rows_like) : routes(std::move(r)), like(std::move(rows_like)) {}

  /// Returns a new graph, which is valid until the next call or until this object is destroyed.
  const schedule::TaskGraph& graph() {
    graph_ = std::make_unique<moe::PassGraph>(routes, like, buffers);
    moe::PassGraph& g = *graph_;
    combine_ = std::make_unique<moe::Combine>(
        g, moe::Combine::Options{.row_weights = weights_back,
                                 .collection = routes.collection ? &*routes.collection : nullptr,
                                 .accept = [](Stream&, size_t, const moe::Rows&) {}});
    dispatch_ =
        std::make_unique<moe::Dispatch>(g, moe::Dispatch::Options{.row_weights = weights_out, .keeps_weights = weighs});
    experts_ = std::make_unique<moe::ExpertTasks>(g, 1, schedule::ByGemmPass<int64_t>{1, 0, 0});
    moe::PassSteps steps{
        .dispatch =
            [&](size_t c) { dispatch_->add(c, g.room_to_dispatch(), [this, c](Stream& s) { return rows(s, c); }); },
        .shared_experts = [&] { experts_->add_shared(shared); },
        .compute =
            [&](size_t c) {
              experts_->add(c, dispatch_->add_arrival(c), {},
                            [this, c](Stream& s, moe::Rows grouped) { return compute(s, c, std::move(grouped)); });
            },
        .combine = [&](size_t c) { combine_->add(c, experts_->computed(c), dispatch_->row_weights(c)); }};
    if (weight_gradients)
      steps.weight_gradients = [&](size_t c) {
        experts_->add_weight_gradients(c, 1, [this, c](Stream&) { weight_gradients(c); });
      };
    g.add_steps(steps);
    return g.graph();
  }
  std::string letters() { return in_letters(graph().to_string()); }
  const moe::Rows& slot_rows() const { return combine_->slot_rows(); }
  const Tensor& collected() const { return combine_->collected(); }

 private:
  std::unique_ptr<moe::PassGraph> graph_;
  std::unique_ptr<moe::Combine> combine_;
  std::unique_ptr<moe::Dispatch> dispatch_;
  std::unique_ptr<moe::ExpertTasks> experts_;
};

/// Returns the settings of a layer on `groups`. Its tensor-parallel group is `groups.etp`.
inline moe::PassSettings pass_settings(const ep::ExpertGroups& groups, int64_t experts,
                                       moe::Overlap overlap = moe::Overlap::sequential) {
  moe::PassSettings settings{.schedule = {},
                             .order = moe::alternating_order(),
                             .experts = experts,
                             .groups = groups,
                             .tensor = groups.etp,
                             .tensor_ep_ranks = {},
                             .name = "moe"};
  settings.schedule.overlap = overlap;
  return settings;
}

}  // namespace hexad::tests
