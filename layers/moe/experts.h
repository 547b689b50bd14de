// The experts of one layer that live on this rank.
#pragma once

#include <vector>

#include "layers/builder.h"
#include "layers/micro_batch.h"
#include "layers/moe/moe_config.h"

namespace hexad::moe {

using namespace layers;

/// E/P SwiGLU or GELU MLPs as grouped products. Parameters "gate", "up" [E, F, D] and "down" [E, D, F] (each ".weight",
/// and ".bias" on request), sharded along ep in dimension 0 and along etp in F: with etp > 1 the results of the etp
/// ranks are addends.
class Experts {
 public:
  struct Config {
    ExpertKind kind;
    int64_t experts, hidden, expert_hidden;
    double init_std, output_init_std;
    bool bias;
    GeluKind gelu;
  };
  Experts(const Config& c, const Builder& b);

  /// Rows [R, D] grouped by local expert as `offsets` says, to [R, D].
  Value operator()(Tape& t, const Value& rows, const std::vector<int64_t>& offsets) const;
  const std::vector<Parameter*>& parameters() const { return parameters_; }

 private:
  struct Product {
    Parameter *weight = nullptr, *bias = nullptr;
    BiasRole role = BiasRole::added;
    Value operator()(Tape& t, const Value& x, const std::vector<int64_t>& offsets) const {
      return grouped_linear(t, x, *weight, bias, offsets, role);
    }
  };
  /// `width_dim`: dimension of the weight that is the expert's width.
  Product make(const Config& c, const Builder& b, Shape weight, int width_dim, double std);

  Config config_;
  std::vector<Parameter*> parameters_;
  Product gate_, up_, down_;
};

}  // namespace hexad::moe
