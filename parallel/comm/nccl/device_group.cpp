#include "parallel/comm/device_group.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "framework/device/cuda/cuda_check.h"
#include "framework/device/cuda/cuda_stream.h"
#include "framework/device/cuda/thread_card.h"
#include "parallel/comm/card_messages.h"
#include "parallel/comm/nccl/nccl_group.h"

namespace hexad::comm {

using namespace base;
namespace {

using device::DeviceContext;
using device::DeviceKind;
using device::cuda::check;

// Returns the card's unique id, as two numbers.
std::array<int64_t, 2> card_of(DeviceContext& context) {
  const cudaUUID_t id = device::cuda::cuda_stream(context.compute()).card().properties().uuid;
  std::array<int64_t, 2> words{};
  std::memcpy(words.data(), id.bytes, sizeof words);
  return words;
}

// Returns two ranks that share a card; nullopt if there are none.
std::optional<std::pair<int, int>> sharers(const ProcessGroup& world, DeviceContext& context) {
  const std::vector<int64_t> cards = world.all_gather_values(card_of(context), context);
  const auto same = [&](int a, int b) { return cards[2 * a] == cards[2 * b] && cards[2 * a + 1] == cards[2 * b + 1]; };
  for (int a = 0; a < world.size(); ++a)
    for (int b = a + 1; b < world.size(); ++b)
      if (same(a, b)) return std::pair(a, b);
  return {};
}

ncclUniqueId unique_id(const nccl::Library& nccl, const ProcessGroup& world, DeviceContext& context) {
  ncclUniqueId id{};
  if (world.rank() == 0) nccl::check(nccl, nccl.get_unique_id(&id), "making an id for the job's ranks");
  std::array<int64_t, sizeof id / sizeof(int64_t)> words;
  std::memcpy(words.data(), &id, sizeof id);
  const std::vector<int64_t> all = world.all_gather_values(words, context);
  std::memcpy(&id, all.data(), sizeof id);  // the first id in `all` is the id of rank 0
  return id;
}

// Returns the library if all ranks can load it. Otherwise, writes the reason to `why` and returns null on all ranks,
// because ranks with the library would wait for ranks without it.
const nccl::Library* library_of_all(const ProcessGroup& world, DeviceContext& context, std::string& why) {
  const nccl::Library* library = nullptr;
  try {
    library = &nccl::library();
  } catch (const Error& e) {
    why = e.what();
  }
  if (!world.any(!library, context)) return library;
  if (why.empty()) why = "other ranks cannot load NCCL";
  return nullptr;
}

// Returns the value of NCCL_LAUNCH_ORDER_IMPLICIT if it is enabled: a card then begins operations of all streams in the
// order of their launches. Like NCCL, treats every number except 0 as enabled.
std::optional<std::string> launch_order() {
  const char* text = std::getenv("NCCL_LAUNCH_ORDER_IMPLICIT");
  if (!text || std::strtoll(text, nullptr, 0) == 0) return {};
  return text;
}

}  // namespace

std::unique_ptr<ProcessGroup> make_device_group(const ProcessGroup& world, DeviceContext& context,
                                                const DeviceGroupOptions& options) {
  if (world.size() == 1 || options.collectives == DeviceCollectives::host) return nullptr;
  const bool demanded = options.collectives == DeviceCollectives::nccl;
  const auto say = [&](const std::string& text) {
    if (options.info && world.rank() == 0) options.info(text);
  };
  const auto without = [&](const std::string& why) -> std::unique_ptr<ProcessGroup> {
    if (demanded)
      fail(ExitCode::resource, "distributed.device_collectives: nccl is not available: ", why, "; use auto or host");
    auto messages = make_card_messages(world, context);
    say(cat("card tensors are sent between ranks ",
            messages ? "by MPI directly from card memory (for sums: through host memory), because NCCL cannot be used"
                     : "through host memory, because there is no CUDA-aware MPI and NCCL cannot be used",
            ": ", why, options.register_buffers ? "; no buffers are registered" : ""));
    return messages;
  };
  if (context.kind() != DeviceKind::cuda)
    return demanded ? without(cat("device: ", name_of(context.kind()), " is not a card")) : nullptr;
  if (const auto two = sharers(world, context))
    return without(cat("ranks ", two->first, " and ", two->second, " share a card, which NCCL does not support"));
  std::string why;
  const nccl::Library* library = library_of_all(world, context, why);
  if (!library) return without(why);

  DeviceGroupOptions complete = options;
  if (!complete.on_failure)
    complete.on_failure = [&world](const Error& e) {
      std::fprintf(stderr, "hexad: %s\n", e.what());
      world.abort_job(e.code());
    };
  const device::cuda::CudaStream& compute = device::cuda::cuda_stream(context.compute());
  context.keep_host_memory();
  // Uses the smallest limit of all ranks, because ranks may have different cards.
  const int limit = static_cast<int>(world.all_reduce_value(
      nccl::max_ctas_of(options.groups, compute.card().multiprocessors()), Reduce::min, context));
  const auto card =
      std::make_shared<nccl::CardRank>(*library, compute, context.allocator(), world.rank(), complete, limit);
  const ncclUniqueId id = unique_id(*library, world, context);
  device::cuda::use_card(card->ordinal());  // NCCL uses the calling thread's current card
  auto communicator = std::make_unique<nccl::Communicator>(
      *card, id, world.size(), world.rank(),
      card->named(nccl::config_of({.traffic = world.traffic()}), world.traffic(), world.name()));
  device::cuda::Card& products = device::cuda::cuda_stream(context.compute()).card();
  // The reserve is limited, because it slows products at all times. Without a reserve, products that wait for
  // multiprocessors take at most twice as long, and only while there is traffic.
  if (!options.beside_products.empty())
    products.reserve(
        std::min(nccl::multiprocessors_of(options.beside_products, limit), products.multiprocessors() / 4));
  int version = 0;
  nccl::check(*library, library->get_version(&version), "querying the version");
  say(cat("cards communicate through NCCL ", version / 10000, ".", version / 100 % 100, ".", version % 100,
          options.register_buffers ? ", in registered buffers of gradients and parameters" : "",
          products.reserved() ? cat("; GEMMs leave ", products.reserved(), " of ", products.multiprocessors(),
                                    " multiprocessors to NCCL")
                              : ""));
  if (const auto order = launch_order(); order && options.warn && world.rank() == 0)
    options.warn(cat("NCCL_LAUNCH_ORDER_IMPLICIT (", *order,
                     ") must be 0 or unset: a message that waits for its receiver holds back all later operations of "
                     "its card, so ranks may wait for each other forever"));
  return std::make_unique<nccl::NcclGroup>(card, world, nullptr, std::move(communicator), Urgency::ordinary);
}

std::optional<ConnectionMemory> connection_memory(const ProcessGroup& cards) {
  const auto* group = dynamic_cast<const nccl::NcclGroup*>(&cards);
  return group ? std::optional(group->memory()) : std::nullopt;
}

}  // namespace hexad::comm
