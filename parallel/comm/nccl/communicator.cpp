#include "parallel/comm/nccl/communicator.h"

#include <exception>

namespace hexad::comm::nccl {

using namespace base;
namespace {

// Returns `config` as NCCL's structure. `name` must outlive the communicator.
ncclConfig_t nccl_config(const CommunicatorConfig& config, const std::string& name) {
  ncclConfig_t c = NCCL_CONFIG_INITIALIZER;
  c.blocking = 1;  // non-blocking communicators start a thread for every launch
  // Communicators do not share resources, because several may have operations in flight at the same time.
  c.splitShare = 0;
  c.minCTAs = config.min_ctas, c.maxCTAs = config.max_ctas;
  c.commName = name.c_str();
  if (config.network_class) c.trafficClass = *config.network_class;
  return c;
}

}  // namespace

Communicator::Communicator(CardRank& card, const ncclUniqueId& id, int size, int rank, const CommunicatorConfig& config)
    : card_(card), name_(std::make_unique<const std::string>(config.name)), exceptions_(std::uncaught_exceptions()) {
  const Library& nccl = card_.library();
  const Watch::HostCall call(card_.watch(), cat("making the communicator ", *name_, " of ", size, " ranks"));
  ncclConfig_t c = nccl_config(config, *name_);
  take_memory(0, [&] {
    check(nccl, nccl.comm_init_rank_config(&handle_, size, id, rank, &c), "making communicator " + *name_);
  });
  card_.watch().take(handle_);
  card_.communicator_made();
  registered_ = Registered::make(card_, handle_, *name_);
}

Communicator::Communicator(CardRank& card, ncclComm_t handle, Name name, int64_t bytes)
    : card_(card), name_(std::move(name)), exceptions_(std::uncaught_exceptions()), handle_(handle), bytes_(bytes) {
  card_.watch().take(handle_);
  card_.communicator_made();
  registered_ = Registered::make(card_, handle_, *name_);
}

std::unique_ptr<Communicator> Communicator::split(std::optional<int> color, int key,
                                                  const CommunicatorConfig& config) const {
  const Library& nccl = card_.library();
  const Watch::HostCall call(card_.watch(), cat("splitting ", config.name, " from communicator ", *name_));
  Name name = std::make_unique<const std::string>(config.name);
  ncclConfig_t c = nccl_config(config, *name);
  ncclComm_t made = nullptr;
  const int64_t bytes = card_.memory_taken(config.name, 0, [&] {
    check(nccl, nccl.comm_split(handle_, color.value_or(NCCL_SPLIT_NOCOLOR), key, &made, &c),
          cat("splitting ", config.name, " from communicator ", *name_));
  });
  if (!made) return nullptr;
  return std::unique_ptr<Communicator>(new Communicator(card_, made, std::move(name), bytes));
}

Communicator::~Communicator() {
  end();
  card_.memory_given_back(bytes_);
  card_.communicator_ended();
}

void Communicator::end() {
  const Library& nccl = card_.library();
  try {
    if (std::uncaught_exceptions() == exceptions_) {
      const Watch::HostCall call(card_.watch(), cat("ending the communicator ", *name_));
      if (registered_) registered_->end();
      check(nccl, nccl.comm_finalize(handle_), "ending communicator " + *name_);
      if (card_.watch().release(handle_)) static_cast<void>(nccl.comm_destroy(handle_));
      return;
    }
  } catch (...) {
    // Ignores the error, because the operation that failed has already reported it.
  }
  if (registered_) registered_->forget();
  if (card_.watch().release(handle_)) static_cast<void>(nccl.comm_abort(handle_));
}

}  // namespace hexad::comm::nccl
