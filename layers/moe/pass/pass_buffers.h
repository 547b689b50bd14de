// What is on its way in a pass, and what has come of it.
#pragma once

#include <utility>
#include <vector>

#include "layers/moe/pass/row_format.h"

namespace hexad::moe {

/// Rows on their way to the experts: in the one tensor or in the other.
struct DispatchBuffer {
  Tensor sent;  // as they travel
  Rows rows;    // as they are computed, grouped by expert

  /// For the experts. Rows that arrive as they are computed were never copied.
  Rows take() {
    if (sent.defined()) rows = {std::exchange(sent, {})};
    return std::exchange(rows, {});
  }
};

/// Filled and emptied by the tasks of one pass.
struct PassBuffers {
  struct Chunk {
    DispatchBuffer rows, inputs;  // T_DI or gradients of T_DO; T_DI that is sent again
    Tensor row_weights;           // of the slots of rows of tokens, where the pass weighs
    Rows results;                 // T_DO or gradients of T_DI
    Tensor returning;             // as they are sent
  };
  std::vector<Chunk> chunks{};
  Rows together{};  // of all chunks, where they are computed at once: rows, then results

  Tensor returned{};              // [S, D]: slot rows, unless the pass is bounded
  Tensor returned_row_weights{};  // [S, M X]: and X row weights for each of their slots
  Tensor collected{};             // rows of the pass's RowCollection, chunk by chunk, in each by rank
};

}  // namespace hexad::moe
