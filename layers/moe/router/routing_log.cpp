#include "layers/moe/router/routing_log.h"

#include <numeric>

#include "framework/tensor/host_read.h"

namespace hexad::layers {

using namespace base;
using namespace tensor;

void RoutingLog::record(const ForwardContext& context, int64_t layer, int64_t begin, const Tensor& ids,
                        Stream& stream) {
  top_k_ = ids.dim(1);
  const HostRead read = read_to_host("routing log", ids, stream);
  const std::span<const int32_t> all = read.wait<int32_t>();
  auto& experts = experts_[{layer, context.step}];
  for (int64_t r = 0; r < ids.dim(0); ++r) {
    const auto row = all.subspan(r * top_k_, top_k_);
    experts[context.batch.first_token + context.batch.token(begin + r)].assign(row.begin(), row.end());
  }
}

Tensor RoutingLog::choose(const ForwardContext& context, int64_t layer, int64_t begin, int64_t count,
                          Device device) const {
  std::vector<int32_t> padding(top_k_), chosen;
  std::iota(padding.begin(), padding.end(), 0);
  const auto noted = experts_.find({layer, context.step});
  require(noted != experts_.end(), "[routing log] MoE layer ", layer, " has no choices of step ", context.step,
          "; record this step before its choices are used");
  for (int64_t r = begin; r < begin + count; ++r) {
    const int64_t token = context.batch.token(r);
    const auto found = noted->second.find(context.batch.first_token + token);
    const bool known = found != noted->second.end();
    require(known || context.batch.valid_in(token / context.batch.length) == 0,
            "[routing log] no experts are recorded for token ", context.batch.first_token + token, " of MoE layer ",
            layer, " in step ", context.step, "; expected a record of every valid token");
    const std::vector<int32_t>& ids = known ? found->second : padding;
    chosen.insert(chosen.end(), ids.begin(), ids.end());
  }
  return Tensor::from<int32_t>(chosen, {count, top_k_}, device);
}

}  // namespace hexad::layers
