// Representation of a collective or a message as data. Groups execute it, ranks compare it, and error messages describe
// it.
#pragma once

#include <cstdint>
#include <source_location>
#include <string>
#include <vector>

#include "framework/tensor/tensor.h"

namespace hexad::comm {

using tensor::Tensor;

enum class Reduce : uint8_t { sum, max, min };

/// Source location of the call of an operation, used only in error messages and reports.
using Where = std::source_location;

/// Number of rows (indices of dimension 0) to send to each rank of the group, and to receive from each rank.
struct Splits {
  std::vector<int64_t> send, receive;
  bool operator==(const Splits&) const = default;
};

struct Operation {
  enum class Kind : uint8_t { all_reduce, reduce_scatter, all_gather, all_to_all, broadcast, send, receive, barrier };

  Kind kind;
  // `in` is undefined for all_reduce, broadcast and receive; `out` is undefined for send. A barrier has neither.
  Tensor out{}, in{};
  Reduce reduce = Reduce::sum;
  Splits splits{};
  int peer = -1;  // root of a broadcast, or the other rank of a send or receive
  Where where{};  // location of the call

  /// Throws std::logic_error, which names `group`, if tensors, splits or peer are invalid for rank `rank` of `size`
  /// ranks.
  void check(const std::string& group, int rank, int size) const;
  /// Returns the bytes that rank `rank` of `size` ranks sends to other ranks if the operation is planned as for large
  /// tensors (message_plan.h).
  int64_t wire_bytes(int rank, int size) const;
  std::string to_string() const;  // for example "all_to_all of bf16 [128, 64]"
  std::string call() const;       // for example "all_to_all of bf16 [128, 64] at moe/moe_layer.cpp:31"
  bool is_point_to_point() const { return kind == Kind::send || kind == Kind::receive; }
};

std::string_view name_of(Operation::Kind kind);
std::ostream& operator<<(std::ostream& out, const Operation& operation);
/// Returns the bytes of one row of `t`. `t` may have no rows.
int64_t row_bytes(const Tensor& t);

}  // namespace hexad::comm
