#include "tools/train/model/repeated_layers.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <string_view>
#include <utility>

#include "framework/device/meta/meta_allocator.h"

namespace hexad::train {

using base::cat;
using device::MetaAllocator;
using layers::Block;
using tensor::Storage;
using tensor::Tensor;

namespace {

std::string prefix_of(int64_t layer) { return cat("layers.", layer); }

// Returns the layer of a parameter's name, such as 3 for "layers.3.attention.q.weight"; -1 if it is in no layer.
int64_t layer_of(std::string_view name) {
  constexpr std::string_view prefix = "layers.";
  if (!name.starts_with(prefix)) return -1;
  int64_t layer = -1;
  const auto [end, error] = std::from_chars(name.data() + prefix.size(), name.data() + name.size(), layer);
  return error == std::errc() && end != name.data() + name.size() && *end == '.' ? layer : -1;
}

// Returns a text that is equal for parameters that differ only in their layer.
std::string description(const Parameter& p, int64_t layer) {
  return cat(p.name().substr(prefix_of(layer).size()), ' ', p.shape(), ' ', p.dtype(), ' ', p.trainable());
}

// Returns the allocator of a meta device's memory.
MetaAllocator& allocator_of(device::DeviceContext& context) {
  auto* const allocator = dynamic_cast<MetaAllocator*>(context.allocator().get());
  base::require(allocator != nullptr, "[repeated layers] the context is on device ", device::name_of(context.kind()),
                "; expected a meta device");
  return *allocator;
}

}  // namespace

bool RepeatedLayers::Recorded::usable_after(std::initializer_list<const device::IssuePart*> earlier) const {
  return parameters && parameters->repeatable() && part.repeatable_after({earlier.begin(), earlier.size()});
}

RepeatedLayers::RepeatedLayers(device::IssueLog& log, pp::ParameterRecorder& recorder, ModelInstance& instance,
                               Memory memory)
    : log_(log), recorder_(recorder), context_(instance.context), counts_memory_(memory == Memory::counted) {
  const int64_t count = instance.model.config().layers;
  parameters_.resize(count);
  group_of_.resize(count);
  for (const auto& p : instance.parameters)
    if (const int64_t layer = layer_of(p->name()); layer >= 0 && layer < count) {
      place_of_[p.get()] = parameters_[layer].size();
      parameters_[layer].push_back(p.get());
    }
  group_blocks(instance);
}

void RepeatedLayers::group_blocks(ModelInstance& instance) {
  for (const layers::ModelPart& part : instance.model.parts()) {
    std::map<std::vector<std::string>, Group*> equal;
    for (int64_t layer = part.begin + 1; layer + 1 < part.end; ++layer) {
      std::vector<std::string> kind;
      for (const int64_t n : instance.model.config().kind_of(layer)) kind.push_back(std::to_string(n));
      for (const Parameter* p : parameters_of(layer)) kind.push_back(description(*p, layer));
      Group*& group = equal[std::move(kind)];
      if (!group) group = groups_.emplace_back(std::make_unique<Group>()).get(), group->first = layer;
      group->last = layer;
      group_of_[layer] = group;
    }
  }
}

bool RepeatedLayers::repeat_most() const {
  std::map<const Group*, int64_t> sizes;
  int64_t layers_of_rank = 0, repeated = 0, while_recording = 0;
  for (const std::vector<Parameter*>& parameters : parameters_) layers_of_rank += parameters.empty() ? 0 : 1;
  for (const Group* group : group_of_)
    if (group) ++sizes[group];
  for (const auto& [group, size] : sizes) repeated += size, while_recording += std::max<int64_t>(0, size - 2);
  return repeated + while_recording > layers_of_rank;
}

void RepeatedLayers::open(Recorded& recorded, std::span<Parameter* const> used) {
  recorded.part = {};
  recorded.part.counts_memory = counts_memory_;
  recorder_.open(recorded.parameters.emplace(log_, used));
  log_.start_part(recorded.part);
}

void RepeatedLayers::close(Recorded& recorded) {
  log_.end_part();
  recorder_.close();
  recorded.parameters->end(recorded.part);
}

Block::Output RepeatedLayers::run(int64_t layer, Tape& t, const Value& x, const RunBlock& block) {
  Group* const group = group_of_[layer];
  if (!group || !x.wants_gradient() || t.mode() != Tape::Mode::record) return block();
  Variant& variant = group->variants[micro_ == 0 ? 0 : 1];
  if (variant.state == State::complete) return repeat(*group, variant, variant.last, layer, t, x);
  // A part of a pass that is being recorded can contain repeated blocks, but no recording of a block.
  if (variant.state == State::none && layer == group->first && !log_.records_part())
    variant.state = State::recording, variant.micro = micro_;
  if (variant.state != State::recording) return block();
  if (variant.micro == micro_ && layer == group->last) return record_last(*group, variant, t, x, block);
  if (variant.micro == micro_ && layer == group->first) return record(variant.first, layer, x, block);
  // Repeats the forward before the backward is recorded. This is safe, because the recorded block runs its backward
  // before this block does: backward begins with later layers and earlier micro-batches.
  Forward& forward = group->first == group->last ? variant.last : variant.first;
  if (!forward.usable) return block();
  variant.repeats_early = true;
  return repeat(*group, variant, forward, layer, t, x);
}

// Runs and records the forward of a block.
Block::Output RepeatedLayers::record(Forward& forward, int64_t layer, const Value& x, const RunBlock& block) {
  const std::shared_ptr<Storage>& input = x.data.storage();
  const auto holders = input.use_count();
  const device::Category category = input->category();
  open(forward.recorded, {});
  Block::Output out = block();
  close(forward.recorded);
  forward.layer = layer;
  forward.input_bytes = input->bytes();
  forward.releases_input = input.use_count() == holders;
  const Storage& output = *out.x.data.storage();
  const bool stands_for_output = x.data.bytes() == input->bytes() && output.bytes() == input->bytes() &&
                                 output.category() == category && out.x.data.sole_owner();
  forward.usable = (stands_for_output || !counts_memory_) && forward.recorded.usable_after({});
  if (const Tensor& losses = out.aux_losses.data; losses.defined())
    forward.losses = Losses{losses.dtype(), losses.storage()->bytes(), losses.storage()->category()};
  return out;
}

// Runs the last block of a group and records its forward. The backward is recorded when it runs.
Block::Output RepeatedLayers::record_last(Group& group, Variant& variant, Tape& t, const Value& x,
                                          const RunBlock& block) {
  t.at_backward([this, &variant](Replay& replay) { end_backward(variant, replay); });
  Block::Output out = record(variant.last, group.last, x, block);
  t.at_backward([this, &group, &variant](Replay& replay) {
    open(variant.backward, parameters_of(group.last));
    variant.delays = replay.weights_delayed();
    if (variant.delays)
      replay.between_weights([this, &group, &variant] { open(variant.weights, parameters_of(group.last)); });
  });
  return out;
}

// True if the recorded block frees as much memory as it allocates. Does not count the block's losses. If the block
// keeps no handle of its input, another holder frees the input outside of the recording. In this case, also does not
// count the block's output, which has the size of the input.
bool RepeatedLayers::has_balanced_memory(const Variant& variant) const {
  std::map<const MetaAllocator*, int64_t> more;
  const Forward& forward = variant.last;
  for (const device::IssuePart* part : {&forward.recorded.part, &variant.backward.part, &variant.weights.part})
    for (const device::IssuePart::Call& call : part->calls)
      if (const auto* memory = std::get_if<device::IssuePart::Memory>(&call); memory && memory->change.block)
        more[memory->allocator] += memory->change.bytes;
  more[&allocator_of(context_)] -=
      (forward.losses ? forward.losses->bytes : 0) + (forward.releases_input ? forward.input_bytes : 0);
  return std::ranges::all_of(more, [](const auto& of) { return of.second == 0; });
}

// True if the forwards of the first and the last block made the same calls. Either recording can then be used for both
// blocks.
bool RepeatedLayers::has_equal_forwards(const Variant& variant) const {
  const Forward &first = variant.first, &last = variant.last;
  if (first.layer < 0) return true;  // the group has one block
  return first.usable && first.releases_input == last.releases_input &&
         first.recorded.part.same_calls(last.recorded.part);
}

void RepeatedLayers::end_backward(Variant& variant, Replay& replay) {
  close(variant.backward);
  variant.has_backward = true;
  const device::IssuePart *forward = &variant.last.recorded.part, *backward = &variant.backward.part;
  const bool usable = variant.last.usable && has_equal_forwards(variant) && variant.backward.usable_after({forward});
  if (!usable || !variant.delays) finish(variant, usable);
  if (!variant.delays) return;
  replay.between_weights([this, &variant, usable, forward, backward] {
    close(variant.weights);
    finish(variant, usable && variant.weights.usable_after({forward, backward}));
  });
}

void RepeatedLayers::finish(Variant& variant, bool usable) {
  usable = usable && (!counts_memory_ || has_balanced_memory(variant));
  variant.state = usable ? State::complete : State::unusable;
  failed_ = failed_ || (!usable && variant.repeats_early);
}

// Repeats a recorded part of block `from` for block `layer`.
device::RepeatedPart RepeatedLayers::repeat(Recorded& recorded, const Parts& earlier, int64_t from, int64_t layer) {
  const pp::ParameterCalls::Counterpart counterpart = [this, layer](Parameter& p) -> Parameter& {
    return *parameters_[layer][place_of_.at(&p)];
  };
  pp::ParameterCalls& parameters = *recorded.parameters;
  failed_ = failed_ || parameters.other_gradient(counterpart) != nullptr;
  device::RepeatedPart repeated = log_.repeat(
      recorded.part, earlier, [&](size_t number) { return parameters.repeat(number, recorder_, report_, counterpart); },
      {prefix_of(from), prefix_of(layer)});
  parameters.end_repetition(counterpart);
  return repeated;
}

Block::Output RepeatedLayers::repeat(Group& group, Variant& variant, Forward& forward, int64_t layer, Tape& t,
                                     const Value& x) {
  ++repeated_;
  const auto parts = std::make_shared<Parts>();
  parts->push_back(repeat(forward.recorded, {}, forward.layer, layer));
  t.count_uses(parameters_of(layer));
  const Storage& input = *x.data.storage();
  if (counts_memory_ && forward.releases_input)
    allocator_of(context_).count_change({-input.bytes(), input.category(), true});
  Block::Output out{x, {}};
  if (const std::optional<Losses>& losses = forward.losses) {
    // The repeated calls have already counted the memory of this tensor.
    if (counts_memory_) allocator_of(context_).count_change({-losses->bytes, losses->category, true});
    out.aux_losses = t.leaf(Tensor::empty({1}, losses->dtype, context_, losses->category));
  }
  t.at_backward([this, &group, &variant, layer, parts, leaf = out.aux_losses.id](Replay& replay) {
    if (leaf >= 0) replay.take_gradient({{}, leaf});
    repeat_backward(group, variant, layer, parts, replay);
  });
  return out;
}

// Repeats the backward of a block. If the recording is unusable or incomplete, the block contributes nothing to
// gradients, and failed() returns true from then on. The step still ends.
void RepeatedLayers::repeat_backward(Group& group, Variant& variant, int64_t layer, const std::shared_ptr<Parts>& parts,
                                     Replay& replay) {
  if (variant.state == State::unusable || !variant.has_backward) return void(failed_ = true);
  parts->front().part = &variant.last.recorded.part;  // equal to the part of the first block (has_equal_forwards())
  parts->push_back(repeat(variant.backward, *parts, group.last, layer));
  if (!variant.delays) return;
  replay.between_weights([this, &group, &variant, layer, parts] {
    if (variant.state != State::complete) return void(failed_ = true);
    repeat(variant.weights, *parts, group.last, layer);
  });
}

}  // namespace hexad::train
