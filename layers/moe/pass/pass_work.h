// What the tasks of a pass do with rows.
#pragma once

#include "layers/moe/pass/row_format.h"

namespace hexad::moe {

/// One way of doing a pass; MoePass says which of these it has, and its graph when, on which lane and at what cost they
/// run. What a pass does not have is not called.
class PassWork {
 public:
  virtual ~PassWork() = default;
  /// B: this rank's tokens become those of all that gather.
  virtual void gather(Stream& s);
  /// Pi: what is sent.
  virtual RowSource pack(Stream& s, size_t chunk) = 0;
  /// P'i: the inputs that are sent again, for the experts to have T_DI beside the rows of `pack`.
  virtual RowSource pack_inputs(Stream& s, size_t chunk);
  /// Fi: brings back what offload() moved away.
  virtual void fetch(Stream& s, size_t chunk);
  /// Ci: rows [C, D] as they are grouped to results [C, D]; chunk 0 when all are computed together. `inputs`: T_DI,
  /// where it was sent again.
  virtual Rows compute(Stream& s, size_t chunk, Rows rows, Tensor inputs) = 0;
  /// Oi.
  virtual void offload(Stream& s, size_t chunk);
  /// Wi; once after compute().
  virtual void weight_gradients(Stream& s, size_t chunk);
  /// Li of a bounded pass: takes the slot rows of a chunk.
  virtual void accept(Stream& s, size_t chunk, Rows slots);
};

}  // namespace hexad::moe
