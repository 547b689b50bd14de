#include "parallel/comm/mpi_transport.h"

#include <mpi.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <climits>
#include <cstdlib>
#include <string_view>
#include <thread>

#include "framework/base/counted.h"
#include "framework/base/error.h"
#include "framework/base/parsed_number.h"
#include "parallel/comm/launcher.h"
#include "parallel/comm/location.h"
#include "parallel/comm/mpi_cards.h"

namespace hexad::comm {
namespace {

using base::cat;
using base::counted;
using base::ExitCode;

std::string text_of(int code) {
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(code, text.data(), &length);
  return std::string(text.data(), length);
}

void check(int code, const char* call) {
  if (code != MPI_SUCCESS) base::fail(ExitCode::communication, call, ": ", text_of(code));
}

Location my_location(int rank) {
  Location location;
  if (const char* node = std::getenv("HEXAD_NODE")) {
    location.set(node);
    return location;
  }
  std::array<char, MPI_MAX_PROCESSOR_NAME> name{};
  int length = 0;
  check(MPI_Get_processor_name(name.data(), &length), "MPI_Get_processor_name");
  location.set(std::string_view(name.data(), length));
  MPI_Comm node = MPI_COMM_NULL;
  check(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &node), "MPI_Comm_split_type");
  location.leader = rank;
  check(MPI_Bcast(&location.leader, 1, MPI_INT, 0, node), "MPI_Bcast");
  MPI_Comm_free(&node);
  return location;
}

// Returns the value of HEXAD_LOCAL_RANK; -1 if it is not set; -2 if it is not a whole number of at least 0.
int local_rank_of_environment() {
  const char* text = std::getenv("HEXAD_LOCAL_RANK");
  if (!text) return -1;
  const auto value = base::parsed_number<int>(text);
  return value && *value >= 0 ? *value : -2;
}

// Returns the smallest and the largest value of all ranks. Every rank gets both values, so that all ranks fail
// together. If only the rank with a wrong value failed, the other ranks would wait forever in their next collective.
std::pair<int, int> range_over_ranks(int value) {
  std::array<int, 2> range{-value, value};
  check(MPI_Allreduce(MPI_IN_PLACE, range.data(), 2, MPI_INT, MPI_MAX, MPI_COMM_WORLD), "MPI_Allreduce");
  return {-range[0], range[1]};
}

Topology discover(int rank, int size) {
  const int local = local_rank_of_environment();
  if (range_over_ranks(local).first == -2) {
    const char* text = std::getenv("HEXAD_LOCAL_RANK");
    base::fail(ExitCode::usage, "HEXAD_LOCAL_RANK is ", local == -2 ? cat("'", text, "'") : "wrong on another rank",
               "; expected a whole number of at least 0");
  }
  // HEXAD_NODE must be set on all ranks or on none, because my_location() is collective on ranks without it.
  int named = std::getenv("HEXAD_NODE") != nullptr, total = 0;
  check(MPI_Allreduce(&named, &total, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD), "MPI_Allreduce");
  if (total != 0 && total != size)
    base::fail(ExitCode::usage, "HEXAD_NODE is set on ", total, " of ", size,
               " ranks; set it on all of them or on none");
  const Location mine = my_location(rank);
  std::vector<Location> locations(size);
  check(MPI_Allgather(&mine, sizeof mine, MPI_BYTE, locations.data(), sizeof mine, MPI_BYTE, MPI_COMM_WORLD),
        "MPI_Allgather");

  Topology topology = topology_of(locations, rank);
  int takes_cards = mpi_takes_cards();
  check(MPI_Allreduce(MPI_IN_PLACE, &takes_cards, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD), "MPI_Allreduce");
  topology.takes_cards = takes_cards != 0;
  const int64_t pid = ::getpid();
  topology.pid_of_rank.resize(size);
  check(MPI_Allgather(&pid, 1, MPI_INT64_T, topology.pid_of_rank.data(), 1, MPI_INT64_T, MPI_COMM_WORLD),
        "MPI_Allgather");
  if (local >= 0) topology.local_rank = local;
  return topology;
}

std::string_view name_of_level(int level) {
  if (level == MPI_THREAD_SINGLE) return "MPI_THREAD_SINGLE";
  if (level == MPI_THREAD_FUNNELED) return "MPI_THREAD_FUNNELED";
  return level == MPI_THREAD_SERIALIZED ? "MPI_THREAD_SERIALIZED" : "MPI_THREAD_MULTIPLE";
}

class MpiTransport final : public Transport {
 public:
  explicit MpiTransport(int announced_size) {
    require_interface();
    int provided = 0;
    check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided), "MPI_Init_thread");
    if (provided < MPI_THREAD_FUNNELED) {  // MPI orders its thread levels by value
      MPI_Finalize();
      base::fail(ExitCode::communication, "MPI_Init_thread provides ", name_of_level(provided),
                 ", but one of several threads calls MPI here, which needs ", name_of_level(MPI_THREAD_FUNNELED),
                 " or more: use an MPI library that supports threads");
    }
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    int rank = 0, size = 0;
    check(MPI_Comm_rank(MPI_COMM_WORLD, &rank), "MPI_Comm_rank");
    check(MPI_Comm_size(MPI_COMM_WORLD, &size), "MPI_Comm_size");
    if (const auto [least, most] = range_over_ranks(announced_size); least != size || most != size) {
      MPI_Finalize();
      base::fail(ExitCode::usage, "the launcher announces ",
                 least == most ? counted(most, "rank") : cat(least, " to ", most, " ranks"), " but MPI sees ", size,
                 ": start with ", mpiexec_name(), ", or with ", srun_line());
    }
    topology_ = discover(rank, size);
    int* largest = nullptr;
    int known = 0;
    check(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, static_cast<void*>(&largest), &known), "MPI_Comm_get_attr");
    if (known) largest_tag_ = *largest;
  }
  ~MpiTransport() override {
    // Drops notes that have not been sent, because nothing depends on them.
    for (SentNote& note : sent_notes_) MPI_Request_free(&note.request);
    MPI_Finalize();
  }

  const Topology& topology() const override { return topology_; }
  int largest_tag() const override { return largest_tag_ - 1; }  // the last tag is reserved for notes

  void send(int to, int tag, const std::byte* data, int64_t bytes, uint64_t token, SendDone when) override {
    MPI_Request request;
    // MPI_Isend may complete as soon as MPI has copied the data. MPI_Issend completes only once the receiver takes the
    // message.
    if (when == SendDone::taken)
      check(MPI_Issend(data, int_of(bytes), MPI_BYTE, to, tag, MPI_COMM_WORLD, &request), "MPI_Issend");
    else
      check(MPI_Isend(data, int_of(bytes), MPI_BYTE, to, tag, MPI_COMM_WORLD, &request), "MPI_Isend");
    requests_.push_back(request);
    messages_.push_back({token, to, bytes, false});
  }

  void receive(int from, int tag, std::byte* data, int64_t bytes, uint64_t token) override {
    MPI_Request request;
    check(MPI_Irecv(data, int_of(bytes), MPI_BYTE, from, tag, MPI_COMM_WORLD, &request), "MPI_Irecv");
    requests_.push_back(request);
    messages_.push_back({token, from, bytes, true});
  }

  void program_waits(bool) override {}
  bool wake_with(std::function<void()>) override { return false; }
  void poll(std::vector<Done>& done) override {
    const int active = static_cast<int>(requests_.size());
    indices_.resize(requests_.size());
    statuses_.resize(requests_.size());
    int count = 0;
    const int code = MPI_Testsome(active, requests_.data(), &count, indices_.data(), statuses_.data());
    if (code != MPI_ERR_IN_STATUS) check(code, "MPI_Testsome");
    if (count <= 0) return;
    for (int i = 0; i < count; ++i) {
      const Message& message = messages_[indices_[i]];
      const MPI_Status& status = statuses_[i];
      done.push_back({message.token, error_of(message, status, code == MPI_ERR_IN_STATUS)});
    }
    compact();
  }

  std::vector<Pending> pending(uint64_t token) const override {
    std::vector<Pending> list;
    for (const Message& m : messages_)
      if (m.token == token) list.push_back({m.peer, m.receive});
    return list;
  }

  void send_note(int to, const std::string& text) override {
    std::erase_if(sent_notes_, [](SentNote& note) {
      int sent = 0;
      return MPI_Test(&note.request, &sent, MPI_STATUS_IGNORE) != MPI_SUCCESS || sent != 0;
    });
    SentNote& note = sent_notes_.emplace_back();
    note.text = std::make_unique<std::string>(text.substr(0, longest_note));
    // A note to a lost rank is dropped.
    if (MPI_Isend(note.text->data(), int_of(static_cast<int64_t>(note.text->size())), MPI_BYTE, to, note_tag(),
                  MPI_COMM_WORLD, &note.request) != MPI_SUCCESS)
      sent_notes_.pop_back();
  }

  void take_notes(std::vector<Note>& notes) override {
    while (true) {
      int there = 0, bytes = 0;
      MPI_Status status;
      check(MPI_Iprobe(MPI_ANY_SOURCE, note_tag(), MPI_COMM_WORLD, &there, &status), "MPI_Iprobe");
      if (!there) return;
      MPI_Get_count(&status, MPI_BYTE, &bytes);
      Note note{status.MPI_SOURCE, std::string(bytes, ' ')};
      // Does not wait: the data of a short message arrives together with its envelope.
      check(MPI_Recv(note.text.data(), bytes, MPI_BYTE, note.from, note_tag(), MPI_COMM_WORLD, MPI_STATUS_IGNORE),
            "MPI_Recv");
      notes.push_back(std::move(note));
    }
  }

  // Only exits if mpirun of Open MPI started the job: mpirun then ends all ranks, but MPI_Abort can crash mpirun
  // (docs/adr/0012). Under all other launchers, the remaining ranks might continue after an exit, so MPI_Abort ends
  // them. Hydra then also returns `code`.
  void abort(int code) override {
    if (started_by_mpirun()) std::_Exit(code);
    // At MPI_Abort, Hydra ends immediately and drops output of this rank that Hydra has not read yet, such as the
    // reason for the abort.
    if (started_by_hydra()) std::this_thread::sleep_for(std::chrono::milliseconds(200));
    MPI_Abort(MPI_COMM_WORLD, code);
  }

 private:
  struct SentNote {
    MPI_Request request = MPI_REQUEST_NULL;
    std::unique_ptr<std::string> text{};  // on the heap, so that the text does not move while MPI reads it
  };
  int note_tag() const { return largest_tag_; }

  struct Message {
    uint64_t token;
    int peer;
    int64_t bytes;
    bool receive;
  };

  static int int_of(int64_t bytes) {
    base::require(bytes <= INT_MAX, "[mpi] a message has ", bytes, " bytes; expected at most ", INT_MAX,
                  ", the limit of MPI");
    return static_cast<int>(bytes);
  }

  static std::string error_of(const Message& message, const MPI_Status& status, bool in_status) {
    const auto who = [&] { return cat(message.receive ? "receive from" : "send to", " rank ", message.peer); };
    if (in_status && status.MPI_ERROR != MPI_SUCCESS) return cat(who(), ": ", text_of(status.MPI_ERROR));
    if (!message.receive) return {};
    int arrived = 0;
    MPI_Get_count(&status, MPI_BYTE, &arrived);
    return arrived == message.bytes ? "" : cat(who(), ": ", arrived, " bytes arrived, expected ", message.bytes);
  }

  // Removes completed requests, which MPI_Testsome has set to MPI_REQUEST_NULL, from both lists.
  void compact() {
    size_t kept = 0;
    for (size_t i = 0; i < requests_.size(); ++i) {
      if (requests_[i] == MPI_REQUEST_NULL) continue;
      requests_[kept] = requests_[i];
      messages_[kept++] = messages_[i];
    }
    requests_.resize(kept);
    messages_.resize(kept);
  }

  Topology topology_;
  int largest_tag_ = 32767;  // minimum required by the MPI standard
  std::vector<SentNote> sent_notes_;
  std::vector<MPI_Request> requests_;  // one element for each message in messages_; an array, as MPI requires
  std::vector<Message> messages_;
  std::vector<int> indices_;
  std::vector<MPI_Status> statuses_;
};

}  // namespace

std::unique_ptr<Transport> connect_mpi(int announced_size) { return std::make_unique<MpiTransport>(announced_size); }

}  // namespace hexad::comm
