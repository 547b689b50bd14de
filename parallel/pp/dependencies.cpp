#include "parallel/pp/dependencies.h"

namespace hexad::pp {

std::optional<Parcel> needed(const StageMap& stages, int rank, const Action& action) {
  const int stage = stages.stage(rank, action.chunk);
  if (action.is_forward() && stage > 0) return Parcel{true, stage, action.micro};
  if (action.is_backward() && stage < stages.last()) return Parcel{false, stage, action.micro};
  return {};
}

std::optional<Parcel> made(const StageMap& stages, int rank, const Action& action) {
  const int stage = stages.stage(rank, action.chunk);
  if (action.is_forward() && stage < stages.last()) return Parcel{true, stage + 1, action.micro};
  if (action.is_backward() && stage > 0) return Parcel{false, stage - 1, action.micro};
  return {};
}

std::vector<Parcel> sent(const Schedule& schedule, int from, int to) {
  std::vector<Parcel> parcels;
  if (from == to) return parcels;
  for (const Action& action : schedule.ranks[static_cast<size_t>(from)])
    if (const auto parcel = made(schedule.stages, from, action))
      if (schedule.stages.place(parcel->stage).rank == to) parcels.push_back(*parcel);
  return parcels;
}

}  // namespace hexad::pp
