#include "layers/moe/pass/pass_call.h"

namespace hexad::moe {

SharedWork PassCall::shared_backward(Backward& b) const {
  const int64_t products = shared.products.front();
  if (products == 0) return {};
  return {.compute = [&b, first = first_shared_op] { b.replay_from(first); },
          .flops = shared.flops,
          .products = {0, products, b.weights_delayed() ? 0 : products}};
}

}  // namespace hexad::moe
