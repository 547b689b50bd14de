#include "parallel/ep/received.h"

#include <utility>

#include "framework/base/counted.h"

namespace hexad::ep {
namespace {

template <class... Parts>
[[noreturn]] void refuse(int64_t rank, const comm::ProcessGroup& group, const Parts&... parts) {
  base::fail(base::ExitCode::communication, "routing: rank ", rank, " of group ", group.name(), " sent ", parts...);
}

}  // namespace

void check_gathered_ids(const Tensor& ids, int64_t experts, const comm::ProcessGroup& group) {
  const int64_t of_rank = ids.numel() / group.size(), top_k = ids.dim(1);
  const int32_t* id = ids.data<int32_t>();
  for (int64_t i = 0; i < ids.numel(); ++i)
    if (id[i] < -1 || id[i] >= experts)
      refuse(i / of_rank, group, "expert ", id[i], " for slot ", i % of_rank % top_k, " of its row ",
             i % of_rank / top_k, "; expected 0 .. ", experts - 1, ", or -1 for a dropped slot");
}

std::vector<int64_t> counts_message(std::span<const int64_t> ends, int rank, const comm::ProcessGroup& group) {
  const auto ends_of_experts = ends.first(ends.size() - 1);
  const int64_t slots = ends_of_experts.back(), wrong = ends.back() - slots;
  if (wrong != 0)
    refuse(rank, group, "counts that include ", base::counted(wrong, "id"), " of no expert; expected none");
  std::vector<int64_t> message;
  int64_t begin = 0;
  for (const int64_t end : ends_of_experts) message.push_back(end - std::exchange(begin, end));
  message.push_back(slots);
  return message;
}

void CountsMessage::check(std::span<const int64_t> message, int rank, const comm::ProcessGroup& group) const {
  const int64_t all = message.back(), local = experts / ranks;
  int64_t sum = 0;
  for (int64_t c = 0; c < chunks; ++c)
    for (int64_t to = 0; to < ranks; ++to) {
      int64_t slots = 0;
      for (int64_t e = to * local; e < (to + 1) * local; ++e) {
        const int64_t n = message[c * experts + e];
        if (n < 0 || n > all - sum)
          refuse(rank, group, "the count ", n, " of slots for expert ", e, " in chunk ", c, "; expected 0 .. ",
                 all - sum, ", because ", sum, " of its ", all, " slots are counted already");
        sum += n, slots += n;
      }
      if (slots_per_row == 0 || joined) continue;
      const int64_t rows = message[chunks * experts + c * ranks + to];
      const int64_t fewest = (slots + slots_per_row - 1) / slots_per_row;
      if (rows < fewest || rows > slots)
        refuse(rank, group, "the count ", rows, " of rows for rank ", to, " in chunk ", c, "; expected ", fewest,
               " .. ", slots, " for its ", base::counted(slots, "slot"));
    }
  if (sum != all)
    refuse(rank, group, "counts of slots by expert that add up to ", sum, "; expected ", all, ", its number of slots");
  if (joined) check_joined(message, rank, group);
}

// Checks the counts of joined rows. A joined row is counted in the chunk in which it is sent, and in the chunk in which
// it returns. Each count is at most the number of slots in its chunk, because every counted row has a slot in that
// chunk.
void CountsMessage::check_joined(std::span<const int64_t> message, int rank, const comm::ProcessGroup& group) const {
  const int64_t local = experts / ranks;
  for (int64_t to = 0; to < ranks; ++to) {
    int64_t slots = 0, sent = 0, returned = 0;
    for (int64_t c = 0; c < chunks; ++c) {
      int64_t of_chunk = 0;
      for (int64_t e = to * local; e < (to + 1) * local; ++e) of_chunk += message[c * experts + e];
      for (const bool back : {false, true}) {
        const int64_t rows = message[chunks * (experts + (back ? ranks : 0)) + c * ranks + to];
        if (rows < 0 || rows > of_chunk)
          refuse(rank, group, "the count ", rows, " of rows ", back ? "from" : "for", " rank ", to, " in chunk ", c,
                 "; expected 0 .. ", of_chunk, " for its ", base::counted(of_chunk, "slot"));
        (back ? returned : sent) += rows;
      }
      slots += of_chunk;
    }
    const int64_t fewest = (slots + slots_per_row - 1) / slots_per_row;
    if (sent != returned || sent < fewest)
      refuse(rank, group, "counts of ", base::counted(sent, "row"), " for rank ", to, " and of ",
             base::counted(returned, "row"), " for the return; expected equal counts of ", fewest, " .. ", slots,
             " rows, for ", base::counted(slots, "slot"));
  }
}

void check_row_experts(std::span<const int32_t> experts, int64_t width, std::span<const int64_t> slots, int rank,
                       const comm::ProcessGroup& group) {
  const auto local = static_cast<int64_t>(slots.size());
  std::vector<int64_t> left(slots.begin(), slots.end());
  for (size_t i = 0; i < experts.size(); ++i) {
    const int32_t e = experts[i];
    const int64_t row = static_cast<int64_t>(i) / width;
    const bool first = static_cast<int64_t>(i) % width == 0;
    if (e < -1 || e >= local)
      refuse(rank, group, "local expert ", e, " for row ", row, "; expected 0 .. ", local - 1,
             ", or -1 after its last expert");
    if (e < 0 && first) refuse(rank, group, "no expert for row ", row, "; expected at least one");
    if (e >= 0 && !first && experts[i - 1] < 0)
      refuse(rank, group, "local expert ", e, " for row ", row, " after its last expert; expected -1");
    if (e >= 0 && --left[e] < 0)
      refuse(rank, group, "local expert ", e, " for row ", row, ", one row too many; expected ",
             base::counted(slots[e], "row"), ", as in its counts");
  }
  for (size_t e = 0; e < left.size(); ++e)
    if (left[e] > 0)
      refuse(rank, group, "local expert ", e, " for ", base::counted(slots[e] - left[e], "row"), "; expected ",
             base::counted(slots[e], "row"), ", as in its counts");
}

void check_joined_rows(std::span<const int64_t> listed, std::span<const int64_t> counted, bool returning, int rank,
                       const comm::ProcessGroup& group) {
  for (size_t c = 0; c < listed.size(); ++c)
    if (listed[c] != counted[c])
      refuse(rank, group, "experts of ", base::counted(listed[c], "row"), returning ? " returned" : " sent",
             " in chunk ", c, "; expected ", base::counted(counted[c], "row"), ", as in its counts");
}

}  // namespace hexad::ep
