// Blocks of a model that a meta device records once and then repeats, because they are equal.
#pragma once

#include <array>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "framework/device/meta/issue_part.h"
#include "layers/block_runner.h"
#include "parallel/pp/parameter_calls.h"
#include "tools/train/model/model_instance.h"

namespace hexad::train {

using autograd::Parameter;
using autograd::Replay;
using autograd::Tape;
using autograd::Value;

/// Repeats equal blocks of a rank in training passes on a meta device. Blocks of a virtual stage are equal if they have
/// the same kind (ModelConfig::kind_of()) and the same parameters. The first and the last block of a virtual stage
/// always run. The input of the first block and the output gradient of the last block do not come from blocks of the
/// stage. Among the other equal blocks, the first and the last block run once and are recorded. Forwards use the
/// recording of the first block until all recordings are complete. Later forwards, and all backwards, use the recording
/// of the last block. In a step's first micro-batch, contributions to a gradient replace the gradient's old value. This
/// micro-batch therefore has a separate recording, and all other micro-batches share one recording.
///
/// A repeated block makes no tensors. It makes the recorded block's calls to the log if the log is not paused. With
/// Memory::counted, it changes the memory in use as the recorded block did. A block's input and output have equal
/// sizes. A repeated block therefore returns its input as output, and its backward returns the gradient of the output.
/// Its calls to the storage of parameters are made for its own parameters (pp::ParameterCalls).
///
/// The step's log equals the log of a step that runs all blocks if equal blocks make the same calls in all
/// micro-batches. Only the forwards of the first and the last recorded block are compared. Calls are not equal if the
/// experts of tokens differ between layers or micro-batches, or if passes run as fibers. Calls also differ if backward
/// delays weight gradients only in some micro-batches. With Memory::counted, the step also has the same peaks of memory
/// under ZeRO-0 and ZeRO-1. Under ZeRO-2 and ZeRO-3, the peaks may differ. There, the first contribution to a bucket
/// allocates memory for gradients, and the buckets of equal blocks may begin with different parameters.
class RepeatedLayers final : public layers::BlockRunner {
 public:
  /// counted: repeated blocks change the memory in use. ignored: they do not.
  enum class Memory : uint8_t { counted, ignored };
  /// Keeps references to `log` and `recorder`, which must outlive the object. `recorder` must get the contributions of
  /// all passes to gradients.
  RepeatedLayers(device::IssueLog& log, pp::ParameterRecorder& recorder, ModelInstance& instance, Memory memory);

  /// Sets the function that reports the contribution of a repeated block to the gradient of a parameter.
  void report_to(std::function<void(Parameter&)> report) { report_ = std::move(report); }
  /// Begins the forward of a micro-batch.
  void begin(int micro) { micro_ = micro; }
  layers::Block::Output run(int64_t layer, Tape& t, const Value& x, const RunBlock& block) override;

  /// True if repetition saves much work. Adds the number of blocks that run in a recording micro-batch and the number
  /// of blocks that run in a repeating micro-batch. The sum must be less than the number of the rank's blocks.
  bool repeat_most() const;
  /// Returns the number of forwards that were repeated instead of run.
  int64_t repeated() const { return repeated_; }
  /// True if a block was repeated although its recording is unusable. The steps so far are then invalid. A recording is
  /// unusable in these cases:
  /// - It waits for work of other blocks.
  /// - The forwards of two equal blocks differ.
  /// - The recorded block does not free the memory that this class expects it to free.
  /// - A repetition contributes to gradients in another mode (replace or add).
  bool failed() const { return failed_; }

 private:
  struct Recorded {
    device::IssuePart part;
    std::optional<pp::ParameterCalls> parameters{};
    /// True if the part can be repeated after `earlier`, the earlier parts of the same block.
    bool usable_after(std::initializer_list<const device::IssuePart*> earlier) const;
  };
  struct Losses {  // auxiliary losses of a block
    base::Dtype dtype;
    int64_t bytes;
    device::Category category;
  };
  struct Forward {
    Recorded recorded;
    int64_t layer = -1;
    int64_t input_bytes = 0;
    bool releases_input = false;  // true if the block keeps no handle of its input
    bool usable = false;
    std::optional<Losses> losses{};
  };
  enum class State : uint8_t { none, recording, complete, unusable };
  // Recording of equal blocks for one micro-batch.
  struct Variant {
    State state = State::none;
    int micro = 0;                              // micro-batch that is recorded
    bool repeats_early = false;                 // true if a block was repeated while the recording was not complete
    Forward first, last;                        // `first`: used until the recording is complete
    Recorded backward, weights;                 // recordings of the last block
    bool has_backward = false, delays = false;  // `backward` is recorded; `backward` delays weight gradients
  };
  // Equal blocks of a virtual stage.
  struct Group {
    int64_t first, last;
    std::array<Variant, 2> variants;  // variants of the first micro-batch and of all other micro-batches
  };
  using Parts = std::vector<device::RepeatedPart>;

  void group_blocks(ModelInstance& instance);
  std::span<Parameter* const> parameters_of(int64_t layer) const { return parameters_[layer]; }
  void open(Recorded& recorded, std::span<Parameter* const> used);
  void close(Recorded& recorded);
  layers::Block::Output record(Forward& forward, int64_t layer, const Value& x, const RunBlock& block);
  layers::Block::Output record_last(Group& group, Variant& variant, Tape& t, const Value& x, const RunBlock& block);
  bool has_balanced_memory(const Variant& variant) const;
  bool has_equal_forwards(const Variant& variant) const;
  void end_backward(Variant& variant, Replay& replay);
  void finish(Variant& variant, bool usable);
  layers::Block::Output repeat(Group& group, Variant& variant, Forward& forward, int64_t layer, Tape& t,
                               const Value& x);
  void repeat_backward(Group& group, Variant& variant, int64_t layer, const std::shared_ptr<Parts>& parts,
                       Replay& replay);
  device::RepeatedPart repeat(Recorded& recorded, const Parts& earlier, int64_t from, int64_t layer);

  device::IssueLog& log_;
  pp::ParameterRecorder& recorder_;
  device::DeviceContext& context_;
  const bool counts_memory_;
  std::vector<std::vector<Parameter*>> parameters_;        // parameters of each layer; empty: on another rank
  std::unordered_map<const Parameter*, size_t> place_of_;  // index of a parameter in its layer
  std::vector<std::unique_ptr<Group>> groups_;
  std::vector<Group*> group_of_;  // group of each layer; null: the layer always runs
  std::function<void(Parameter&)> report_;
  int micro_ = 0;
  int64_t repeated_ = 0;
  bool failed_ = false;
};

}  // namespace hexad::train
