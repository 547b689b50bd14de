#include "tools/verify/tensor_pieces.h"

#include <algorithm>
#include <cstring>

#include "parallel/comm/text_collectives.h"
#include "tools/verify/ownership.h"
#include "tools/verify/rank_message.h"

namespace hexad::verify {
namespace {

using base::Dtype;
using base::require;

std::string packed(const std::vector<Piece>& pieces) {
  MessageWriter out;
  for (const Piece& p : pieces) {
    if (!p.owned) continue;
    require(p.values.contiguous(), "[gather] the piece of ", p.name, " has strides ", p.values.strides(),
            "; expected a contiguous tensor");
    out.text(p.name);
    out.shape(p.global), out.shape(p.region.begin), out.shape(p.region.size);
    out.value(p.begin), out.value(p.values.dtype()), out.value(p.values.numel());
    if (p.values.numel() > 0) out.raw(p.values.raw(), p.values.bytes());
  }
  return out.take();
}

}  // namespace

void for_each_run(const Piece& piece, const std::function<void(int64_t, int64_t, int64_t)>& f) {
  const Shape& size = piece.region.size;
  const Shape strides = piece.global.row_major_strides();
  // Number of the region's elements that are contiguous in the global tensor: the product of the region's sizes from
  // its last incomplete dimension on.
  int64_t width = 1;
  for (int d = size.rank() - 1; d >= 0; --d) {
    width *= size[d];
    if (size[d] != piece.global[d]) break;
  }
  const int64_t count = piece.values.numel();
  for (int64_t local = 0; local < count;) {
    int64_t rest = piece.begin + local, global = 0;
    const int64_t run = std::min(count - local, width - rest % width);
    for (int d = size.rank() - 1; d >= 0; --d) {
      global += (piece.region.begin[d] + rest % size[d]) * strides[d];
      rest /= size[d];
    }
    f(global, local, run);
    local += run;
  }
}

TensorMap gather(const std::vector<Piece>& pieces, const comm::ProcessGroup& group, Device host) {
  TensorMap whole;
  std::map<std::string, Ownership> owned;  // by name: the elements that ranks have sent
  const std::vector<std::string> texts = comm::gather_texts(packed(pieces), group, host);
  for (size_t rank = 0; rank < texts.size(); ++rank)
    for (MessageReader in("gather", texts[rank], rank); !in.done();) {
      Piece p;
      p.name = in.text();
      p.global = in.shape(), p.region.begin = in.shape(), p.region.size = in.shape();
      p.begin = in.value<int64_t>();
      const auto dtype = in.value<Dtype>();
      const auto count = in.value<int64_t>();
      p.values = Tensor::empty({count}, dtype, host);
      if (count > 0) std::memcpy(p.values.raw(), in.raw(p.values.bytes()), p.values.bytes());

      auto [entry, fresh] = whole.try_emplace(p.name);
      Ownership& taken = owned[p.name];
      if (fresh) entry->second = Tensor::empty(p.global, dtype, host);
      const Tensor& target = entry->second;
      require(target.shape() == p.global && target.dtype() == dtype, "[gather] ", p.name, " is ", p.global, " ", dtype,
              " on rank ", rank, "; expected ", target.shape(), " ", target.dtype(), ", as on an earlier rank");
      const size_t width = base::size_of(dtype);
      for_each_run(p, [&](int64_t global, int64_t local, int64_t n) {
        taken.add(global, n, static_cast<int>(rank));
        std::memcpy(static_cast<char*>(target.raw()) + static_cast<size_t>(global) * width,
                    static_cast<const char*>(p.values.raw()) + static_cast<size_t>(local) * width,
                    static_cast<size_t>(n) * width);
      });
    }
  for (const auto& [name, taken] : owned) {
    const std::string problem = taken.problem(whole.at(name).numel());
    require(problem.empty(), "[gather] ", name, ": ", problem);
  }
  return whole;
}

}  // namespace hexad::verify
