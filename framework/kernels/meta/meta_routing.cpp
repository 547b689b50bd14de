// Kernels of the meta device that determine how many rows go to each destination. Most of them call the CPU's kernels
// on known values.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <functional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "framework/kernels/meta/meta_kernels.h"
#include "framework/kernels/meta/meta_routing.h"

namespace hexad::kernels::meta {

using namespace tensor;
namespace {

// Returns a view of `t` for the CPU's kernels. The first element of the view is at `first_element`. `first_element` is
// null if `t` has no elements; the view then has no memory.
Tensor at(const Tensor& t, std::byte* first_element) {
  if (!first_element) return t.borrowed_at(nullptr, t.device().host());
  const int64_t offset = static_cast<std::byte*>(device_raw(t)) - DeviceAccess::begin(*t.storage());
  return t.borrowed_at(first_element - offset, t.device().host());
}

Tensor known(const char* kernel, const char* what, const Tensor& t) {
  if (!t.defined() || t.numel() == 0) return t.defined() ? at(t, nullptr) : t;
  std::byte* values = run_of(t).memory()->known(device_raw(t), t.bytes());
  require(values != nullptr, "[meta device] ", kernel, ": ", what, " ", t.shape(), " ", t.dtype(),
          " has no known values, but the host needs them; expected values from the host or from a routing kernel");
  return at(t, values);
}

Tensor result(const Tensor& t) {
  return t.numel() == 0 ? at(t, nullptr) : at(t, run_of(t).memory()->remember(device_raw(t), t.bytes()));
}

// Returns the memory of a contiguous tensor on the host, as bytes.
std::span<std::byte> contents(const Tensor& t) {
  if (t.numel() == 0) return {};
  return {static_cast<std::byte*>(t.raw()), static_cast<size_t>(t.bytes())};
}

// Writes the results of a computation on known values of `operand`, or copies kept results (see KnownResults::write()).
// `of` is a tensor on the meta device, whose run keeps the results. All other tensors are on the host.
void write_results(const Tensor& of, std::string_view kernel, std::vector<int64_t> numbers, const Tensor& operand,
                   std::span<const Tensor> results, const std::function<void()>& compute) {
  const bool flat = operand.contiguous() && std::ranges::all_of(results, &Tensor::contiguous);
  if (!flat) return compute();  // compute() throws for tensors that are not contiguous
  std::vector<std::span<std::byte>> bytes;
  for (const Tensor& result : results) bytes.push_back(contents(result));
  run_of(of).results().write({kernel, std::move(numbers), contents(operand)}, bytes, compute);
}

}  // namespace

void router_forward(Stream& stream, const Tensor& scores, const Tensor& ids, const Tensor& weights,
                    const Tensor& logits, const Tensor&, const RouterRule& rule) {
  for (const Tensor* out : {&scores, &ids, &weights}) forget(*out);
  log_issue<&KernelTable::router, &RouterKernels::forward>(
      ids, stream, device::MemoryWork{bytes_of(scores) + bytes_of(ids) + bytes_of(weights) + bytes_of(logits)});
  choose_on_meta_device(ids, rule, logits.dim(1), false);
}

// The scores are not known, so the experts choose tokens in turn. All experts then get similar numbers of tokens, and
// all tokens get similar numbers of experts. A factor above 1 counts as 1, because a token keeps at most K choices.
void choose_tokens(Stream& stream, const Tensor& ids, const Tensor& scores, const Tensor& rows, int64_t scope_tokens,
                   double factor) {
  log_issue<&KernelTable::expert_choice, &ExpertChoiceKernels::choose>(
      ids, stream, device::MemoryWork{bytes_of(ids) + bytes_of(scores)});
  const int64_t tokens = scores.dim(0), experts = scores.dim(1), top_k = ids.dim(1);
  if (ids.numel() == 0) return;
  const Tensor places = known("expert_choice", "rows", rows);
  auto* id = result(ids).data<int32_t>();
  std::fill(id, id + tokens * top_k, -1);
  std::vector<int64_t> used(tokens), in_scope;  // used: number of slots of each row that are not empty
  for (int64_t begin = 0; begin < tokens; begin += scope_tokens) {
    in_scope.clear();
    for (int64_t t = begin; t < std::min(tokens, begin + scope_tokens); ++t) {
      const int64_t row = places.defined() ? places.data<int64_t>()[t] : t;
      if (row >= 0) in_scope.push_back(row);
    }
    const auto valid = static_cast<int64_t>(in_scope.size());
    const double mean = static_cast<double>(top_k * valid) / static_cast<double>(experts);
    const int64_t choices = experts * static_cast<int64_t>(std::ceil(std::min(factor, 1.0) * mean));
    for (int64_t choice = 0; choice < choices; ++choice) {
      const int64_t row = in_scope[choice * valid / choices];
      if (used[row] < top_k) id[row * top_k + used[row]++] = static_cast<int32_t>(choice % experts);
    }
  }
}

// The scores are not known. They are treated as equal, so the earliest tokens are kept.
const CapacityKernels capacity{.drop = [](Stream& stream, const Tensor& ids, const Tensor& scores, const Tensor& rows,
                                          const Capacity& limits) {
  log_issue<&KernelTable::capacity, &CapacityKernels::drop>(ids, stream,
                                                            device::MemoryWork{bytes_of(ids) + bytes_of(scores)});
  std::vector<std::byte> alike(scores.bytes());
  const Tensor of_tokens = scores.numel() == 0 ? at(scores, nullptr) : at(scores, alike.data());
  cpu_table.capacity.drop(stream, known("capacity", "ids", ids), of_tokens, known("capacity", "rows", rows), limits);
}};

const SlotKernels slots{
    .mask =
        [](Stream& stream, const Tensor& ids, const Tensor& valid) {
          log_issue<&KernelTable::slots, &SlotKernels::mask>(ids, stream, device::MemoryWork{2 * bytes_of(ids)});
          cpu_table.slots.mask(stream, known("mask", "ids", ids), known("mask", "valid", valid));
        },
    .sort =
        [](Stream& stream, const Tensor& tokens, const Tensor& rows, const Tensor& offsets, const Tensor& ids) {
          log_issue<&KernelTable::slots, &SlotKernels::sort>(
              tokens, stream, device::MemoryWork{bytes_of(ids) + bytes_of(tokens) + bytes_of(rows)});
          const Tensor keys = known("sort", "ids", ids);
          const std::array<Tensor, 3> out{result(tokens), result(rows), result(offsets)};
          write_results(tokens, "sort", {ids.dim(1), offsets.numel()}, keys, out,
                        [&] { cpu_table.slots.sort(stream, out[0], out[1], out[2], keys); });
        },
    .keys =
        [](Stream& stream, const Tensor& keys, const Tensor& ids, const Tensor& chunk_of, int64_t experts,
           int64_t chunks) {
          log_issue<&KernelTable::slots, &SlotKernels::keys>(keys, stream,
                                                             device::MemoryWork{bytes_of(keys) + bytes_of(ids)});
          const Tensor given = known("keys", "ids", ids), of = known("keys", "chunks", chunk_of);
          std::vector<int64_t> numbers{ids.dim(0), ids.dim(1), experts, chunks};
          if (of.defined()) numbers.insert(numbers.end(), of.data<int32_t>(), of.data<int32_t>() + of.numel());
          const std::array<Tensor, 1> out{result(keys)};
          write_results(keys, "keys", std::move(numbers), given, out,
                        [&] { cpu_table.slots.keys(stream, out[0], given, of, experts, chunks); });
        },
    .iota =
        [](Stream& stream, const Tensor& out, int64_t) {
          forget(out);  // the host never needs the result
          log_issue<&KernelTable::slots, &SlotKernels::iota>(out, stream, device::MemoryWork{bytes_of(out)});
        },
};

}  // namespace hexad::kernels::meta

namespace hexad::kernels {

void choose_on_meta_device(const Tensor& ids, const RouterRule& rule, int64_t experts, bool given, int64_t layer) {
  const device::MetaRun* run = ids.device().context().meta();
  if (!run || !run->choose || ids.numel() == 0) return;
  // The ids are unknown if a router ignored the routing that the recipe fixes.
  const bool was_known = run->memory()->known(tensor::device_raw(ids), ids.bytes());
  const Tensor values = meta::result(ids);
  run->choose({values.data<int32_t>(), static_cast<size_t>(ids.numel())},
              {rule.top_k, experts, rule.groups, rule.top_groups, given && was_known, layer});
}

}  // namespace hexad::kernels
