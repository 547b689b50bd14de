// A collective as data. Groups start it, the signature check compares it, and messages name it.
#pragma once

#include <cstdint>
#include <source_location>
#include <string>
#include <vector>

#include "framework/tensor/tensor.h"

namespace hexad::comm {

using tensor::Tensor;

enum class Reduce : uint8_t { sum, max, min };

/// Place where a collective was called. Messages name it; results never depend on it.
using Where = std::source_location;

/// Numbers of rows to send to and to receive from each rank of the group, in rank order (rows of dimension 0).
struct Splits {
  std::vector<int64_t> send, receive;
  bool operator==(const Splits&) const = default;
};

struct Operation {
  enum class Kind : uint8_t { all_reduce, reduce_scatter, all_gather, all_to_all, broadcast, send, receive, barrier };

  Kind kind;
  Tensor out{}, in{};  // an operation in place has only `out`
  Reduce reduce = Reduce::sum;
  Splits splits{};
  int peer = -1;  // root of a broadcast, or the other side of send and receive
  Where where{};  // place of the call

  /// Throws std::logic_error, naming `group`, if tensors, splits and peer do not fit rank `rank` of `size`.
  void check(const std::string& group, int rank, int size) const;
  /// Returns the bytes that rank `rank` of `size` sends to other ranks.
  int64_t wire_bytes(int rank, int size) const;
  std::string to_string() const;  // "all_to_all of bf16 [128, 64]"
  std::string call() const;       // "all_to_all of bf16 [128, 64] at moe/moe_layer.cpp:31"
  bool is_point_to_point() const { return kind == Kind::send || kind == Kind::receive; }
};

std::string_view name_of(Operation::Kind kind);
/// Returns the bytes of one row, even if the tensor has no rows.
int64_t row_bytes(const Tensor& t);

}  // namespace hexad::comm
